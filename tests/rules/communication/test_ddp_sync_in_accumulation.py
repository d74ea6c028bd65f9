"""Tests of the rule `ddp-sync-in-accumulation`: numbers worked out by hand, and edges of thresholds.

The programs: exchanges of gradients, once and several times per update.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.gloo import GlooTraining
from tests.builders.training import Training
from tests.rules.judging import findings, skipped, table, varied


def training(reduces: list[int], *, steps: int = 3, reduce_dur: list[int] | None = None) -> TraceBuilder:
    """Steps with one backward pass per entry, each with so many all-reduces."""
    loop = Training()
    for _ in range(steps):
        with loop.iteration():
            loop.zero_grad()
            for number, count in enumerate(reduces):
                dur = reduce_dur[number] if reduce_dur else 100
                loop.backward(loop.forward(), reduces=count, reduce_dur=dur)
            loop.step()
    return loop.finish()


def fires() -> TraceBuilder:
    """Four passes, and each exchanges all gradients."""
    return training([5, 5, 5, 5])


def quiet() -> TraceBuilder:
    """One pass per update."""
    return training([5])


def trap_no_sync() -> TraceBuilder:
    """Only the last pass exchanges."""
    return training([0, 0, 0, 5])


def trap_statistics() -> TraceBuilder:
    """Early passes exchange a loss, the last one all gradients."""
    return training([5, 5, 5, 5], reduce_dur=[2, 2, 2, 100])


def trap_sharded() -> TraceBuilder:
    """Sharded gradients are reduced and scattered after each pass, because whole ones have no room."""
    trace = training([5, 5, 5, 5])
    for event in trace.events:
        name = str(event["name"]).replace("AllReduce", "ReduceScatter").replace("all_reduce", "reduce_scatter")
        event["name"] = name
    return trace


def trap_several_optimizers() -> TraceBuilder:
    """Each pass is followed by its own update."""
    loop = Training()
    for _ in range(3):
        with loop.iteration():
            for _ in range(2):
                loop.zero_grad()
                loop.backward(loop.forward(), reduces=5)
                loop.step()
    return loop.finish()


def trap_gpu_projection() -> TraceBuilder:
    """Ranges of the optimizer on the stream end no update."""
    loop = Training()
    for _ in range(3):
        with loop.iteration():
            loop.backward(loop.forward(), reduces=5)
            loop.trace.gpu_annotation("Optimizer.step#SGD.step", loop.host.now // 1000, 5, external_id=1)
            loop.step()
    return loop.finish()


def in_a_table() -> str:
    """A printed table of such a program."""
    return table([{"Name": "nccl:all_reduce", "Self CPU": "1.000ms", "# of Calls": 3}], cpu="1.000ms")


def over_gloo(reduces: list[list[int]]) -> TraceBuilder:
    """Three steps on the CPU with one backward pass per entry, each of which waits for these all-reduces."""
    loop = GlooTraining()
    for number in range(3):
        with loop.host.annotation(f"ProfilerStep#{number}"):
            for lengths in reduces:
                loop.forward()
                loop.backward(lengths)
            loop.update()
    return loop.finish()


def fires_over_gloo() -> TraceBuilder:
    """Three passes, each with an all-reduce of 600 us."""
    return over_gloo([[600], [600], [600]])


def trap_no_sync_over_gloo() -> TraceBuilder:
    """Only the last pass exchanges."""
    return over_gloo([[], [], [600]])


RULE = "ddp-sync-in-accumulation"


def test_all_but_the_last_exchange_go_away() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == 9, "three of four passes, in three steps"
    assert finding.saving is not None
    assert finding.saving.resource == "communication"
    early = 3 * 5 * 100_000
    assert finding.saving.direct_ns_per_step == pytest.approx((early, early))
    assert finding.saving.wall_ns_per_step == pytest.approx(varied(early / 2, early)), "nothing else runs meanwhile"


def test_two_passes() -> None:
    (finding,) = findings(training([3, 3]), RULE)
    assert finding.evidence[0].observed == 3
    assert finding.summary.params["passes"] == 6


def test_a_table_cannot_tell() -> None:
    assert "which pass" in (skipped(in_a_table(), RULE) or "")


def test_edge_early_exchanges() -> None:
    assert findings(training([3, 3], steps=1), RULE) == []
    assert findings(training([3, 3], steps=2), RULE)


def test_on_the_cpu_threads_that_communicate_are_timed() -> None:
    """Two of three all-reduces of 600 us, which nothing hides: at least half of them; at most 1.35 times
    them and starting them."""
    (finding,) = findings(fires_over_gloo(), RULE)
    assert finding.evidence[0].observed == 6
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((600_000, 1.35 * (1_200_000 + 2 / 3 * 15_000)))
    assert finding.saving.resource == "host"
