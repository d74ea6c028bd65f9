"""Tests of the rule `sync-dynamic-shape`: numbers worked out by hand.

The programs: results whose size only the GPU knows.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work
from tests.rules.host_work import compute, looping, read_value
from tests.rules.judging import findings, skipped, varied
from tests.rules.loader.test_dataloader_bound import fires_in_a_table


def select(host: Host, stream: Stream) -> None:
    """`x[mask]`: finds the selected elements, and waits for their number."""
    with host.op("aten::index"), host.op("aten::nonzero"):
        host.copy("DtoH", 8, stream, dur=1, wait=True)


def fires() -> TraceBuilder:
    """Each step selects by a mask; the GPU then waits 0.3 ms."""

    def step(host: Host, stream: Stream, number: int) -> None:
        compute(host, stream, 3000)
        select(host, stream)
        host.work(300)
        compute(host, stream, 500)
        host.wait(stream)

    return looping(step)


def quiet() -> TraceBuilder:
    """The mask is multiplied with: nothing has to be known."""

    def step(host: Host, stream: Stream, number: int) -> None:
        compute(host, stream, 3000)
        compute(host, stream, 20, "aten::where")
        host.work(300)
        compute(host, stream, 500)
        host.wait(stream)

    return looping(step)


def trap_detection() -> TraceBuilder:
    """A detector selects boxes many times, while the GPU computes on another stream."""
    other = Stream(9)

    def step(host: Host, stream: Stream, number: int) -> None:
        compute(host, other, 5000)
        for _ in range(10):
            select(host, stream)
            host.work(50)
        host.wait(stream, other)

    return looping(step)


def trap_another_wait() -> TraceBuilder:
    """The GPU runs dry, but after a value was read: that is another rule's."""

    def step(host: Host, stream: Stream, number: int) -> None:
        compute(host, stream, 3000)
        read_value(host, stream)
        host.work(300)
        compute(host, stream, 500)
        host.wait(stream)

    return looping(step)


RULE = "sync-dynamic-shape"


def test_the_idle_time_after_the_wait_goes_away() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    low, high = finding.saving.wall_ns_per_step
    # the second kernel starts 0.9 us after the copy as others do, at 3018.8 instead of 3336.4 us
    assert (low, high) == pytest.approx(varied(317_600))
    assert finding.evidence[0].where[0].name == "aten::nonzero"


def test_a_table_has_no_timeline() -> None:
    assert "no timeline" in (skipped(fires_in_a_table(), RULE) or "")


def fires_on_a_sort() -> TraceBuilder:
    """Each step sorts for 1 ms to find how many different numbers there are; the GPU then waits 0.1 ms of 4.6."""

    def step(host: Host, stream: Stream, number: int) -> None:
        compute(host, stream, 3000)
        with host.op("aten::_unique2"):
            host.launch(Work("DeviceRadixSortOnesweepKernel", 1000), stream)
            host.copy("DtoH", 8, stream, dur=1, wait=True)
        host.work(100)
        compute(host, stream, 500)
        host.wait(stream)

    return looping(step)


def test_what_the_operators_take_is_told_where_it_is_much() -> None:
    (finding,) = findings(fires_on_a_sort(), RULE)
    assert finding.severity == "medium"
    assert finding.summary.params["work"] == pytest.approx(1_001_000, rel=0.01)
    assert "nothing has to be sorted" in finding.advice.text
    (other,) = findings(fires(), RULE)
    assert "work" not in other.summary.params


@pytest.mark.parametrize(("experts", "found"), [(8, True), (40, False), (50_000, False)])
def test_a_loop_over_experts_is_told_to_multiply_them_at_once(experts: int, *, found: bool) -> None:
    """Tokens choose among experts, and for each of eight the program asks which ones did."""

    def step(host: Host, stream: Stream, number: int) -> None:
        with host.op("aten::topk", shapes=[[512, experts], [], [], [], []]):
            compute(host, stream, 3000)
        for _ in range(8):
            select(host, stream)
            host.work(300)
            compute(host, stream, 100)
        host.wait(stream)

    (finding,) = findings(looping(step), RULE)
    assert finding.action is not None
    assert (finding.action.text == "Multiply all experts at once") is found
