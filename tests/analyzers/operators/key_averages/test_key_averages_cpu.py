"""Which events on the CPU are rows, and how they are nested."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.analyzers.operators.key_averages.averaged import averaged, by_name, cpu
from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers.operators.key_averages import analyze
from traceanalyzer.structure.context import Context


def test_self_time_is_what_children_leave() -> None:
    trace = TraceBuilder()
    trace.op("aten::linear", 0, 100)
    trace.op("aten::t", 10, 20)
    trace.op("aten::addmm", 40, 50)
    trace.op("aten::copy_", 45, Decimal("5.5"))
    rows = by_name(trace)
    assert cpu(rows["aten::linear"]) == (1, 30_000, 100_000)
    assert cpu(rows["aten::addmm"]) == (1, 44_500, 50_000)
    assert cpu(rows["aten::copy_"]) == (1, 5_500, 5_500)


def test_rows_are_in_the_order_in_which_events_start() -> None:
    trace = TraceBuilder()
    for start, name in enumerate(["c", "a", "b", "a", "d", "c"]):
        trace.op(name, 10 * start, 5)
    assert [row.name for row in averaged(trace).rows] == ["c", "a", "b", "d"]


def test_steps_are_one_row() -> None:
    trace = TraceBuilder()
    trace.step(3, 0, 10)
    trace.step(4, 10, 12)
    row = by_name(trace)["ProfilerStep*"]
    assert cpu(row) == (2, 22_000, 22_000)
    assert row.is_user_annotation


def test_an_operator_and_a_range_of_one_name_are_two_rows() -> None:
    trace = TraceBuilder()
    trace.op("x", 0, 10)
    trace.annotation("x", 20, 10)
    assert [(row.name, row.is_user_annotation) for row in averaged(trace).rows] == [("x", False), ("x", True)]


@pytest.mark.parametrize("name", ["profiler::_record_function_enter_new", "aten::is_leaf", "aten::_version"])
def test_utilities_are_no_rows_and_no_children(name: str) -> None:
    trace = TraceBuilder()
    trace.op("aten::relu", 0, 10)
    trace.op(name, 2, 4)
    assert {n: cpu(row) for n, row in by_name(trace).items()} == {"aten::relu": (1, 10_000, 10_000)}


def test_frames_are_rows_and_parents() -> None:
    trace = TraceBuilder()
    trace.python_function("train.py(3): step", 0, 100)
    trace.op("aten::relu", 10, 30)
    assert cpu(by_name(trace)["train.py(3): step"]) == (1, 70_000, 100_000)


def test_threads_do_not_nest() -> None:
    trace = TraceBuilder()
    trace.op("outer", 0, 100, tid=1)
    trace.op("inner", 10, 20, tid=2)
    assert cpu(by_name(trace)["outer"]) == (1, 100_000, 100_000)


def test_of_two_nested_operators_of_one_name_the_outer_stays() -> None:
    trace = TraceBuilder()
    trace.op("aten::sum", 0, 100)
    trace.op("aten::sum", 10, 60)
    trace.op("aten::sum", 20, 40)
    trace.op("aten::fill_", 30, 10)
    rows = by_name(trace)
    assert cpu(rows["aten::sum"]) == (1, 90_000, 100_000)
    assert rows["aten::fill_"].calls == 1


def test_of_three_nested_operators_all_stay() -> None:
    trace = TraceBuilder()
    trace.op("aten::sum", 0, 100)
    trace.op("aten::sum", 10, 20)
    trace.op("aten::sum", 40, 30)
    assert cpu(by_name(trace)["aten::sum"]) == (3, 100_000, 150_000)


def test_what_outlasts_its_surroundings_is_not_nested_in_them() -> None:
    trace = TraceBuilder()
    trace.op("outer", 0, 100)
    trace.op("a", 10, 40)
    trace.op("b", 30, 40)  # starts in a, ends after it: a child of outer
    trace.op("in_b", 35, 10)  # a is out of the way by then
    rows = by_name(trace)
    assert cpu(rows["outer"])[1] == 100_000 - 40_000 - 40_000
    assert cpu(rows["a"])[1] == 40_000
    assert cpu(rows["b"])[1] == 30_000


def test_the_chosen_steps_count_alone() -> None:
    trace = TraceBuilder()
    for number, start in ((1, 0), (2, 100)):
        trace.step(number, start, 100)
        trace.op("aten::relu", start + 10, 10 * number)
    whole = Context(read_built(trace))
    chosen = Context(whole.trace, whole.steps.take(slice(1, 2)))
    assert {row.name: row.cpu_total_ns for row in analyze(chosen).rows} == {
        "ProfilerStep*": 100_000,
        "aten::relu": 20_000,
    }


def test_shapes_divide_rows_and_lists_of_tensors_have_none() -> None:
    trace = TraceBuilder(options=["record_shapes"])
    trace.op("aten::mm", 0, 10, shapes=[[2, 3], [3, 4]])
    trace.op("aten::mm", 20, 10, shapes=[[2, 3], [3, 4]])
    trace.op("aten::mm", 40, 10, shapes=[[1, 1], [1, 1]])
    trace.op("aten::cat", 60, 10, shapes=[[[2, 3], [4, 3]], []])
    trace.op("aten::rand", 80, 10)
    rows = [(row.name, row.calls, row.input_shapes) for row in averaged(trace, by_shape=True).rows]
    assert rows == [
        ("aten::mm", 2, "[[2, 3], [3, 4]]"),
        ("aten::mm", 1, "[[1, 1], [1, 1]]"),
        ("aten::cat", 1, "[[], []]"),
        ("aten::rand", 1, "[]"),
    ]
    assert averaged(trace).rows[0].input_shapes is None


def test_memory_counts_for_all_that_runs_on_any_thread() -> None:
    trace = TraceBuilder(options=["profile_memory"])
    trace.op("outer", 0, 100, tid=1)
    trace.op("inner", 10, 20, tid=1)
    trace.op("other", 15, 50, tid=2)
    trace.memory(64, 10, tid=1)  # at the start of inner: both ends count
    trace.memory(-8, 20, tid=1)
    trace.memory(512, 25, device=0, tid=2)
    trace.memory(1000, 40, tid=2)
    rows = by_name(trace)
    sizes = {name: (row.cpu_mem_bytes, row.self_cpu_mem_bytes, row.device_mem_bytes) for name, row in rows.items()}
    assert sizes == {"outer": (1056, 1000, 512), "inner": (56, 56, 512), "other": (992, 992, 512)}


def test_memory_that_nothing_covers_is_a_row() -> None:
    trace = TraceBuilder(options=["profile_memory"])
    trace.op("aten::empty", 10, 10)
    trace.memory(64, 12)
    trace.memory(-16, 30)
    trace.memory(-32, 30)
    trace.memory(-7, 5)
    row = by_name(trace)["[memory]"]
    assert (row.calls, row.cpu_mem_bytes, row.self_cpu_mem_bytes, row.cpu_total_ns) == (3, -55, -55, 0)
    assert [row.name for row in averaged(trace).rows] == ["[memory]", "aten::empty"]


def test_a_trace_of_memory_alone_has_one_row() -> None:
    trace = TraceBuilder(options=["profile_memory"])
    trace.memory(64, 12)
    assert [(row.name, row.cpu_mem_bytes) for row in averaged(trace).rows] == [("[memory]", 64)]


def test_the_averages_say_what_was_recorded() -> None:
    trace = TraceBuilder(options=["profile_memory", "with_flops"])
    trace.op("aten::relu", 0, 10)
    result = averaged(trace)
    assert (result.device, result.profile_memory, result.with_flops) == (None, True, True)


def test_times_are_rounded_as_seen_from_the_start_of_the_profiler() -> None:
    printed = set()
    for margin in range(40):
        trace = TraceBuilder(margins=(margin, 0))
        trace.op("a", 0, Decimal("0.5"))
        trace.op("a", 7, Decimal("0.501"))
        (row,) = averaged(trace).rows
        assert row.cpu_total_ns == 1_001
        assert read_built(trace).info.profiler_start_ns == -1000 * margin
        printed.add(f"{row.cpu_avg_us:.3f}")
    assert printed == {"0.500", "0.501"}  # the half is rounded by what float64 lost before


def test_without_the_span_of_the_profiler_time_begins_with_the_first_event() -> None:
    trace = TraceBuilder()
    trace.framed = False
    trace.op("a", 3, 5)
    assert read_built(trace).info.profiler_start_ns is None
    assert cpu(by_name(trace)["a"]) == (1, 5_000, 5_000)
