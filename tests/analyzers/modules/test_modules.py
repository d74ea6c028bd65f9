"""Forward figures of modules, and the tree that they form."""

from __future__ import annotations

import pytest

from tests.analyzers.memory.report_with import report_with
from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers import modules
from traceanalyzer.analyzers.modules import Module, ModuleClass, Modules, ModuleTimes, Place, Unattributed
from traceanalyzer.pipeline import StepChoice
from traceanalyzer.sections import modules as section
from traceanalyzer.structure.context import Context


def figures(*values: int) -> dict[str, int]:
    """Calls, operators, host self and total, device self and total by their names; nothing of a backward pass."""
    names = ("calls", *ModuleTimes.__struct_fields__)
    return dict.fromkeys(names, 0) | dict(zip(names, values, strict=False))


def analyzed(trace: TraceBuilder) -> Modules:
    return modules.analyze(Context(read_built(trace)))


def network(trace: TraceBuilder, start: int, *, second: str = "Linear_1") -> None:
    """`Net` (100 us) calls `Linear_0`, another module, and an operator directly."""
    trace.module("Net_0", start, 100)
    trace.module("Linear_0", start + 10, 30)
    trace.op("aten::linear", start + 15, 20)
    trace.op("aten::addmm", start + 18, 15)
    trace.launch_kernel("gemm", start + 1000, 40, at=start + 20, call_dur=2)
    trace.module(second, start + 50, 20, module=1)
    trace.launch_kernel("triton", start + 1100, 7, at=start + 55, call_dur=3)
    trace.op("aten::relu", start + 75, 10)
    trace.launch_kernel("relu", start + 1200, 5, at=start + 80, call_dur=1)


def test_self_and_total_times() -> None:
    trace = TraceBuilder()
    network(trace, 0)
    trace.launch_kernel("optimizer", 2000, 11, at=150)
    trace.kernel("without a launch", 2100, 13)
    found = analyzed(trace)
    assert found.rows == (
        Module("Linear_0", 0, **figures(1, 1, 10_000, 30_000, 40_000, 40_000)),
        Module("Linear_1", 1, **figures(1, 0, 17_000, 20_000, 7_000, 7_000)),
        Module("Net_0", 0, **figures(1, 1, 40_000, 100_000, 5_000, 52_000)),
    )
    assert (found.device_ns, found.outside_device_ns) == (76_000, 24_000)
    assert found.backward_outside == found.backward_unlinked == Unattributed(0, 0, 0)


def test_classes_sum_their_modules() -> None:
    trace = TraceBuilder()
    network(trace, 0)
    assert analyzed(trace).classes[0] == ModuleClass("Linear", 2, **figures(2, 1, 27_000, 50_000, 47_000, 47_000))


def test_calls_from_one_place_are_one_row_of_the_tree() -> None:
    trace = TraceBuilder()
    network(trace, 0)
    network(trace, 200, second="Dropout_0")
    trace.module("Loss_0", 400, 10)
    trace.module("Linear_0", 402, 4)
    shape = [(place.name, place.parent, place.depth, place.calls) for place in analyzed(trace).tree]
    assert shape == [
        ("Net_0", None, 0, 2),
        ("Linear_0", 0, 1, 2),
        ("Linear_1", 0, 1, 1),
        ("Dropout_0", 0, 1, 1),
        ("Loss_0", None, 0, 1),
        ("Linear_0", 4, 1, 1),
    ]
    by_name = {row.name: row.calls for row in analyzed(trace).rows}
    assert by_name["Linear_0"] == 3


def test_modules_of_one_name_are_told_apart_by_their_id() -> None:
    trace = TraceBuilder()
    trace.module("Linear_0", 0, 10, module=4)
    trace.module("Linear_0", 20, 5, module=9)
    assert [(row.name, row.module_id, row.host_total_ns) for row in analyzed(trace).rows] == [
        ("Linear_0", 4, 10_000),
        ("Linear_0", 9, 5_000),
    ]


def test_a_module_inside_an_operator_is_inside_the_module_around_it() -> None:
    """An evaluation as of a custom autograd function that calls a module."""
    trace = TraceBuilder()
    trace.module("Outer_0", 0, 100)
    trace.op("MyFunction", 10, 80)
    trace.module("Inner_0", 20, 50)
    trace.op("aten::mm", 30, 20)
    trace.launch_kernel("k", 200, 9, at=35)
    outer, inner = analyzed(trace).tree
    assert (inner.name, inner.parent, inner.device_self_ns) == ("Inner_0", 0, 9_000)
    assert (outer.operators, outer.device_self_ns, outer.device_total_ns) == (1, 0, 9_000)


def test_threads_keep_their_modules() -> None:
    trace = TraceBuilder()
    trace.module("A_0", 0, 100)
    trace.module("B_0", 10, 20, tid=77)
    trace.launch_kernel("k", 200, 9, at=15, tid=77)
    found = {place.name: (place.parent, place.device_total_ns) for place in analyzed(trace).tree}
    assert found == {"A_0": (None, 0), "B_0": (None, 9_000)}


def test_without_a_device_host_time_ranks() -> None:
    trace = TraceBuilder(devices=())
    trace.module("B_0", 0, 10)
    trace.module("A_0", 20, 10)
    trace.module("C_0", 40, 30)
    assert [row.name for row in analyzed(trace).rows] == ["C_0", "A_0", "B_0"]


def test_chosen_steps_count_the_calls_that_start_in_them() -> None:
    trace = TraceBuilder()
    for number, start in enumerate((0, 2000, 4000)):
        trace.step(number, start, 1900)
        network(trace, start + 10, second="Dropout_0" if number == 1 else "Linear_1")
    whole = Context(read_built(trace))
    found = modules.analyze(Context(whole.trace, StepChoice(1, 1).of(whole.steps)))
    assert [(place.name, place.calls) for place in found.tree] == [("Net_0", 1), ("Linear_0", 1), ("Dropout_0", 1)]
    assert found.device_ns == 52_000


def test_without_modules_it_says_why() -> None:
    trace = TraceBuilder()
    trace.python_function("train.py(1): run", 0, 10)
    context = Context(read_built(trace))
    reason = modules.ANALYSES[0].missing(context)
    assert reason is not None
    assert reason.id == "skip-no-modules"
    assert modules.analyze(context).tree == ()


def test_sections() -> None:
    trace = TraceBuilder()
    network(trace, 0)
    report = report_with("modules", analyzed(trace))
    by_class, ranking, tree = section.build(report, 2)
    assert [part.is_detail for part in (by_class, ranking, tree)] == [True] * 3
    assert by_class.tables[0].rows[0] == ("Linear", 2, 2, 47_000, 47_000, 27_000, 50_000)
    assert ranking.tables[0].rows == (
        ("Linear_0", 1, 40_000, 40_000, 10_000, 30_000),
        ("Linear_1", 1, 7_000, 7_000, 17_000, 20_000),
    )
    assert ranking.tables[0].total_rows == 3
    assert [row[0] for row in tree.tables[0].rows] == ["Net_0", "· Linear_0"]
    assert list(section.build(report_with("modules", None), 5)) == []


@pytest.mark.parametrize("field", ["calls", "operators", "host_self_ns", "device_self_ns", "backward_device_self_ns"])
def test_both_views_hold_the_same(field: str) -> None:
    trace = TraceBuilder()
    network(trace, 0)
    network(trace, 200, second="Dropout_0")
    found = analyzed(trace)
    views: list[tuple[Module | ModuleClass | Place, ...]] = [found.rows, found.classes, found.tree]
    assert len({sum(getattr(row, field) for row in view) for view in views}) == 1


def test_siblings_stand_in_the_order_of_their_first_call() -> None:
    trace = TraceBuilder()
    trace.module("Net_0", 0, 100)
    for name, number, start in (("Z_0", 9, 10), ("A_0", 2, 30), ("Z_0", 9, 50), ("M_0", 1, 70)):
        trace.module(name, start, 10, module=number)
    assert [place.name for place in analyzed(trace).tree] == ["Net_0", "Z_0", "A_0", "M_0"]
