"""Idle time of streams by HTA's three causes."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers import idle
from traceanalyzer.analyzers.idle import GapStatistics, StreamIdle
from traceanalyzer.structure.context import Context

US = 1000
NONE = GapStatistics(0, 0, None, None)


def streams(trace: TraceBuilder) -> tuple[StreamIdle, ...]:
    return idle.analyze(Context(read_built(trace))).streams


def test_a_gap_is_judged_by_the_launch_of_what_ends_it() -> None:
    trace = TraceBuilder()
    trace.step(1, 0, 1000)
    trace.launch_kernel("a", 10, 10, at=0)  # 0 to 10: before the first
    trace.launch_kernel("b", 49, 1, at=5)  # launched in time, 29 us
    trace.launch_kernel("c", 80, 10, at=15)  # launched in time, 30 us
    trace.launch_kernel("d", 100, 10, at=91)  # launched 1 us after the gap began
    trace.launch_kernel("e", 130, 20, at=111)
    trace.kernel("f", 160, 40)  # nobody knows its launch: 10 us
    trace.launch_kernel("g", 240, 60, at=200)  # launched as the gap began: 40 us
    (stream,) = streams(trace)
    assert stream == StreamIdle(
        device=0,
        stream=7,
        busy_ns=151 * US,
        idle_ns=849 * US,
        host_wait=GapStatistics(2, 30 * US, 15.0 * US, 20 * US),
        kernel_wait=GapStatistics(2, 39 * US, 19.5 * US, 29 * US),
        other=GapStatistics(2, 70 * US, 35.0 * US, 40 * US),
        edge_ns=710 * US,
    )


def test_streams_and_devices_are_told_apart() -> None:
    trace = TraceBuilder()
    trace.step(1, 0, 100)
    trace.launch_kernel("a", 10, 90, at=0, stream=7)
    trace.launch_kernel("b", 20, 80, at=5, stream=3)
    trace.launch_kernel("c", 30, 70, at=10, stream=7, device=1)
    found = [(stream.device, stream.stream, stream.idle_ns // US) for stream in streams(trace)]
    assert found == [(0, 3, 20), (0, 7, 10), (1, 7, 30)]


def test_a_gap_across_the_border_counts_within_it_but_is_judged_whole() -> None:
    trace = TraceBuilder()
    trace.launch_kernel("a", 10, 10, at=0)
    trace.launch_kernel("b", 120, 80, at=5)
    trace.step(1, 100, 100)
    (stream,) = streams(trace)
    assert (stream.kernel_wait, stream.other) == (NONE, GapStatistics(1, 20 * US, 20.0 * US, 20 * US))
