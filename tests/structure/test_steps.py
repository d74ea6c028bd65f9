"""Where steps begin and end (METRICS: P2), on traces small enough to follow by hand. Times are microseconds."""

from __future__ import annotations

import pytest

from tests.builders import OLD, TraceBuilder
from tests.reading import read_built
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.steps import Steps

Bounds = list[tuple[str, int, int]]


def in_microseconds(steps: Steps) -> Bounds:
    starts, ends = (steps.start_ns // 1000).tolist(), (steps.end_ns // 1000).tolist()
    return list(zip(steps.names, starts, ends, strict=True))


def steps_of(trace: TraceBuilder) -> Steps:
    return Context(read_built(trace)).steps


def launched(trace: TraceBuilder, at: int, start: int, end: int, call_dur: int = 5) -> None:
    """A kernel from start to end, launched at a time."""
    trace.launch_kernel("k", start, end - start, at=at, call_dur=call_dur)


def three_steps(*kernels: tuple[int, int, int]) -> TraceBuilder:
    """Steps 4, 5, 6 of 100 us each from 0 on, and kernels (launch, start, end)."""
    trace = TraceBuilder()
    for number in range(3):
        trace.step(4 + number, 100 * number, 100)
    for at, start, end in kernels:
        launched(trace, at, start, end)
    return trace


@pytest.mark.parametrize(
    ("kernels", "bounds"),
    [
        pytest.param([], [(0, 100), (100, 200), (200, 300)], id="without device events as marked"),
        pytest.param(
            [(10, 20, 50), (110, 120, 150), (210, 220, 250)],
            [(0, 100), (100, 200), (200, 300)],
            id="kernels that end in time change nothing",
        ),
        pytest.param(
            [(90, 110, 130), (190, 195, 240), (290, 295, 320)],
            [(0, 130), (130, 240), (240, 320)],
            id="until the last kernel that was launched within, and the next one only then",
        ),
        pytest.param(
            [(10, 20, 90), (20, 90, 250), (110, 250, 260), (210, 260, 270)],
            [(0, 250), (250, 260), (260, 300)],
            id="a step may end in the step after the next",
        ),
        pytest.param(
            [(10, 20, 350), (210, 360, 380), (220, 380, 390)],
            [(0, 350), (350, 350), (350, 390)],
            id="a step without device events may vanish",
        ),
        pytest.param(
            [(10, 20, 400), (110, 120, 150), (210, 400, 420)],
            [(0, 400), (400, 400), (400, 420)],
            id="a step whose device events end before it may begin has no length",
        ),
        pytest.param(
            [(10, 20, 50), (98, 110, 180), (110, 180, 190), (210, 220, 230)],
            [(0, 100), (100, 200), (200, 300)],
            id="a launch across the end of a step belongs to none",
        ),
        pytest.param(
            [(95, 120, 140), (110, 140, 150), (210, 220, 230)],
            [(0, 140), (140, 200), (200, 300)],
            id="a launch that ends with the step belongs to it",
        ),
        pytest.param(
            [(100, 120, 230), (10, 20, 30), (210, 230, 235)],
            [(0, 100), (100, 230), (230, 300)],
            id="a launch that begins with the step belongs to it",
        ),
    ],
)
def test_extension(kernels: list[tuple[int, int, int]], bounds: list[tuple[int, int]]) -> None:
    found = steps_of(three_steps(*kernels))
    assert in_microseconds(found) == [(str(4 + i), *bound) for i, bound in enumerate(bounds)]
    assert found.found_by == "ProfilerStep"
    assert found.window == (bounds[0][0] * 1000, bounds[-1][1] * 1000)


def leftover(*events: tuple[int, int], first: tuple[int, int, int] = (20, 60, 80)) -> Steps:
    """A step from 0 to 100 with one kernel of its own, and device events without any launch."""
    trace = TraceBuilder(origin=1000)
    trace.op("aten::before", -50, 1)
    trace.step(1, 0, 100)
    launched(trace, *first)
    for start, end in events:
        trace.memcpy("HtoD", 4, start, end - start)
    return steps_of(trace)


@pytest.mark.parametrize(
    ("events", "start"),
    [
        pytest.param([], 0, id="none"),
        pytest.param([(-30, 30)], 30, id="one that ends before the first own kernel"),
        pytest.param([(-30, 30), (-5, 59), (-40, -35)], 59, id="the last of them counts"),
        pytest.param([(-30, 60)], 0, id="ends when the first own kernel starts"),
        pytest.param([(-30, 70)], 0, id="ends later"),
        pytest.param([(-30, -10)], 0, id="ended before the step"),
    ],
)
def test_leftovers_of_earlier_work_push_the_first_step(events: list[tuple[int, int]], start: int) -> None:
    assert in_microseconds(leftover(*events)) == [("1", 50 + start, 150)]


def test_leftovers_do_not_matter_when_the_first_step_launches_nothing() -> None:
    trace = three_steps((110, 120, 130), (210, 220, 230))
    trace.memset(64, 5, 40)
    assert in_microseconds(steps_of(trace))[0] == ("4", 0, 100)


@pytest.mark.parametrize(
    ("counts", "kept"),
    [
        pytest.param((5, 5, 5), 3, id="all alike"),
        pytest.param((5, 5, 4), 3, id="exactly four fifths stay"),
        pytest.param((5, 5, 3), 2, id="less than four fifths go"),
        pytest.param((2, 2, 0), 2, id="steps behind the last device event go"),
        pytest.param((5, 2, 0), 1, id="the last step with device events may go too"),
        pytest.param((3, 0, 0), 1, id="the first one always stays"),
        pytest.param((0, 0, 2), 3, id="empty steps before stay"),
        pytest.param((0, 2, 1), 2, id="empty, whole, cut"),
        pytest.param((0, 0, 0), 3, id="no device events at all"),
    ],
)
def test_steps_that_the_end_of_the_trace_cut_are_left_out(counts: tuple[int, int, int], kept: int) -> None:
    launches = [100 * step + 10 * i for step, count in enumerate(counts) for i in range(count)]
    found = steps_of(three_steps(*[(at, at + 5, at + 8) for at in launches]))
    assert found.names == ("4", "5", "6")[:kept]


def test_a_single_step_is_never_left_out() -> None:
    trace = TraceBuilder()
    trace.step(0, 0, 100)
    launched(trace, 10, 20, 130)
    assert in_microseconds(steps_of(trace)) == [("0", 0, 130)]


def test_steps_marked_on_the_device_are_no_steps() -> None:
    trace = three_steps((10, 20, 30), (110, 120, 130), (210, 220, 230))
    for number in range(3):
        trace.gpu_annotation(f"ProfilerStep#{4 + number}", 100 * number + 20, 10, external_id=number + 1)
    assert steps_of(trace).names == ("4", "5", "6")


def test_steps_of_old_writers() -> None:
    trace = TraceBuilder(OLD)
    trace.step(0, 0, 100)
    trace.step(1, 100, 100)
    assert in_microseconds(steps_of(trace)) == [("0", 0, 100), ("1", 100, 200)]


def test_without_marks_the_operators_are_one_step() -> None:
    trace = TraceBuilder()
    trace.annotation("my range", 0, 400)
    trace.launch("cudaMalloc", 5, 5)
    trace.op("aten::mm", 20, 30)
    trace.op("aten::relu", 70, 10, tid=5)
    found = steps_of(trace)
    assert (in_microseconds(found), found.found_by) == ([("0", 20, 80)], "whole-trace")


def test_the_one_step_lasts_until_its_last_kernel() -> None:
    trace = TraceBuilder()
    trace.op("aten::first", 0, 10)
    trace.op("aten::mm", 20, 80)
    launched(trace, 30, 90, 170)
    launched(trace, 120, 180, 300)  # launched after the last operator
    assert in_microseconds(steps_of(trace)) == [("0", 0, 170)]


def test_python_events_of_old_writers_make_a_step() -> None:
    trace = TraceBuilder(OLD)
    trace.python_function("train.py(3): main", 10, 50)
    trace.kernel("k", 0, 5)
    assert in_microseconds(steps_of(trace)) == [("0", 10, 60)]


def test_only_device_events() -> None:
    trace = TraceBuilder()
    trace.kernel("k", 10, 20)
    trace.memcpy("HtoD", 4, 100, 7)
    trace.launch("cudaMalloc", 0, 300)
    trace.annotation("my range", 0, 300)
    found = steps_of(trace)
    assert (in_microseconds(found), found.found_by) == ([("0", 10, 107)], "device-events")


def test_only_annotations() -> None:
    trace = TraceBuilder()
    trace.launch("cudaMalloc", 0, 300)
    trace.annotation("one", 10, 20)
    trace.annotation("two", 50, 5)
    found = steps_of(trace)
    assert (in_microseconds(found), found.found_by) == ([("0", 10, 55)], "host-annotations")


def test_nothing_to_make_a_step_of() -> None:
    trace = TraceBuilder()
    trace.memory(64, 10, device=0)
    found = steps_of(trace)
    assert (found.names, found.window, found.found_by) == ((), None, None)


def annotated(name: str, *starts: int) -> TraceBuilder:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 400)
    for start in starts:
        trace.annotation(name, start, 10)
    return trace


OPTIMIZER, LOADER = "Optimizer.step#SGD.step", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


@pytest.mark.parametrize(("name", "by"), [(OPTIMIZER, "Optimizer.step"), (LOADER, "enumerate(DataLoader)")])
def test_inferred_steps_start_with_an_annotation(name: str, by: str) -> None:
    trace = annotated(name, 50, 120, 300)
    launched(trace, 130, 140, 150)
    launched(trace, 310, 350, 420)
    found = Context(read_built(trace)).inferred_steps
    assert found is not None
    assert in_microseconds(found) == [("0", 50, 120), ("1", 120, 300), ("2", 300, 420)]
    assert found.found_by == by


def test_inferred_steps_without_device_events_end_with_the_host() -> None:
    found = Context(read_built(annotated(OPTIMIZER, 50, 120))).inferred_steps
    assert found is not None
    assert in_microseconds(found) == [("0", 50, 120), ("1", 120, 400)]


def test_the_last_inferred_step_is_not_taken_for_cut() -> None:
    trace = annotated(OPTIMIZER, 50, 120)
    for i in range(5):
        launched(trace, 60 + 10 * i, 62 + 10 * i, 64 + 10 * i)
    found = Context(read_built(trace)).inferred_steps
    assert found is not None
    assert found.names == ("0", "1")


def test_optimizers_go_before_loaders() -> None:
    trace = annotated(OPTIMIZER, 50, 120)
    for start in (20, 90, 150):
        trace.annotation(LOADER, start, 5)
    found = Context(read_built(trace)).inferred_steps
    assert found is not None
    assert found.found_by == "Optimizer.step"


def test_one_annotation_infers_nothing() -> None:
    assert Context(read_built(annotated(OPTIMIZER, 50))).inferred_steps is None


def test_marked_steps_leave_nothing_to_infer() -> None:
    trace = annotated(OPTIMIZER, 50, 120)
    trace.step(0, 0, 400)
    assert Context(read_built(trace)).inferred_steps is None


def test_marks_of_a_second_profiler_are_no_steps() -> None:
    """They start within those of the first one; two marks of one name within each other are one step."""
    trace = three_steps()
    for number in range(2):
        trace.step(80 + number, 100 * number + 95, 100)
    trace.step(6, 210, 80)
    assert in_microseconds(steps_of(trace)) == [("4", 0, 100), ("5", 100, 200), ("6", 200, 300)]
