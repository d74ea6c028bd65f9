"""Idle time that waits explain, by hand."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers.idle import step_idle
from traceanalyzer.analyzers.idle.step_idle import DeviceInSteps, StepIdle
from traceanalyzer.structure.context import Context

US = 1000


def analyzed(trace: TraceBuilder) -> StepIdle:
    return step_idle.analyze(Context(read_built(trace)))


def explained(device: DeviceInSteps) -> int:
    return sum(row.after_waits_ns for row in device.causes) // US


def waiting(wait: int, *gaps: int) -> TraceBuilder:
    """A kernel of 100 us, for whose last part the host waits; then kernels of 10 us, launched late by some times."""
    trace = TraceBuilder()
    trace.step(0, 0, 1000)
    trace.launch_kernel("k", 10, 100, at=6, call_dur=4)
    trace.launch("cudaStreamSynchronize", 110 - wait, wait + 2)
    start = 110
    for gap in gaps:
        start += gap
        trace.launch_kernel("k", start, 10, at=start - 4, call_dur=4)
        start += 10
    return trace


def test_gaps_count_until_they_add_up_to_the_waiting() -> None:
    found = analyzed(waiting(60, 20, 20, 30))
    (device,) = found.devices
    assert found.waits == 1
    assert explained(device) == 60, "20 + 20 + 20 of 30 us"
    assert device.launching_gaps_after_waits == 3
    assert explained(analyzed(waiting(90, 20, 20, 30)).devices[0]) == 70


def test_python_code_that_stacks_show_is_no_launching_after_a_wait() -> None:
    """Waiting for 90 us explains gaps of 20 and 60 us, and 10 of the last 20.

    Of the first gap the host takes 14 us, after the wait; of the second 56, with a launch of 4; of the third 8 of 10.
    """
    plain, stacked = waiting(90, 20, 60, 20), waiting(90, 20, 60, 20)
    stacked.python_function("train.py(7): step", 0, 1000)
    for trace, launching in ((plain, 14 + 56 + 8), (stacked, 14 + 8)):
        (device,) = analyzed(trace).devices
        (row,) = [row for row in device.causes if row.cause == "host_code"]
        assert (row.after_waits_ns, row.launching_after_waits_ns) == ((14 + 56 + 8) * US, launching * US)
        assert explained(device) == 90


def test_waiting_for_a_device_that_does_nothing_makes_no_credit() -> None:
    """The host waits for 5 us while the device works, and 40 us long without a reason."""
    trace = waiting(5, 60, 20)
    trace.launch("cudaStreamSynchronize", 115, 40)
    (device,) = analyzed(trace).devices
    assert explained(device) == 5
    assert device.launching_gaps_after_waits == 0


def test_what_comes_before_a_wait_is_not_due_to_it() -> None:
    trace = TraceBuilder()
    trace.step(0, 0, 1000)
    for start in (10, 40, 70):
        trace.launch_kernel("k", start, 10, at=start - 4, call_dur=4)
    trace.launch("cudaStreamSynchronize", 74, 10)
    (device,) = analyzed(trace).devices
    assert explained(device) == 0
