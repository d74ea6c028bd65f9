"""Slices nest as a stack would nest them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.trace.tree import NO_PARENT, Tree

Slice = tuple[int, int, int]
"""Thread, start and duration of a slice."""

slices = st.lists(st.tuples(st.sampled_from([0, 1, 40_000]), st.integers(0, 25), st.integers(0, 14)), max_size=30).map(
    lambda found: sorted(found, key=lambda s: s[1])
)
"""In the order of their start, as tables are; the last thread needs more than 16 bits."""


@dataclass
class Naive:
    """A slice, nested by hand."""

    row: int
    thread: int
    start: int
    end: int
    parent: int
    depth: int
    after: int = 0


def naive_tree(given_slices: list[Slice]) -> tuple[list[Naive], int]:
    """Nest with a stack, one slice after the other; also how many were clipped."""
    order = sorted(
        range(len(given_slices)),
        key=lambda r: (given_slices[r][0], given_slices[r][1], -given_slices[r][2]),
    )
    nodes: list[Naive] = []
    stack: list[int] = []
    clipped = 0
    for position, row in enumerate(order):
        thread, start, dur = given_slices[row]
        while stack and (nodes[stack[-1]].thread != thread or nodes[stack[-1]].end <= start):
            stack.pop()
        end = start + dur
        if stack and end > nodes[stack[-1]].end:
            end = nodes[stack[-1]].end
            clipped += 1
        nodes.append(Naive(row, thread, start, end, stack[-1] if stack else NO_PARENT, len(stack)))
        stack.append(position)
    for position, node in enumerate(nodes):
        node.after = position + 1
        while node.after < len(nodes) and has_ancestor(nodes, node.after, position):
            node.after += 1
    return nodes, clipped


def has_ancestor(nodes: list[Naive], position: int, ancestor: int) -> bool:
    while position != NO_PARENT:
        position = nodes[position].parent
        if position == ancestor:
            return True
    return False


def build(given_slices: list[Slice]) -> tuple[Tree, list[int]]:
    thread, start, dur = (np.array([s[i] for s in given_slices], np.int64) for i in range(3))
    tree, rows = Tree.build(thread.astype(np.int32), start, dur)
    return tree, rows.tolist()


@given(slices)
def test_nesting_is_that_of_a_stack(given_slices: list[Slice]) -> None:
    tree, rows = build(given_slices)
    nodes, clipped = naive_tree(given_slices)
    assert len(tree) == len(nodes)
    assert rows == [n.row for n in nodes]
    assert tree.start_ns.tolist() == [n.start for n in nodes]
    assert tree.end_ns.tolist() == [n.end for n in nodes]
    assert tree.depth.tolist() == [n.depth for n in nodes]
    assert tree.parent.tolist() == [n.parent for n in nodes]
    assert tree.after.tolist() == [n.after for n in nodes]
    assert tree.clipped == clipped


@given(slices)
def test_clipped_slices_nest_without_clipping(given_slices: list[Slice]) -> None:
    nodes, _ = naive_tree(given_slices)
    laminar = sorted(((n.thread, n.start, n.end - n.start) for n in nodes), key=lambda s: s[1])
    tree, _ = build(laminar)
    assert tree.clipped == 0
    assert sorted(zip(tree.start_ns.tolist(), tree.end_ns.tolist(), strict=True)) == sorted(
        (n.start, n.end) for n in nodes
    )


@given(slices, st.lists(st.tuples(st.sampled_from([0, 1, 7, 40_000]), st.integers(-2, 42)), max_size=20))
def test_innermost_is_the_deepest_open_slice(given_slices: list[Slice], asked: list[tuple[int, int]]) -> None:
    tree, _ = build(given_slices)
    nodes, _ = naive_tree(given_slices)
    found = tree.innermost(
        np.array([thread for thread, _ in asked], np.int32), np.array([time for _, time in asked], np.int64)
    )
    for (thread, time), position in zip(asked, found.tolist(), strict=True):
        open_slices = [p for p, n in enumerate(nodes) if n.thread == thread and n.start <= time < n.end]
        deepest = max(open_slices, key=lambda p: nodes[p].depth, default=NO_PARENT)
        assert position == deepest


@given(slices)
def test_sums_are_those_of_the_subtrees(given_slices: list[Slice]) -> None:
    tree, _ = build(given_slices)
    nodes, _ = naive_tree(given_slices)
    values = [(7 * p * p + 3) % 101 - 50 for p in range(len(nodes))]
    array = np.array(values, np.int64)
    subtree = [sum(v for q, v in enumerate(values) if q == p or has_ancestor(nodes, q, p)) for p in range(len(nodes))]
    children = [sum(v for q, v in enumerate(values) if nodes[q].parent == p) for p in range(len(nodes))]
    assert tree.sums(array).tolist() == subtree
    assert tree.child_sums(array).tolist() == children


@given(slices)
def test_self_times_sum_to_the_roots(given_slices: list[Slice]) -> None:
    tree, _ = build(given_slices)
    total = tree.end_ns - tree.start_ns
    own = total - tree.child_sums(total)
    assert (own >= 0).all()
    assert own.sum() == total[tree.parent == NO_PARENT].sum()


@pytest.mark.parametrize(
    ("given_slices", "parents", "depths"),
    [
        pytest.param([(0, 0, 10), (0, 0, 10)], [-1, 0], [0, 1], id="equal slices nest in their order"),
        pytest.param([(0, 0, 5), (0, 0, 10)], [-1, 0], [0, 1], id="the longer one is outside"),
        pytest.param([(0, 0, 10), (0, 10, 0)], [-1, -1], [0, 0], id="an instant at the end is outside"),
        pytest.param([(0, 0, 10), (0, 0, 0)], [-1, 0], [0, 1], id="an instant at the start is inside"),
        pytest.param([(0, 4, 0), (0, 4, 0)], [-1, -1], [0, 0], id="instants do not nest"),
        pytest.param([(0, 0, 10), (1, 2, 3)], [-1, -1], [0, 0], id="threads do not nest"),
    ],
)
def test_ties(given_slices: list[Slice], parents: list[int], depths: list[int]) -> None:
    tree, _ = build(given_slices)
    assert tree.parent.tolist() == parents
    assert tree.depth.tolist() == depths


def test_a_slice_that_outlasts_its_parent_ends_with_it() -> None:
    tree, _ = build([(0, 0, 10), (0, 5, 20), (0, 12, 2)])
    assert tree.end_ns.tolist() == [10, 10, 14]
    assert tree.parent.tolist() == [-1, 0, -1]
    assert tree.clipped == 1


def test_depths_beyond_16_bits() -> None:
    deep = 40_000
    tree, _ = build([(0, i, 2 * (deep - i)) for i in range(deep)])
    assert tree.depth.tolist() == list(range(deep))
    assert tree.parent.tolist() == list(range(-1, deep - 1))


def test_no_slices() -> None:
    tree, rows = build([])
    assert (len(tree), rows, tree.clipped) == (0, [], 0)
    assert tree.innermost(np.array([0], np.int32), np.array([5], np.int64)).tolist() == [NO_PARENT]


@given(slices, st.lists(st.booleans(), min_size=30, max_size=30))
def test_nearest_is_the_first_marked_one_on_the_way_up(given_slices: list[Slice], marks: list[bool]) -> None:
    tree, _ = build(given_slices)
    marked = np.array(marks[: len(tree)], np.bool_)
    expected = []
    for position in range(len(tree)):
        above = position
        while above != NO_PARENT and not marked[above]:
            above = int(tree.parent[above])
        expected.append(above)
    assert tree.nearest(marked).tolist() == expected


@given(slices, st.lists(st.booleans(), min_size=30, max_size=30))
def test_marked_slices_around_each_are_those_on_the_way_up(given_slices: list[Slice], marks: list[bool]) -> None:
    tree, _ = build(given_slices)
    nodes, _ = naive_tree(given_slices)
    marked = np.array(marks[: len(tree)], np.bool_)
    expected = [
        sum(has_ancestor(nodes, position, above) for above in np.flatnonzero(marked).tolist())
        for position in range(len(nodes))
    ]
    assert tree.around(marked).tolist() == expected


def first_marked(tree: Tree, position: int, marked: set[int]) -> int:
    while position != NO_PARENT and position not in marked:
        position = int(tree.parent[position])
    return position


@given(slices.filter(bool), st.lists(st.integers(0, 10**6), max_size=9))
def test_a_few_marked_among_many_slices(given_slices: list[Slice], places: list[int]) -> None:
    """Slices on so many threads that only a small part of all is marked."""
    many = [(thread + number, start, dur) for thread, start, dur in given_slices for number in range(0, 800, 2)]
    tree, _ = build(sorted(many, key=lambda each: each[1]))
    marked = {place % len(tree) for place in places}
    mask = np.zeros(len(tree), np.bool_)
    mask[[*marked]] = True
    nearest = tree.nearest(mask)
    near = {position for place in marked for position in range(max(0, place - 40), min(len(tree), place + 40))}
    assert all(nearest[position] == first_marked(tree, position, marked) for position in near)
    assert set(nearest.tolist()) <= {*marked, NO_PARENT}


def test_more_points_than_are_looked_up_at_once() -> None:
    tree, _ = build([(0, 0, 100), (0, 10, 20), (0, 12, 3), (1, 5, 5)])
    thread, times = np.array([0, 0, 0, 1, 1, 0], np.int32), np.array([11, 13, 50, 7, 20, 200], np.int64)
    many = 9_000
    found = tree.innermost(np.tile(thread, many), np.tile(times, many))
    assert found.tolist() == [1, 2, 0, 3, NO_PARENT, NO_PARENT] * many


@given(slices, st.lists(st.tuples(st.sampled_from([0, 1, 7, 40_000]), st.integers(-3, 45)), max_size=20))
def test_threads_far_apart_in_time_nest_as_near_ones(given_slices: list[Slice], points: list[tuple[int, int]]) -> None:
    """Times so large that threads one after another leave 64 bits."""
    far = 2**56
    near, tree = build(given_slices)[0], build([(t, start * far, dur * far) for t, start, dur in given_slices])[0]
    assert tree.parent.tolist() == near.parent.tolist()
    assert tree.depth.tolist() == near.depth.tolist()
    assert tree.after.tolist() == near.after.tolist()
    assert tree.clipped == near.clipped
    assert tree.end_ns.tolist() == [end * far for end in near.end_ns.tolist()]
    thread, times = (np.array([point[i] for point in points], np.int64) for i in range(2))
    innermost = near.innermost(thread.astype(np.int32), times).tolist()
    assert tree.innermost(thread.astype(np.int32), times * far).tolist() == innermost


def test_levels_and_threads_are_no_work_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    for name in ("searchsorted", "argsort", "sort", "where", "flatnonzero"):
        function = getattr(np, name)

        def counted(*args: object, name: str = name, function: Any = function, **kwargs: object) -> object:
            calls.append(name)
            return function(*args, **kwargs)

        monkeypatch.setattr(np, name, counted)

    def work(given_slices: list[Slice]) -> int:
        calls.clear()
        tree, _ = build(given_slices)
        tree.innermost(np.zeros(len(tree), np.int32), tree.start_ns)
        return len(calls)

    def nested(levels: int) -> list[Slice]:
        return [(0, level, 2 * (levels - level)) for level in range(levels)]

    assert work(nested(3_000)) == work(nested(3))
    assert work([(thread, thread, 5) for thread in range(3_000)]) == work([(thread, thread, 5) for thread in range(3)])
