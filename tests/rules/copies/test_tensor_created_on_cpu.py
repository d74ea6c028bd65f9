"""Tests of the rule `tensor-created-on-cpu`: numbers worked out by hand, and edges of thresholds.

The programs: tensors made on the CPU, and where they go.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work
from tests.reading import plain
from tests.rules.host_work import compute, looping, read_value
from tests.rules.judging import findings, report, skipped
from tests.rules.loader.test_dataloader_bound import fires_in_a_table

SHAPE = [[256, 1024]]
BYTES = 4 * 256 * 1024


def make(host: Host, dur: int, shape: list[list[int]] = SHAPE) -> None:
    """`torch.zeros(256, 1024)` on the CPU."""
    with host.op("aten::zeros"):
        host.leaf("aten::empty", 3)
        host.leaf("aten::zero_", dur, shapes=shape, types=["float"])


def move(host: Host, stream: Stream) -> None:
    """`.to(device)` of a tensor of that shape."""
    with host.op("aten::to"), host.op("aten::_to_copy"), host.op("aten::copy_", shapes=SHAPE * 2, types=["float"] * 2):
        host.copy("HtoD", BYTES, stream, dur=100, wait=True)


def fires() -> TraceBuilder:
    """Each step fills a tensor for 150 us and moves it."""

    def step(host: Host, stream: Stream, number: int) -> None:
        make(host, 150)
        move(host, stream)
        compute(host, stream, 2000)
        host.wait(stream)

    return looping(step)


def quiet() -> TraceBuilder:
    """Each step fills a tensor on the GPU."""

    def step(host: Host, stream: Stream, number: int) -> None:
        with host.op("aten::zeros"):
            host.leaf("aten::empty", 3)
            with host.op("aten::zero_", shapes=SHAPE, types=["float"]):
                host.launch(Work("vectorized_elementwise_kernel", 3), stream)
        compute(host, stream, 2000)
        host.wait(stream)

    return looping(step)


def trap_constant_made_once() -> TraceBuilder:
    """A mask is made and moved before the loop."""

    def prepare(host: Host, stream: Stream, number: int) -> None:
        make(host, 150)
        move(host, stream)

    def step(host: Host, stream: Stream, number: int) -> None:
        compute(host, stream, 2000)
        host.wait(stream)

    return looping(step, prepare=prepare)


def trap_batch_of_the_loader() -> TraceBuilder:
    """The tensor that is moved is another one: of another shape."""

    def step(host: Host, stream: Stream, number: int) -> None:
        make(host, 150, [[7]])
        move(host, stream)
        compute(host, stream, 2000)
        host.wait(stream)

    return looping(step)


RULE = "tensor-created-on-cpu"


def test_making_and_moving_go_away_but_for_a_launch() -> None:
    trace = fires()
    (finding,) = findings(trace, RULE)
    (row,) = plain(report(trace, RULE))["host_origins"]["rows"]
    time = (row["making_ns"] + row["moving_ns"]) / 4
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == (time - 20_000, time)
    place = finding.evidence[0].where[0]
    assert (place.name, place.shapes) == ("aten::zeros", str(SHAPE[0]))
    assert finding.severity == "high", "by its share of the step"


def fires_without_marks() -> TraceBuilder:
    """No step is marked; the program draws noise for 2 ms, moves it, and computes, eight times."""

    def passes(host: Host, stream: Stream, number: int) -> None:
        for _ in range(8):
            with host.op("aten::randn"):
                host.leaf("aten::normal_", 2000, shapes=SHAPE, types=["float"])
            move(host, stream)
            for _ in range(4):
                compute(host, stream, 300)
            read_value(host, stream)

    return looping(lambda *_: None, steps=0, prepare=passes)


def test_steps_of_repeated_operators_are_enough() -> None:
    (finding,) = findings(fires_without_marks(), RULE)
    assert finding.severity == "critical"
    assert finding.summary.params["calls"] == 1
    assert finding.summary.params["time"] > 2_000_000
    rules = {each.rule for each in report(fires_without_marks()).findings}
    assert not rules & {"operators-on-cpu", "gpu-underutilized", "host-python-gap"}


def test_without_steps_it_is_skipped() -> None:
    def step(host: Host, stream: Stream, number: int) -> None:
        make(host, 150)
        move(host, stream)
        compute(host, stream, 2000)

    trace = looping(lambda *_: None, steps=0, prepare=step)
    assert "no step is marked" in (skipped(trace, RULE) or "")
    assert "which tensor" in (skipped(fires_in_a_table(), RULE) or "")


def test_edge_calls_per_step() -> None:
    assert findings(fires(), RULE, {"calls_per_step": 1})
    assert findings(fires(), RULE, {"calls_per_step": 1.01}) == []


def test_share_of_the_step() -> None:
    assert findings(fires(), RULE)[0].evidence[0].observed == pytest.approx(0.12, abs=0.01)
