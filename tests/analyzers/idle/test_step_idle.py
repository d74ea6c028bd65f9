"""Idle time in steady steps, by hand."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers.idle import step_idle
from traceanalyzer.analyzers.idle.step_idle import DeviceInSteps, StepIdle
from traceanalyzer.structure.context import Context

US = 1000


def analyzed(trace: TraceBuilder) -> StepIdle:
    context = Context(read_built(trace))
    assert step_idle.ANALYSES[0].missing(context) is None
    return step_idle.analyze(context)


def kernels(trace: TraceBuilder, *starts: int, dur: int = 10) -> None:
    """Kernels that start at once when their launch returns, 4 us after it began."""
    for start in starts:
        trace.launch_kernel("k", start, dur, at=start - 4, call_dur=4)


def times(device: DeviceInSteps) -> dict[str, tuple[int, int]]:
    """Microseconds by cause, all and in gaps of launching."""
    return {row.cause: (row.time_ns // US, row.launching_ns // US) for row in device.causes if row.time_ns}


def test_time_between_steps_and_after_the_last_event_does_not_count() -> None:
    trace = TraceBuilder()
    trace.step(0, 0, 100)
    kernels(trace, 10, 40, 80)
    trace.step(1, 1000, 100)
    kernels(trace, 1010, 1025, 1040)
    found = analyzed(trace)
    (device,) = found.devices
    assert (found.steps, found.warm_up_steps, found.steps_from) == (2, 0, "ProfilerStep")
    assert device.time_ns == (100 + 50) * US
    assert device.busy_ns == 60 * US
    assert device.events == 6
    assert sum(row.time_ns for row in device.causes) == device.time_ns - device.busy_ns


def test_short_gaps_are_those_of_launching() -> None:
    trace = TraceBuilder()
    trace.step(0, 0, 1000)
    kernels(trace, 10, 40, 70, 100, 900)  # a launch every 30 us, so gaps of up to 300 us are launching
    (device,) = analyzed(trace).devices
    assert device.launching_limit_ns == 300 * US
    assert device.launching_gaps == 4
    assert times(device) == {"launch_bound": (5 * 4, 4 * 4), "host_code": (6 + 3 * 16 + 786, 6 + 3 * 16)}
    assert device.typical_host_gap_ns == 790 * US
    (gap,) = device.host_gaps
    assert (gap.python_line, gap.operator, gap.gaps, gap.longest_ns) == (None, None, 1, 790 * US)


def test_stacks_make_python_code_in_short_gaps_something_else() -> None:
    trace = TraceBuilder()
    trace.step(0, 0, 1000)
    trace.python_function("model.py(7): forward", 0, 1000)
    kernels(trace, 10, 100, 190, 280)
    found = analyzed(trace)
    (device,) = found.devices
    assert found.has_stacks
    assert device.typical_host_gap_ns == 3 * 76 * US, "without the launches of 4 us"
    assert device.host_gaps[0].python_line == "model.py(7): forward"
    assert times(device) == {"launch_bound": (4 * 4, 4 * 4), "host_code": (6 + 3 * 76, 6)}, "6 us are in a gap of 10"


def test_places_of_launching_and_of_python_code_are_the_gaps_that_were_counted() -> None:
    """Python runs for 46 us of a gap of 50, and for 36 of one of 40, which counts with the launches of 4 us."""
    trace = TraceBuilder()
    trace.step(0, 0, 1000)
    trace.python_function("model.py(7): forward", 0, 1000)
    kernels(trace, 10, 70, 120)
    context = Context(read_built(trace))
    (device,) = step_idle.analyze(context).devices
    assert times(device) == {"launch_bound": (3 * 4, 3 * 4), "host_code": (6 + 46 + 36, 6 + 36)}
    places = {
        False: step_idle.launching_gaps_at(waits=False).found(context),
        True: step_idle.long_gaps_at(waits=False).found(context),
    }
    lengths = {is_long: sum(int((each.end_ns - each.start_ns).sum()) for each in at) for is_long, at in places.items()}
    assert lengths == {False: (3 * 4 + 6 + 36) * US, True: 46 * US}
    assert sum(row.launching_ns for row in device.causes) == lengths[False]
    assert device.typical_host_gap_ns == lengths[True]


def test_the_typical_step_is_the_median_of_all_but_the_first() -> None:
    trace = TraceBuilder()
    for number, gap in enumerate((500, 0, 300, 300)):
        start = 1000 * number
        trace.step(number, start, 1000)
        kernels(trace, *range(start + 20, start + 220, 20), *range(start + 220 + gap, start + 1000, 20))
    assert analyzed(trace).devices[0].typical_host_gap_ns == 310 * US


def test_steps_that_wait_for_code_are_left_out() -> None:
    trace = TraceBuilder()
    trace.step(0, 0, 1000)
    trace.launch("cuModuleLoadData", 20, 500)
    kernels(trace, 600)
    trace.step(1, 1000, 100)
    kernels(trace, 1010, 1050)
    found = analyzed(trace)
    assert (found.steps, found.warm_up_steps) == (1, 1)
    assert found.devices[0].busy_ns == 20 * US


def test_of_a_single_cold_step_the_warm_rest_counts() -> None:
    """The gap of 580 us in which a library is loaded does not count, those of 30 us after it do."""
    trace = TraceBuilder()
    trace.step(0, 0, 1000)
    trace.launch("cuModuleLoadData", 20, 500)
    kernels(trace, 600, 640, 680, dur=10)
    found = analyzed(trace)
    assert (found.steps, found.warm_up_steps) == (1, 0)
    assert found.devices[0].busy_ns == 30 * US
    assert sum(cause.time_ns for cause in found.devices[0].causes) == 60 * US


def test_parts_of_the_window_tell_whether_a_device_is_busy_all_the_time() -> None:
    trace = TraceBuilder()
    trace.step(0, 0, 1000)
    trace.launch_kernel("k", 0, 500, at=0, call_dur=1)
    trace.launch_kernel("k", 990, 10, at=980, call_dur=4)
    (device,) = analyzed(trace).devices
    assert (device.low_busy_share, device.high_busy_share) == (0.0, 1.0)


def test_without_kernels_there_is_a_reason() -> None:
    trace = TraceBuilder()
    trace.step(0, 0, 10)
    reason = step_idle.ANALYSES[0].missing(Context(read_built(trace)))
    assert reason is not None
    assert "no kernel" in reason.text


def test_steps_that_are_unlike_the_others_do_not_count() -> None:
    """Idle time of a step is 60 us; 220 us in the one that is left out, and 10 us less at the end of the recording."""
    trace, start = TraceBuilder(), 0
    for number, gap in enumerate((20, 20, 100, 20)):
        trace.step(number, start, 80 + 2 * gap)
        kernels(trace, start + 10, start + 30 + gap, start + 50 + 2 * gap, dur=20)
        start += 80 + 2 * gap
    found = analyzed(trace)
    (device,) = found.devices
    assert (found.steps, found.warm_up_steps) == (3, 0)
    assert (device.time_ns, device.busy_ns, device.events) == (350 * US, 180 * US, 9)
    assert sum(row.launching_ns for row in device.causes) == 170 * US


def test_steps_are_those_of_the_program() -> None:
    """The profiler marked none, but an annotation repeats and fills the thread."""
    trace = TraceBuilder()
    for number in range(4):
        trace.annotation("train iteration", 100 * number, 100)
        kernels(trace, *(100 * number + at for at in (10, 40, 80)))
    found = analyzed(trace)
    assert (found.steps, found.steps_from) == (4, "train iteration")
    assert found.devices[0].events == 12


def test_a_call_that_waits_for_a_copy_that_has_blocked_is_no_further_wait() -> None:
    """Two waits of their own are two, however soon one follows the other."""
    trace = TraceBuilder()
    trace.step(0, 0, 1000)
    kernels(trace, 10)
    trace.launch("cudaMemcpy", 100, 20)
    trace.launch("cudaStreamSynchronize", 123, 2)
    trace.launch("cudaStreamSynchronize", 132, 11)
    trace.launch("cudaStreamSynchronize", 152, 11)
    found = analyzed(trace)
    assert (found.waits, found.waits_apart) == (4, 3)
