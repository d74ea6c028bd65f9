"""Tests of the rule `sync-device-wide`: numbers worked out by hand, and edges of thresholds.

The programs: waits for the whole device.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream
from tests.rules.host_work import compute, looping
from tests.rules.judging import findings, skipped, table, varied

CALL = "cudaDeviceSynchronize"


def synchronizing(*, middle: bool, edges: bool = False, pause: int = 300, every: int = 1) -> TraceBuilder:
    """Steps of two pieces that wait for the device between them, or before and after them."""

    def step(host: Host, stream: Stream, number: int) -> None:
        if edges:
            host.wait(stream, call=CALL)
        compute(host, stream, 3000)
        if middle and number % every == 0:
            host.wait(stream, call=CALL)
        host.work(pause)
        compute(host, stream, 1000)
        if edges:
            host.wait(stream, call=CALL)
            host.work(pause)

    return looping(step, steps=6)


def fires() -> TraceBuilder:
    """Each step waits in its middle; the GPU then waits 0.3 ms."""
    return synchronizing(middle=True)


def fires_in_a_table() -> str:
    """Ten waits of 3 ms in ten steps, and the profiler's."""
    return printed(11)


def quiet() -> TraceBuilder:
    """A program whose steps never wait."""
    return synchronizing(middle=False)


def quiet_in_a_table() -> str:
    """A printed table without such a call."""
    return printed(None)


def trap_final_wait_of_the_profiler() -> str:
    """One call in ten steps."""
    return printed(1)


def trap_benchmark() -> TraceBuilder:
    """The program waits before and after the part that it measures."""
    return synchronizing(middle=False, edges=True)


def printed(calls: int | None) -> str:
    """A table of ten steps with some such calls."""
    rows = [
        {
            "Name": "ProfilerStep*",
            "Self CPU": "60.000ms",
            "CPU total": "100.000ms",
            "Self CUDA": "0.000us",
            "# of Calls": 10,
        },
        {
            "Name": "aten::mm",
            "Self CPU": "10.000ms",
            "CPU total": "10.000ms",
            "Self CUDA": "50.000ms",
            "# of Calls": 10,
        },
    ]
    if calls is not None:
        time = {"Self CPU": "30.000ms", "CPU total": "30.000ms", "Self CUDA": "0.000us", "# of Calls": calls}
        rows.append({"Name": CALL, **time})
    return table(rows, cpu="100.000ms", device="50.000ms")


RULE = "sync-device-wide"


def test_the_idle_time_after_the_wait_goes_away() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    low, high = finding.saving.wall_ns_per_step
    # the second kernel starts 0.9 us after the first as others do, at 3016.9 instead of 3332.5 us
    assert (low, high) == pytest.approx(varied(315_600))
    assert finding.evidence[0].where[0].name == CALL


def test_a_table_gives_at_most_the_waits() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step == (0, 3_000_000)
    assert finding.evidence[0].observed == 1.0, "eleven calls in ten steps, less the profiler's own"


def test_a_table_without_steps_is_skipped() -> None:
    row = {"Name": CALL, "Self CPU": "9.000ms", "CPU total": "9.000ms", "Self CUDA": "0.000us", "# of Calls": 99}
    assert "how many steps" in (skipped(table([row], cpu="9.000ms", device="1.000ms"), RULE) or "")


def test_edge_calls_per_step() -> None:
    assert findings(synchronizing(middle=True, every=2), RULE), "in 3 of 6 steps"
    assert findings(synchronizing(middle=True, every=3), RULE) == []
