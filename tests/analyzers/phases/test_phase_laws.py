"""Laws of phases for arbitrary traces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.random_traces import Plan, duration, plans, time
from tests.reading import read_built
from traceanalyzer.analyzers import phases
from traceanalyzer.analyzers.phases import Phases
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.mark_forest import forest
from traceanalyzer.trace.tree import NO_PARENT

passes = st.lists(st.tuples(time, duration), max_size=4)
"""Starts and durations of what autograd evaluates on the second thread of a plan."""


def found_in(plan: Plan, evaluations: list[tuple[int, int]]) -> tuple[Phases, Context]:
    trace = plan.build()
    for number, (start, dur) in enumerate(evaluations):
        trace.op("autograd::engine::evaluate_function: X", start, dur, sequence=number, fwd_thread=1, tid=4202)
        trace.op("aten::forward", start + 3, 2, sequence=number, tid=4201)
    context = Context(read_built(trace))
    return phases.analyze(context), context


@given(plans, passes)
def test_exclusive_times_never_exceed_inclusive_ones(plan: Plan, evaluations: list[tuple[int, int]]) -> None:
    found, _ = found_in(plan, evaluations)
    for row in (*found.rows, *found.tree):
        assert 0 <= row.host_self_ns <= row.host_ns
        assert 0 <= (row.device_self_ns or 0) <= (row.device_ns or 0)
        assert 0 <= (row.idle_self_ns or 0) <= (row.idle_ns or 0)
        assert (row.device_ns_per_step or 0) * (found.steps or 0) <= (row.device_ns or 0) + 1e-3
        assert row.recursive_calls < row.calls


@given(plans, passes)
def test_exclusive_device_times_and_what_is_unmarked_are_everything_that_was_launched(
    plan: Plan, evaluations: list[tuple[int, int]]
) -> None:
    found, context = found_in(plan, evaluations)
    linked = int(context.trace.device.dur_ns[context.links.launch != NO_PARENT].sum())
    assert (found.device_ns or 0) == linked
    for rows in (found.rows, found.tree):
        own = sum(row.device_self_ns or 0 for row in rows if not getattr(row, "is_inferred", False))
        assert own + (found.unmarked_device_ns or 0) == linked


@given(plans, passes)
def test_exclusive_host_times_are_the_time_of_threads_in_marks(plan: Plan, evaluations: list[tuple[int, int]]) -> None:
    found, context = found_in(plan, evaluations)
    tree = context.cached(forest).tree
    roots = tree.parent == NO_PARENT
    covered = int((tree.end_ns - tree.start_ns)[roots].sum())
    assert sum(place.host_self_ns for place in found.tree) == covered
    assert sum(row.host_self_ns for row in found.rows if not row.is_inferred) == covered
    assert sum(place.calls for place in found.tree) == found.marks


@given(plans, passes)
def test_idle_times_of_marks_are_part_of_all_idle_time(plan: Plan, evaluations: list[tuple[int, int]]) -> None:
    found, context = found_in(plan, evaluations)
    own = sum(place.idle_self_ns or 0 for place in found.tree)
    window = context.steps.window
    assert window is not None
    assert own <= window[1] - window[0]


@given(plans, passes)
def test_the_forest_is_in_order_and_nests(plan: Plan, evaluations: list[tuple[int, int]]) -> None:
    _, context = found_in(plan, evaluations)
    marks = context.cached(forest)
    for position, (parent, depth, after) in enumerate(
        zip(marks.parent.tolist(), marks.depth.tolist(), marks.after.tolist(), strict=True)
    ):
        assert position < after <= len(marks)
        assert depth == (0 if parent == NO_PARENT else marks.depth[parent] + 1)
        assert parent == NO_PARENT or (parent < position and after <= marks.after[parent])
