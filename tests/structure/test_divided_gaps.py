"""Gaps that are cut at steps have the causes that whole gaps have, divided among the steps."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from tests.builders import TraceBuilder
from tests.reading import read_built
from tests.structure.plans import Plan, plans
from traceanalyzer.structure import gap_causes, gaps
from traceanalyzer.structure import idle_times as parts
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.steps import Steps

US = 1000


def steps(*bounds: tuple[int, int]) -> Steps:
    start, end = (np.array([bound[side] for bound in bounds], np.int64) * US for side in (0, 1))
    return Steps(tuple(map(str, range(len(bounds)))), start, end, None)


def recorded() -> Context:
    """Kernels at 5 to 20 and 150 to 160 us, the second launched at 140; the loader is waited for from 30 to 120."""
    trace = TraceBuilder()
    trace.step(1, 0, 200)
    trace.launch_kernel("first", 5, 15, at=0)
    trace.annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 30, 90)
    trace.launch_kernel("second", 150, 10, at=140)
    return Context(read_built(trace))


def test_a_gap_across_a_border_counts_in_both_steps_and_once_as_a_gap() -> None:
    found = parts.divide(recorded(), 0, steps((0, 50), (60, 200)))
    loader = gap_causes.DATALOADER
    # Of the 90 us in the loader the first step has 20, the second 60, and the time between them 10.
    assert [int(time) for time in found.of_cause(loader) // US if time] == [20, 10, 60]
    assert found.step[found.of_cause(loader) > 0].tolist() == [0, parts.BETWEEN, 1]
    assert int(found.gaps_by_cause()[loader]) == 1
    inside = found.in_steps()
    assert [int(inside.by_cause(inside.step == step)[loader]) // US for step in (0, 1)] == [20, 60]


def test_where_steps_overlap_nothing_lies_between_them() -> None:
    overlapping = steps((0, 100), (90, 200))
    assert not parts.are_disjoint(overlapping)
    assert parts.BETWEEN not in parts.divide(recorded(), 0, overlapping).step


@given(plans)
def test_parts_sum_to_the_causes_of_whole_gaps(plan: Plan) -> None:
    context = Context(read_built(plan.build()))
    window = context.steps.window
    assert window is not None
    low, high = window
    middle = (low + high) // 2
    cut = Steps(("0", "1"), np.array([low, middle]), np.array([middle - (middle - low) // 3, high]), None)
    found = parts.divide(context, 0, cut)
    whole = gap_causes.attribute(context, gaps.of_device(context, 0, window))
    assert found.by_cause(np.ones(len(found.gaps), np.bool_)).tolist() == whole.sum(axis=0).tolist()
    assert found.gaps_by_cause().tolist() == (whole > 0).sum(axis=0).tolist()
