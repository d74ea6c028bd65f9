"""What each resource is in use for, where the recording has no steps."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.structure import resources
from traceanalyzer.structure.context import Context


def test_calls_before_the_device_begins_are_the_hosts_part_of_a_recording_without_operators() -> None:
    """`activities=[CUDA]` records calls and device events alone; the step begins with the first of the latter."""
    trace = TraceBuilder()
    for number in range(4):
        trace.launch_kernel("gemm", 5000 + 1000 * number, 900, at=100 * number, call_dur=50)
    found = resources.analyze(Context(read_built(trace)))
    assert found.step_ns == 3_900_000
    assert found.host_ns == 350_000


def waiting(*calls: tuple[int, int]) -> resources.StepResources:
    """Two steps with a kernel from 20 to 120 us each, and calls that wait, by start and end in the step."""
    trace = TraceBuilder()
    for number in range(2):
        begin = 1000 * number
        trace.step(number, begin, 900)
        trace.launch_kernel("gemm", begin + 20, 100, at=begin + 5, call_dur=5)
        for start, end in calls:
            trace.launch("cudaStreamSynchronize", begin + start, end - start)
    return resources.analyze(Context(read_built(trace)))


def test_the_time_in_which_a_wait_returns_is_the_hosts() -> None:
    """The device is done at 120 us: a call that returns 4 us later waited for 90 us."""
    assert waiting((30, 124)).waiting_ns == 90_000


def test_a_call_after_which_nothing_is_awaited_waits_for_nothing() -> None:
    assert waiting((200, 205)).waiting_ns == 0


def test_a_long_wait_for_what_was_not_recorded_is_one() -> None:
    """30 us after the device's last event: nobody returns for so long."""
    assert waiting((30, 150)).waiting_ns == 120_000
    assert waiting((200, 500)).waiting_ns == 300_000
