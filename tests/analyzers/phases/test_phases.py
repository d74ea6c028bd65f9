"""What marks take, worked out by hand; times are microseconds."""

from __future__ import annotations

import pytest

from tests.analyzers.phases.reading_phases import by_name, phases_of, tree_of, us
from tests.builders import OLD, TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers import phases
from traceanalyzer.structure.context import Context

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def two_steps() -> TraceBuilder:
    trace = TraceBuilder()
    trace.step(0, 0, 100)
    trace.step(1, 100, 100)
    return trace


def test_inclusive_and_exclusive_times_of_nested_marks() -> None:
    trace = two_steps()
    for start in (0, 100):
        trace.annotation("outer", start + 10, 60)
        trace.annotation("inner", start + 20, 30)
        trace.op("aten::mm", start + 25, 10)
        trace.launch_kernel("in inner", start + 26, 14, at=start + 25)
        trace.launch_kernel("in outer", start + 60, 8, at=start + 55)
        trace.launch_kernel("in none", start + 80, 3, at=start + 75)
    found = phases_of(trace)
    outer, inner = by_name(found)["outer"], by_name(found)["inner"]
    assert (outer.calls, outer.depth, outer.threads) == (2, 0, 1)
    assert (us(outer.host_ns), us(outer.host_ns_per_step)) == (120, 60)
    assert (us(outer.host_self_ns), us(outer.host_self_ns_per_step)) == (60, 30)
    assert (us(outer.device_ns), us(outer.device_self_ns)) == (44, 16)
    assert (us(outer.device_ns_per_step), us(outer.device_self_ns_per_step)) == (22, 8)
    assert (inner.calls, inner.depth, us(inner.host_ns), us(inner.device_ns)) == (2, 1, 60, 28)
    assert (us(found.device_ns), us(found.unmarked_device_ns)) == (50, 6)
    assert (found.steps, found.steps_from, found.marks) == (2, "ProfilerStep", 4)
    assert tree_of(found) == [("outer", 0, 2), ("inner", 1, 2)]
    assert found.tree[1].parent == 0


def test_times_per_typical_step_are_of_what_lies_in_them() -> None:
    """A first step of ten times the others is none of them, and a mark around several steps counts in each."""
    trace = TraceBuilder()
    trace.annotation("run", 0, 1300)
    for number, (start, dur) in enumerate(((0, 1000), (1000, 100), (1100, 100), (1200, 100))):
        trace.step(number, start, dur)
        trace.annotation("outer", start + 10, dur - 40)
        trace.annotation("inner", start + 20, 30)
        trace.op("aten::mm", start + 21, 20)
        trace.launch_kernel("gemm", start + 30, dur // 2, at=start + 22)
    rows = by_name(phases_of(trace))
    run, outer, inner = rows["run"], rows["outer"], rows["inner"]
    assert us(outer.host_ns_per_step) == (960 + 3 * 60) / 4
    assert (us(outer.host_ns_per_typical_step), us(outer.host_self_ns_per_typical_step)) == (60, 30)
    assert (us(run.host_ns_per_typical_step), us(run.host_self_ns_per_typical_step)) == (100, 40)
    assert (us(inner.device_ns_per_typical_step), us(inner.device_self_ns_per_typical_step)) == (50, 50)
    assert (us(outer.device_ns_per_typical_step), us(outer.device_self_ns_per_typical_step)) == (50, 0)
    assert us(run.idle_ns_per_typical_step) == 50
    assert us(outer.idle_ns_per_typical_step) == 20


def test_without_marked_steps_nothing_is_per_typical_step() -> None:
    trace = TraceBuilder()
    trace.annotation("outer", 10, 60)
    trace.op("aten::mm", 0, 100)
    (row,) = phases_of(trace).rows
    assert row.host_ns_per_typical_step is None


def test_idle_time_falls_into_the_innermost_mark() -> None:
    trace = TraceBuilder()
    trace.step(0, 0, 100)
    trace.annotation("outer", 10, 70)
    trace.annotation("inner", 20, 30)
    trace.launch_kernel("a", 15, 10, at=12)  # busy 15 to 25
    trace.launch_kernel("b", 40, 30, at=30)  # busy 40 to 70
    rows = by_name(phases_of(trace))
    assert (us(rows["outer"].idle_ns), us(rows["outer"].idle_self_ns)) == (5 + 15 + 10, 15)
    assert (us(rows["inner"].idle_ns), us(rows["inner"].idle_self_ns)) == (15, 15)
    assert us(rows["outer"].idle_ns_per_step) == 30


def test_a_mark_inside_itself_counts_once() -> None:
    trace = two_steps()
    trace.annotation("again", 0, 50)
    trace.annotation("again", 10, 30)
    trace.annotation("again", 60, 10)
    trace.launch_kernel("k", 90, 7, at=15)
    found = phases_of(trace)
    (row,) = found.rows
    assert (row.calls, row.recursive_calls, row.depth) == (3, 1, 0)
    assert (us(row.host_ns), us(row.host_self_ns), us(row.host_ns_per_step)) == (60, 60, 30)
    assert (us(row.device_ns), us(row.device_self_ns)) == (7, 7)
    (place,) = found.tree
    assert (place.calls, us(place.host_ns), us(place.device_ns), place.depth) == (3, 60, 7, 0)


def test_a_mark_inside_itself_further_down_counts_once_in_its_row() -> None:
    trace = TraceBuilder()
    trace.annotation("a", 0, 50)
    trace.annotation("b", 10, 30)
    trace.annotation("a", 20, 10)
    trace.launch_kernel("k", 90, 7, at=25)
    found = phases_of(trace)
    row = by_name(found)["a"]
    assert (row.calls, row.recursive_calls, row.depth) == (2, 1, 0)
    assert (us(row.host_ns), us(row.host_self_ns)) == (50, 20 + 10)
    assert (us(row.device_ns), us(row.device_self_ns)) == (7, 7)
    assert tree_of(found) == [("a", 0, 1), ("b", 1, 1), ("a", 2, 1)]


def test_equal_marks_of_one_name_count_once() -> None:
    trace = TraceBuilder()
    trace.annotation("twin", 0, 50)
    trace.annotation("twin", 0, 50)
    (row,) = phases_of(trace).rows
    assert (row.calls, row.recursive_calls, us(row.host_ns), us(row.host_self_ns)) == (2, 1, 50, 50)


def test_a_mark_across_the_end_of_a_step_is_clipped_per_step_and_counted() -> None:
    trace = TraceBuilder()
    trace.step(0, 0, 100)
    trace.annotation("late", 80, 60)
    trace.annotation("within", 10, 20)
    trace.launch_kernel("before", 85, 5, at=82)
    trace.launch_kernel("after", 150, 9, at=120)
    found = phases_of(trace)
    late = by_name(found)["late"]
    assert found.crossing == 1
    assert (us(late.host_ns), us(late.host_ns_per_step)) == (60, 60)
    assert (us(late.device_ns), us(late.device_ns_per_step)) == (14, 5)
    assert us(late.idle_ns) == 100 - 80 - 5


def test_a_mark_that_ends_with_its_step_does_not_cross_it() -> None:
    trace = two_steps()
    trace.annotation("all", 0, 100)
    trace.annotation("all", 100, 100)
    assert phases_of(trace).crossing == 0


def test_steps_that_the_recording_cut_count_too() -> None:
    """The step breakdown leaves the last one out, because it launches less than the one before."""
    trace = TraceBuilder()
    for number in range(3):
        trace.step(number, 100 * number, 100)
        trace.annotation("work", 100 * number, 90)
        for kernel in range(5 if number < 2 else 1):
            trace.launch_kernel("k", 100 * number + 10 * kernel + 5, 5, at=100 * number + 10 * kernel)
    found = phases_of(trace)
    assert len(Context(read_built(trace)).steps) == 2
    assert (found.steps, us(found.rows[0].host_ns_per_step)) == (3, 90)


def test_empty_marks_are_counted() -> None:
    trace = TraceBuilder()
    trace.annotation("nothing", 10, 0)
    trace.annotation("nothing", 20, 0)
    trace.annotation("something", 10, 30)
    trace.launch_kernel("k", 30, 5, at=20)
    found = phases_of(trace)
    rows = by_name(found)
    assert found.empty == 2
    assert (rows["nothing"].calls, rows["nothing"].host_ns, rows["nothing"].device_ns) == (2, 0, 0)
    assert us(rows["something"].device_self_ns) == 5


def test_marks_on_two_threads_at_once_add_up() -> None:
    trace = TraceBuilder()
    trace.step(0, 0, 100)
    trace.annotation("load", 10, 50)
    trace.annotation("load", 20, 50, tid=77)
    trace.annotation("only there", 80, 10, tid=77)
    trace.launch_kernel("k", 40, 10, at=30)
    rows = by_name(phases_of(trace))
    load = rows["load"]
    assert (load.calls, load.recursive_calls, load.threads) == (2, 0, 2)
    assert (us(load.host_ns), us(load.host_self_ns), us(load.device_ns)) == (100, 100, 10)
    assert us(load.idle_ns) == 40  # of the thread that launches alone
    assert rows["only there"].idle_ns is None
    assert rows["only there"].device_ns == 0


def test_kernels_count_where_they_were_launched() -> None:
    trace = TraceBuilder()
    trace.annotation("launches", 0, 20)
    trace.annotation("waits", 30, 100)
    trace.launch_kernel("slow", 40, 80, at=10)
    rows = by_name(phases_of(trace))
    assert us(rows["launches"].device_ns) == 80
    assert rows["waits"].device_ns == 0


def test_without_steps_nothing_is_per_step() -> None:
    trace = TraceBuilder()
    trace.annotation("work", 0, 20)
    trace.op("aten::mm", 5, 5)
    trace.launch_kernel("k", 8, 6, at=6)
    found = phases_of(trace)
    (row,) = found.rows
    assert (found.steps, found.steps_from, found.crossing) == (None, None, 0)
    assert us(row.host_ns) == 20
    per_step = (row.host_ns_per_step, row.host_self_ns_per_step, row.device_ns_per_step, row.idle_ns_per_step)
    assert per_step == (None,) * 4


def test_without_a_device_its_times_are_unknown() -> None:
    trace = two_steps()
    trace.annotation("work", 0, 20)
    trace.op("aten::mm", 5, 5)
    found = phases_of(trace)
    (row,) = found.rows
    assert (row.device_ns, row.device_self_ns, row.device_ns_per_step, row.idle_ns, row.idle_self_ns) == (None,) * 5
    assert (found.device_ns, found.unmarked_device_ns, found.hidden_rows.device_self_ns) == (None,) * 3


def test_marks_that_overlap_without_nesting() -> None:
    """Marks that overlap without nesting, as marks of coroutines do."""
    trace = TraceBuilder()
    trace.annotation("a", 0, 50)
    trace.annotation("b", 30, 50)
    found = phases_of(trace)
    rows = by_name(found)
    assert found.clipped == 1
    assert (us(rows["a"].host_ns), us(rows["a"].host_self_ns)) == (50, 30)
    assert (us(rows["b"].host_ns), us(rows["b"].host_self_ns)) == (50, 20)


@pytest.mark.parametrize("name", ["## forward ##", LOADER, "Optimizer.step#SGD.step", "epoch 1", "step[DECODE bs=32]"])
def test_ranges_that_old_traces_call_operators_are_marks(name: str) -> None:
    trace = TraceBuilder(OLD)
    trace.step(3, 0, 100)
    trace.op(name, 0, 20)
    trace.op("aten::mm", 5, 5)
    trace.op("MmBackward", 30, 5)
    trace.op("autograd::engine::evaluate_function: MmBackward", 40, 5)
    assert [row.name for row in phases_of(trace).rows if not row.is_inferred] == [name]


def test_steps_are_no_marks_and_without_marks_the_analysis_does_not_run() -> None:
    trace = two_steps()
    trace.op("aten::mm", 5, 5)
    reason = phases.ANALYSES[0].missing(Context(read_built(trace)))
    assert reason is not None
    assert reason.id == "skip-no-marks"
    trace.annotation("work", 0, 20)
    assert phases.ANALYSES[0].missing(Context(read_built(trace))) is None


def test_marks_deeper_than_is_told_apart_count_at_the_deepest_place() -> None:
    trace = TraceBuilder()
    for level in range(100):
        trace.annotation(f"level {'x' * level}", level, 300 - 2 * level)
    trace.launch_kernel("k", 500, 4, at=150)
    found = phases_of(trace)
    assert [place.depth for place in found.tree] == list(range(32))
    assert found.tree[-1].calls == 100 - 31
    assert us(found.tree[-1].device_self_ns) == 4
    assert us(sum(place.host_self_ns for place in found.tree)) == 300
