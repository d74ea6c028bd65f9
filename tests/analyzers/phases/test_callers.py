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


@settings(max_examples=50, deadline=None)
@given(plans)
def test_all_device_work_of_the_typical_steps_is_there_once(plan: Plan) -> None:
    part = typical.part(Context(read_built(plan.build())))
    device = part.trace.device
    found = callers.analyze(part)
    total = sum(ns for row in found.rows for *_, ns in row.launched)
    assert total == int(device.dur_ns[part.in_scope(device.start_ns)].sum())
    assert all(row.parent is None or row.parent < position for position, row in enumerate(found.rows))
