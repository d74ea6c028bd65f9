"""Tests of the rule `memory-growth`: numbers worked out by hand, and edges of thresholds.

The programs: levels of memory over steps.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.builders import TraceBuilder
from tests.builders.allocator import Allocator
from tests.builders.hardware import A100
from tests.builders.timeline import Host, Stream, Work, finish
from tests.builders.training import Training
from tests.rules.judging import findings, skipped
from tests.rules.loader.test_dataloader_bound import fires_in_a_table

MEGA = 2**20


def training(
    kept: Iterable[int],
    *,
    held: int = 1000 * MEGA,
    freed: Iterable[int] = (),
    device: int | None = 0,
    used: int = 100 * MEGA,
) -> TraceBuilder:
    """Steps that use memory and keep some bytes each; `freed` are steps that first give back all that was kept."""
    trace = TraceBuilder(options=("profile_memory",), **({} if device is not None else {"devices": ()}))
    host, stream, memory = Host(trace, at=10), Stream(), Allocator(device, held=held)
    mine: list[int] = []
    for number, size in enumerate(kept):
        with host.annotation(f"ProfilerStep#{number}"):
            if number in freed:
                while mine:
                    memory.free(host, mine.pop())
            with host.op("aten::mm"):
                address = memory.allocate(host, used)
                if device is not None:
                    host.launch(Work("ampere_sgemm_128x64_nn", 500), stream)
            if size:
                mine.append(memory.allocate(host, size))
            memory.free(host, address)
            if device is not None:
                host.wait(stream)
    return finish(trace)


def fires() -> TraceBuilder:
    """The running loss keeps every step's graph."""
    return training([40 * MEGA] * 8)


def fires_on_a_cpu() -> TraceBuilder:
    """The same program without a GPU."""
    return training([40 * MEGA] * 8, device=None)


def trap_small_growth_on_a_cpu() -> TraceBuilder:
    """Half a mebibyte per step beside weights that were there before the recording, so that the peak is low."""
    return training([MEGA // 2] * 8, held=0, device=None)


def quiet() -> TraceBuilder:
    """What a step takes, it gives back."""
    return training([0] * 8)


def trap_optimizer_state_of_the_first_step() -> TraceBuilder:
    """Adam makes its state in the first step, once."""
    return training([800 * MEGA, *[0] * 7])


def trap_caches_fill_slowly() -> TraceBuilder:
    """A few kilobytes per step: workspaces and caches."""
    return training([4096] * 8)


def trap_given_back_every_other_step() -> TraceBuilder:
    """Gradients accumulate for two steps and are then given back."""
    return training([200 * MEGA] * 8, freed=range(0, 8, 2))


def nearly_full() -> TraceBuilder:
    """The program of `fires`, on a device with little free memory."""
    return training([40 * MEGA] * 8, held=A100.memory - 2000 * MEGA)


def of_inner_operators() -> TraceBuilder:
    """An operator keeps what it allocates, beside one that does not."""
    trace = TraceBuilder(options=("profile_memory",), devices=())
    host, memory = Host(trace, at=10), Allocator(None, held=0)
    for number in range(8):
        with host.annotation(f"ProfilerStep#{number}"):
            with host.op("aten::index_select"):
                memory.allocate(host, 40 * MEGA)
            with host.op("aten::mm"):
                memory.free(host, memory.allocate(host, 100 * MEGA))
    return finish(trace)


RULE = "memory-growth"


def test_tells_when_the_device_will_be_full() -> None:
    (finding,) = findings(fires(), RULE)
    peak = (1000 + 100 + 8 * 40) * MEGA
    assert finding.summary.params["growth"] == pytest.approx(40 * MEGA, rel=0.01)
    assert finding.summary.params["left"] == pytest.approx((A100.memory - peak) / (40 * MEGA), rel=0.02)
    assert finding.saving is None


def test_activations_do_not_hide_what_is_kept() -> None:
    """Images of 12 MiB stay, beside activations of 6 GiB: 12 of about 260 MiB, which are held between steps."""
    found = training([12 * MEGA] * 8, held=200 * MEGA, used=6000 * MEGA)
    (finding,) = findings(found, RULE)
    assert finding.summary.params["share"] == pytest.approx(12 / (200 + 5 * 12), rel=0.01)


def test_without_a_gpu_the_memory_of_the_host_counts() -> None:
    (finding,) = findings(fires_on_a_cpu(), RULE)
    assert finding.summary.params["device"] == "CPU"
    assert finding.summary.params["growth"] == pytest.approx(40 * MEGA, rel=0.01)
    assert "cuda" not in finding.advice.text
    assert findings(trap_small_growth_on_a_cpu(), RULE, {"growth_share": 0.0}) == []


def test_names_what_is_never_freed_where_no_graph_is_seen_to_grow() -> None:
    (finding,) = findings(fires_on_a_cpu(), RULE)
    assert finding.code is None, "nothing shows that a graph is kept"
    (kept,) = findings(of_inner_operators(), RULE)
    assert kept.advice.params["operators"] == "aten::index_select"


def test_shows_where_to_detach_if_graphs_of_earlier_steps_are_evaluated() -> None:
    loop = Training(trace=TraceBuilder(options=("profile_memory",), devices=()), gpu=False)
    memory, earlier = Allocator(None, held=0), []
    for _ in range(8):
        with loop.iteration():
            earlier += loop.forward()
            loop.backward(earlier)
            memory.allocate(loop.host, 40 * MEGA)
    (finding,) = findings(loop.finish(), RULE)
    assert finding.code is not None
    assert "detach" in finding.code


def test_is_more_urgent_on_a_full_device() -> None:
    assert findings(nearly_full(), RULE, {"growth_share": 0.0})[0].severity == "high"


def test_edge_steps() -> None:
    assert findings(training([40 * MEGA] * 6), RULE)
    assert "at least 6" in (skipped(training([40 * MEGA] * 5), RULE) or "")
    assert findings(training([40 * MEGA] * 5), RULE, {"steps": 4})


def test_a_table_has_no_levels() -> None:
    assert "no memory levels" in (skipped(fires_in_a_table(), RULE) or "")
