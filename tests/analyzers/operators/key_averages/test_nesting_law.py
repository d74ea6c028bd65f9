"""Nesting against torch's own procedure: a stack of open events, one event after the other."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.analyzers.operators.key_averages.figures import levels, nest

Slice = tuple[int, int, int, int]
SLICES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 12), st.integers(0, 2)), max_size=40)


def by_a_stack(slices: list[Slice]) -> list[int]:
    parents, stack, thread = [], [], None
    for position, (number, start, end, _) in enumerate(slices):
        if number != thread:
            stack, thread = [], number
        while stack and (start >= slices[stack[-1]][2] or end > slices[stack[-1]][2]):
            stack.pop()
        parents.append(stack[-1] if stack else -1)
        stack.append(position)
    return parents


def without_duplicates(slices: list[Slice], parents: list[int]) -> tuple[list[int], list[bool], list[int]]:
    """One pass from the first to the last: a duplicate's children become those of its parent."""
    parents, removed, kernels = list(parents), [False] * len(slices), list(range(len(slices)))
    children = [[i for i, p in enumerate(parents) if p == position] for position in range(len(slices))]
    for position, parent in enumerate(parents):
        if parent >= 0 and slices[parent][3] == slices[position][3] and len(children[parent]) == 1:
            children[parent] = children[position]
            kernels[parent] = kernels[position]
            for child in children[position]:
                parents[child] = parent
            removed[position] = True
    return parents, removed, kernels


@given(SLICES)
def test_parents_and_duplicates_are_those_of_the_procedure(drawn: list[Slice]) -> None:
    slices = sorted(((t, s, s + d, n) for t, s, d, n in drawn), key=lambda s: (s[0], s[1], -s[2]))
    columns = np.array(slices, np.int64).reshape(-1, 4).T
    nesting = nest(columns[0].astype(np.int32), columns[1], columns[2], columns[3].astype(np.int32))
    parents, removed, kernels = without_duplicates(slices, by_a_stack(slices))
    kept = [position for position, gone in enumerate(removed) if not gone]
    assert nesting.duplicate.tolist() == removed
    assert nesting.parent[kept].tolist() == [parents[position] for position in kept]
    assert nesting.innermost[kept].tolist() == [kernels[position] for position in kept]


@given(st.lists(st.integers(0, 10**6), max_size=60))
def test_levels_hold_every_event_once_and_parents_come_later(drawn: list[int]) -> None:
    parent = np.array([n % (i + 1) - 1 for i, n in enumerate(drawn)], np.int64)
    order = [position for level in levels(parent) for position in level.tolist()]
    assert sorted(order) == list(range(len(drawn)))
    place = {position: row for row, position in enumerate(order)}
    assert all(place[above] > place[position] for position, above in enumerate(parent.tolist()) if above >= 0)
