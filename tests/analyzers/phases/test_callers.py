"""Which calls launch the work of devices; times are microseconds."""

from __future__ import annotations

from hypothesis import given, settings

from tests.builders import TraceBuilder
from tests.random_traces import Plan, plans
from tests.reading import read_built
from traceanalyzer.analyzers.phases import callers
from traceanalyzer.analyzers.phases.callers import Callers
from traceanalyzer.structure import typical
from traceanalyzer.structure.context import Context


def callers_of(trace: TraceBuilder) -> Callers:
    return callers.analyze(typical.part(Context(read_built(trace))))


def launched(found: Callers) -> dict[str, tuple[int, dict[str, tuple[int, int]]]]:
    """By path: calls, and events and time of each name."""
    paths: list[str] = []
    for row in found.rows:
        paths.append("" if row.parent is None else f"{paths[row.parent]}/{row.name}")
    return {
        path: (row.calls, {found.names[name]: (events, ns // 1000) for name, events, ns in row.launched})
        for path, row in zip(paths, found.rows, strict=True)
    }


def test_work_belongs_to_the_innermost_mark_module_or_operator() -> None:
    trace = TraceBuilder()
    for start in (0, 100):
        trace.step(start // 100, start, 100)
        trace.annotation("block", start + 10, 60)
        trace.op("aten::linear", start + 20, 30)
        trace.op("aten::addmm", start + 25, 10)
        trace.launch_kernel("gemm", start + 26, 14, at=start + 26)
        trace.launch_kernel("in the mark", start + 60, 8, at=start + 55)
        trace.launch_kernel("in none", start + 80, 3, at=start + 75)
    assert launched(callers_of(trace)) == {
        "": (0, {"in none": (2, 6)}),
        "/block": (2, {"in the mark": (2, 16)}),
        "/block/aten::linear": (2, {}),
        "/block/aten::linear/aten::addmm": (2, {"gemm": (2, 28)}),
    }


def test_what_launches_nothing_is_not_listed() -> None:
    trace = TraceBuilder()
    trace.op("aten::view", 0, 5)
    trace.op("aten::mm", 10, 5)
    trace.launch_kernel("gemm", 20, 5, at=11)
    assert [row.name for row in callers_of(trace).rows] == ["", "aten::mm"]


def test_many_names_that_differ_in_numbers_share_a_place() -> None:
    trace = TraceBuilder()
    for number in range(70):
        trace.annotation(f"layer_{number}", 10 * number, 8)
        trace.launch_kernel("k", 10 * number + 2, 4, at=10 * number + 1)
    assert launched(callers_of(trace)) == {"": (0, {}), "/layer_*": (70, {"k": (70, 280)})}


def test_a_mark_elsewhere_changes_no_row() -> None:
    """Names that launch nothing count among those that are alike, and stand for their parent or not, as without it."""
    alike, inner = TraceBuilder(), TraceBuilder()
    for number in range(70):
        alike.op(f"op_{number}", 10 * number, 8)
    alike.launch_kernel("k", 13, 1, at=12)
    inner.op("aten::x", 10, 60)
    inner.add("python", "loop", (12, 3), (4201, 4201), None)
    inner.op("aten::x", 20, 20)
    inner.launch_kernel("k", 60, 5, at=25)
    for trace in (alike, inner):
        before = launched(callers_of(trace))
        trace.annotation("elsewhere", 900, 5)
        assert launched(callers_of(trace)) == before
    assert before == {"": (0, {}), "/aten::x": (2, {"k": (1, 5)})}


def test_an_operator_across_a_border_of_steps_or_marks_launches_what_it_launches() -> None:
    steps, marks = TraceBuilder(), TraceBuilder()
    steps.step(0, 0, 100)
    steps.step(1, 100, 100)
    steps.op("aten::b", 90, 30)
    steps.launch_kernel("k", 120, 5, at=110)
    marks.annotation("my range", 0, 20)
    marks.op("aten::a", 5, 35)
    marks.op("aten::b", 25, 30)
    marks.launch_kernel("k", 70, 5, at=45)
    for trace in (steps, marks):
        assert launched(callers_of(trace))["/aten::b"] == (1, {"k": (1, 5)})


@settings(max_examples=50, deadline=None)
@given(plans)
def test_all_device_work_of_the_typical_steps_is_there_once(plan: Plan) -> None:
    part = typical.part(Context(read_built(plan.build())))
    device = part.trace.device
    found = callers.analyze(part)
    total = sum(ns for row in found.rows for *_, ns in row.launched)
    assert total == int(device.dur_ns[part.in_scope(device.start_ns)].sum())
    assert all(row.parent is None or row.parent < position for position, row in enumerate(found.rows))
