"""The lanes of one step."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers import steps
from traceanalyzer.analyzers.steps import CELLS, Lane, Timeline
from traceanalyzer.structure.context import Context


def timeline_of(trace: TraceBuilder) -> Timeline:
    return steps.analyze(Context(read_built(trace)))


def lanes(found: Timeline, kind: str) -> list[Lane]:
    return [lane for lane in found.lanes if lane.kind == kind]


def test_a_kept_step_nearest_to_the_typical_one_is_shown() -> None:
    trace = TraceBuilder()
    # Steps of 900 and 600 us are far from the median of 435 us; the others take 423 us in the mean.
    for number, dur in enumerate((900, 430, 600, 400, 440, 422)):
        trace.step(number, number * 1000, dur)
        trace.op("aten::relu", number * 1000 + 10, 50)
    found = timeline_of(trace)
    assert (found.step, found.start_ns, found.duration_ns) == ("5", 5_000_000, 422_000)


def test_without_marks_of_the_profiler_a_step_of_the_program_is_shown_with_its_mark() -> None:
    trace = TraceBuilder()
    for number, dur in enumerate((400, 440, 420)):
        trace.annotation("infer", number * 1000, dur + 400)
        trace.op("aten::mm", number * 1000 + 10, 100)
        trace.launch_kernel("gemm", number * 1000 + 100, 200, at=number * 1000 + 20)
    found = timeline_of(trace)
    assert (found.step, found.start_ns, found.duration_ns) == ("2", 2_000_000, 820_000)
    (marks,) = lanes(found, "marks")
    (mark,) = marks.slices
    assert mark.name is not None
    assert (found.names[mark.name], mark.start_ns, mark.duration_ns) == ("infer", 0, 820_000)


def test_few_steps_all_count() -> None:
    trace = TraceBuilder()
    for number, (start, dur) in enumerate(((0, 900), (1000, 500), (2000, 510), (3000, 100))):
        trace.step(number, start, dur)
        trace.op("aten::relu", start + 10, 50)
    found = timeline_of(trace)
    assert (found.step, found.duration_ns) == ("1", 500_000)


def test_nested_operators_and_streams_are_lanes_of_their_own() -> None:
    trace = TraceBuilder()
    trace.step(0, 0, 1000)
    trace.op("aten::linear", 100, 400)
    trace.op("aten::addmm", 150, 200)
    trace.launch_kernel("gemm", 400, 300, at=160, stream=7)
    trace.launch_kernel("copy", 450, 100, at=200, stream=9)
    found = timeline_of(trace)
    (host,) = lanes(found, "host")
    shown = [(found.names[s.name], s.start_ns, s.duration_ns, s.depth) for s in host.slices if s.name is not None]
    assert ("aten::linear", 100_000, 400_000, 1) in shown
    assert ("aten::addmm", 150_000, 200_000, 2) in shown
    assert [lane.label for lane in lanes(found, "device")] == ["0/7", "0/9"]
    assert len(lanes(found, "launches")) == 1


def test_what_begins_before_the_step_is_cut_at_its_border() -> None:
    trace = TraceBuilder()
    trace.step(0, 0, 90)
    trace.step(1, 100, 100)
    trace.step(2, 200, 110)
    trace.op("aten::relu", 110, 50)
    trace.annotation("Optimizer.step#SGD.step", 50, 200, tid=99)
    found = timeline_of(trace)
    other = next(lane for lane in lanes(found, "host") if lane.label.endswith("/99"))
    assert found.step == "1"
    assert [(s.start_ns, s.duration_ns) for s in other.slices] == [(0, 100_000)]


def test_slices_below_the_resolution_are_drawn_together_and_counted() -> None:
    trace = TraceBuilder()
    trace.step(0, 0, 10_000)
    for number in range(2000):  # 2 us each, in steps of 5 us: two to a cell of 10 us
        trace.op("aten::tiny", number * 5, 2)
    found = timeline_of(trace)
    assert found.resolution_ns == 10_000_000 // CELLS
    (host,) = lanes(found, "host")
    tiny = [s for s in host.slices if s.depth == 1]
    assert sum(s.count for s in tiny) == 2000
    assert len(tiny) == 1000
    assert all(s.name is None for s in tiny)


def test_lanes_beyond_the_limit_are_counted() -> None:
    trace = TraceBuilder()
    trace.step(0, 0, 1000)
    for number in range(steps.MAX_LANES + 5):
        trace.op("aten::relu", 10, 100 + number, tid=9000 + number)
    found = timeline_of(trace)
    assert len(lanes(found, "host")) == steps.MAX_LANES
    assert found.hidden_lanes == 6  # five threads, and one because the step's own thread is a lane too
