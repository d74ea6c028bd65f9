"""Self and total times of operators (METRICS: P1). Times are microseconds."""

from __future__ import annotations

import pytest

from tests.builders import OLD, TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers import operators
from traceanalyzer.structure.context import Context

Figures = tuple[int, ...]
"""Calls, device self, device total, host self, host total."""


def table(trace: TraceBuilder) -> dict[str, Figures]:
    rows = operators.by_name(Context(read_built(trace))).rows
    return {
        r.name: (
            r.calls,
            r.device_self_ns // 1000,
            r.device_total_ns // 1000,
            r.host_self_ns // 1000,
            r.host_total_ns // 1000,
        )
        for r in rows
    }


def test_self_time_is_without_callees_and_launches() -> None:
    trace = TraceBuilder()
    trace.op("aten::linear", 0, 100)
    trace.op("aten::addmm", 10, 80)
    trace.launch_kernel("k", 200, 50, at=20, call_dur=10)
    assert table(trace) == {"aten::linear": (1, 0, 50, 20, 100), "aten::addmm": (1, 50, 50, 70, 80)}


def test_device_time_is_everything_that_was_launched() -> None:
    """Copies and fills, overlapping ones in full, and all kernels of a graph."""
    trace = TraceBuilder()
    trace.op("aten::op", 0, 100)
    trace.memcpy("HtoD", 4096, 200, 30, at=10)
    trace.memset(64, 210, 5, at=20)
    trace.graph_launch(30, 10, [("a", 220, 7, {}), ("b", 221, 8, {"stream": 9})])
    assert table(trace)["aten::op"] == (1, 50, 50, 100 - 5 - 4 - 10, 100)


def test_device_time_of_callees_is_in_the_total() -> None:
    trace = TraceBuilder()
    trace.op("outer", 0, 100)
    trace.launch_kernel("k", 200, 10, at=5)
    for start in (20, 60):
        trace.op("inner", start, 30)
        trace.launch_kernel("k", 200 + start, 7, at=start + 5)
    assert table(trace) == {"outer": (1, 10, 24, 35, 100), "inner": (2, 14, 14, 50, 60)}


def test_recursive_calls_count_in_every_total() -> None:
    trace = TraceBuilder()
    trace.op("aten::to", 0, 100)
    trace.op("aten::to", 10, 40)
    trace.op("aten::copy_", 60, 20)
    trace.launch_kernel("k", 200, 5, at=20)
    assert table(trace)["aten::to"] == (2, 5, 10, 100 - 40 - 20 + 40 - 5, 140)


def test_an_only_callee_of_the_same_name_is_the_same_call() -> None:
    """The child's callees and launches replace the parent's; its duration vanishes (P1, rule 5)."""
    trace = TraceBuilder()
    trace.op("aten::conv2d", 0, 100)
    trace.launch_kernel("k", 200, 1000, at=5)  # of the parent: nobody's
    trace.op("aten::conv2d", 15, 60)
    trace.launch_kernel("k", 300, 7, at=16)
    trace.op("aten::add", 30, 20)
    assert table(trace) == {
        "aten::conv2d": (1, 7, 7, 100 - 20 - 5, 100),
        "aten::add": (1, 0, 0, 20, 20),
    }


def test_chains_of_the_same_name_are_one_call() -> None:
    trace = TraceBuilder()
    for depth in range(4):
        trace.op("aten::detach", 10 * depth, 100 - 20 * depth)
    trace.launch_kernel("k", 200, 3, at=35)
    assert table(trace) == {"aten::detach": (1, 3, 3, 95, 100)}


@pytest.mark.parametrize("between", ["annotation", "sibling", "module"])
def test_callees_are_merged_only_alone_and_directly(between: str) -> None:
    trace = TraceBuilder()
    trace.op("aten::x", 0, 100)
    if between == "annotation":
        trace.annotation("nccl:all_reduce", 5, 90)  # a node, unlike other annotations
    elif between == "sibling":
        trace.op("aten::y", 80, 10)
    else:
        trace.module("Linear_0", 5, 90)
    trace.op("aten::x", 10, 50)
    assert table(trace)["aten::x"][0] == 2


def test_ranges_of_users_are_transparent() -> None:
    trace = TraceBuilder()
    trace.op("outer", 0, 100)
    trace.annotation("my range", 10, 80)
    trace.op("inner", 20, 30)
    trace.launch_kernel("k", 200, 5, at=60)
    assert table(trace) == {"outer": (1, 5, 5, 65, 100), "inner": (1, 0, 0, 30, 30)}


@pytest.mark.parametrize(("at", "owner"), [(10, "inner"), (29, "inner"), (30, "outer"), (9, "outer"), (99, "outer")])
def test_a_launch_belongs_to_the_innermost_operator_at_its_start(at: int, owner: str) -> None:
    trace = TraceBuilder()
    trace.op("outer", 0, 100)
    trace.op("inner", 10, 20)
    trace.launch_kernel("k", 200, 5, at=at, external_id=None)
    found = table(trace)
    assert {name: figures[1] for name, figures in found.items()} == {"outer": 0, "inner": 0} | {owner: 5}


def test_a_launch_after_every_operator_is_nobodys() -> None:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 100)
    trace.launch_kernel("k", 200, 5, at=100, external_id=None)
    assert table(trace) == {"aten::mm": (1, 0, 0, 100, 100)}


def threads(external_id: int | None, *, at: int = 20, correlation: int | None = None) -> dict[str, Figures]:
    """An operator on one thread, a launch on another one that names an id."""
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 100, external_id=41)
    trace.op("aten::twice", 0, 100, external_id=50, tid=8)
    trace.op("aten::twice", 100, 100, external_id=50, tid=8)
    trace.op("aten::correlated", 0, 100, external_id=1001, tid=9)
    ident = trace.launch("cudaLaunchKernel", at, 5, tid=99, external_id=external_id, correlation=correlation)
    trace.kernel("k", 200, 7, correlation=ident)
    return table(trace)


def test_an_id_serves_where_no_operator_contains_the_launch() -> None:
    assert threads(41)["aten::mm"] == (1, 7, 7, 95, 100)


@pytest.mark.parametrize(
    ("external_id", "at", "reason"),
    [
        (None, 20, "no id"),
        (0, 20, "0 is no id"),
        (41, 150, "the operator had ended"),
        (50, 20, "two operators have the id"),
        (1001, 20, "it is the correlation of the launch"),
        (77, 20, "no operator has the id"),
    ],
)
def test_ids_that_are_not_to_be_trusted(external_id: int | None, at: int, reason: str) -> None:
    found = threads(external_id, at=at, correlation=1001)
    assert all(figures[1] == 0 for figures in found.values()), reason


@pytest.mark.parametrize(("start", "owner"), [(60, "first"), (110, "second"), (160, "second"), (5, "first")])
def test_of_launches_with_one_correlation_the_last_before_the_kernel_counts(start: int, owner: str) -> None:
    """Ids repeat in merged files."""
    trace = TraceBuilder()
    trace.op("first", 0, 50)
    trace.op("second", 100, 50)
    for at in (10, 110):
        trace.launch("cudaLaunchKernel", at, 5, correlation=7)
    trace.kernel("k", start, 9, correlation=7)
    found = table(trace)
    assert {name: figures[1] for name, figures in found.items()} == {"first": 0, "second": 0} | {owner: 9}


def test_containment_goes_before_ids() -> None:
    trace = TraceBuilder()
    trace.op("aten::here", 0, 100, external_id=1)
    trace.op("aten::there", 0, 100, external_id=2, tid=8)
    trace.launch_kernel("k", 200, 7, at=20, external_id=2)
    found = table(trace)
    assert (found["aten::here"][1], found["aten::there"][1]) == (7, 0)


def test_modules_never_own_launches() -> None:
    trace = TraceBuilder()
    trace.op("outer", 0, 100)
    trace.module("Linear_0", 10, 80)
    trace.launch_kernel("k", 200, 7, at=20, external_id=None)
    trace.module("ReLU_0", 30, 10)
    trace.launch_kernel("k", 210, 5, at=33, external_id=None)
    # What the module launches is the operator's around it; the calls are in the module's duration already.
    assert table(trace) == {"outer": (1, 12, 12, 100 - 80, 100)}


def test_a_module_without_an_operator_around_leaves_launches_alone() -> None:
    trace = TraceBuilder()
    trace.module("Linear_0", 0, 100)
    trace.op("inner", 50, 20)
    trace.launch_kernel("k", 200, 7, at=20, external_id=None)
    assert table(trace) == {"inner": (1, 0, 0, 20, 20)}


def test_operators_inside_modules_are_callees_of_modules() -> None:
    trace = TraceBuilder()
    trace.op("outer", 0, 100)
    trace.module("Linear_0", 10, 80)
    trace.op("inner", 20, 30)
    trace.launch_kernel("k", 200, 7, at=25)
    assert table(trace) == {"outer": (1, 0, 7, 20, 100), "inner": (1, 7, 7, 25, 30)}


def test_a_slice_that_outlasts_its_parent_ends_with_it() -> None:
    trace = TraceBuilder()
    trace.op("first", 0, 50)
    trace.op("second", 40, 40)
    trace.op("third", 60, 10)
    context = Context(read_built(trace))
    assert table(trace) == {
        "first": (1, 0, 0, 40, 50),
        "second": (1, 0, 0, 10, 10),
        "third": (1, 0, 0, 10, 10),
    }
    assert context.host.tree.clipped == 1


def test_processes_with_equal_threads_are_told_apart() -> None:
    trace = TraceBuilder()
    trace.op("aten::a", 0, 100, pid=1, tid=7)
    trace.op("aten::b", 10, 150, pid=2, tid=7)
    assert table(trace) == {"aten::a": (1, 0, 0, 100, 100), "aten::b": (1, 0, 0, 150, 150)}


@pytest.mark.parametrize(
    "name",
    ["DataParallel.forward", "DistributedDataParallel.forward", "Optimizer.step#SGD.step", "Optimizer.zero_grad#SGD"],
)
def test_wrappers_and_optimizers_have_no_rows(name: str) -> None:
    trace = TraceBuilder(OLD)
    trace.op(name, 0, 100)
    trace.op("aten::mm", 10, 20)
    assert table(trace) == {"aten::mm": (1, 0, 0, 20, 20)}


def test_steps_loaders_and_python_events_have_no_rows() -> None:
    trace = TraceBuilder(OLD)
    trace.step(0, 0, 200)
    trace.op("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 10, 20)
    trace.python_function("train.py(3): main", 40, 100)
    trace.op("aten::mm", 50, 20)
    assert list(table(trace)) == ["aten::mm"]


def test_rows_by_device_time_then_by_name() -> None:
    trace = TraceBuilder()
    for start, (name, dur, device) in enumerate([("c", 50, 0), ("b", 10, 5), ("a", 20, 5), ("d", 5, 9)]):
        trace.op(name, 100 * start, dur)
        if device:
            trace.launch_kernel("k", 1000 + 100 * start, device, at=100 * start)
    assert list(table(trace)) == ["d", "a", "b", "c"]


def test_rows_by_host_time_where_nothing_ran_on_a_device() -> None:
    trace = TraceBuilder()
    for start, (name, dur) in enumerate([("c", 10), ("b", 50), ("a", 10)]):
        trace.op(name, 100 * start, dur)
    assert table(trace) == {"b": (1, 0, 0, 50, 50), "a": (1, 0, 0, 10, 10), "c": (1, 0, 0, 10, 10)}
    assert list(table(trace)) == ["b", "a", "c"]


def test_shapes_and_types_divide_the_rows() -> None:
    trace = TraceBuilder()
    calls = [
        ([[8, 3], [3, 2]], ["float", "float"], 10),
        ([[8, 3], [3, 2]], ["float", "float"], 20),
        ([[8, 3], [3, 2]], ["c10::Half", "c10::Half"], 5),
        ([[8, 4], [4, 2]], ["float", "float"], 40),
        (None, None, 1),
    ]
    for start, (shapes, types, dur) in enumerate(calls):
        trace.op("aten::mm", 100 * start, dur, shapes=shapes, types=types)
    rows = operators.by_shape(Context(read_built(trace))).rows
    assert [(r.input_shapes, r.input_types, r.calls, r.host_total_ns) for r in rows] == [
        ("[[8,4],[4,2]]", '["float","float"]', 1, 40_000),
        ("[[8,3],[3,2]]", '["float","float"]', 2, 30_000),
        ("[[8,3],[3,2]]", '["c10::Half","c10::Half"]', 1, 5_000),
        ("", "", 1, 1_000),
    ]
    assert table(trace) == {"aten::mm": (5, 0, 0, 76, 76)}
