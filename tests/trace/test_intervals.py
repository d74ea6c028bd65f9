"""Interval sets obey the laws of sets of integers."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.trace.intervals import Intervals

EPOCH = 1_700_000_000_000_000_000
FRAME = range(-30, 60)

spans = st.lists(st.tuples(st.integers(-20, 30), st.integers(-3, 12)), max_size=12)
"""Starts and lengths; those without length are empty."""

shifts = st.integers(-EPOCH, EPOCH)


def built(chosen: list[tuple[int, int]], shift: int = 0) -> Intervals:
    start = np.array([s for s, _ in chosen], np.int64) + shift
    return Intervals.union(start, start + np.array([length for _, length in chosen], np.int64))


def moved(intervals: Intervals, shift: int) -> Intervals:
    return Intervals(intervals.start + shift, intervals.end + shift)


def members(intervals: Intervals) -> set[int]:
    return {t for a, b in zip(intervals.start.tolist(), intervals.end.tolist(), strict=True) for t in range(a, b)}


def points(chosen: list[tuple[int, int]]) -> set[int]:
    return {t for start, length in chosen for t in range(start, start + length)}


def assert_normal(intervals: Intervals) -> None:
    """Disjoint, ascending, not even touching, none without length."""
    bounds = list(zip(intervals.start.tolist(), intervals.end.tolist(), strict=True))
    assert all(start < end for start, end in bounds)
    assert all(end < start for (_, end), (start, _) in pairwise(bounds))


@given(spans)
def test_union_is_the_set_of_covered_points(chosen: list[tuple[int, int]]) -> None:
    found = built(chosen)
    assert_normal(found)
    assert members(found) == points(chosen)
    assert found.length == len(points(chosen))
    assert bool(found) == bool(points(chosen))
    assert len(found) == len(found.start) == len(found.end)


@given(spans.flatmap(lambda chosen: st.tuples(st.just(chosen), st.permutations(chosen))))
def test_union_does_not_depend_on_the_order(two: tuple[list[tuple[int, int]], list[tuple[int, int]]]) -> None:
    assert built(two[0]) == built(two[1])


@given(spans, spans)
def test_operators_are_those_of_sets(one: list[tuple[int, int]], two: list[tuple[int, int]]) -> None:
    a, b = built(one), built(two)
    for found, wanted in (
        (a | b, points(one) | points(two)),
        (a & b, points(one) & points(two)),
        (a - b, points(one) - points(two)),
    ):
        assert_normal(found)
        assert members(found) == wanted
    assert (a == b) == (points(one) == points(two))


@given(spans, spans, spans)
def test_algebra(one: list[tuple[int, int]], two: list[tuple[int, int]], three: list[tuple[int, int]]) -> None:
    a, b, c, none = built(one), built(two), built(three), Intervals.none()
    assert (a | a) == (a & a) == (a | none) == (a - none) == a
    assert (a - a) == (a & none) == (none - a) == none
    assert (a | b) == (b | a)
    assert (a & b) == (b & a)
    assert ((a | b) | c) == (a | (b | c))
    assert ((a & b) & c) == (a & (b & c))
    assert (a & (b | c)) == ((a & b) | (a & c))
    assert (a | (a & b)) == (a & (a | b)) == a
    assert (a - (b | c)) == ((a - b) & (a - c)) == ((a - b) - c)
    assert (a - (b & c)) == ((a - b) | (a - c))
    assert (a | b).length + (a & b).length == a.length + b.length


@given(spans, st.integers(-25, 45), st.integers(-25, 45))
def test_clip_keeps_one_range(chosen: list[tuple[int, int]], start: int, end: int) -> None:
    found = built(chosen).clip(start, end)
    assert_normal(found)
    assert members(found) == points(chosen) & set(range(start, end))


@given(spans, spans)
def test_within_counts_the_points_of_each_range(chosen: list[tuple[int, int]], asked: list[tuple[int, int]]) -> None:
    start = np.array([s for s, _ in asked], np.int64)
    end = start + np.array([length for _, length in asked], np.int64)
    counts = built(chosen).within(start, end).tolist()
    assert counts == [len(points(chosen) & set(range(s, s + length))) for s, length in asked]


@given(spans)
def test_a_set_contains_its_points(chosen: list[tuple[int, int]]) -> None:
    times = np.array(FRAME, np.int64)
    assert {int(time) for time in times[built(chosen).contains(times)]} == points(chosen)


@given(spans, spans, shifts)
def test_time_has_no_origin(one: list[tuple[int, int]], two: list[tuple[int, int]], shift: int) -> None:
    a, b, later_a, later_b = built(one), built(two), built(one, shift), built(two, shift)
    assert later_a == moved(a, shift)
    assert (later_a | later_b) == moved(a | b, shift)
    assert (later_a & later_b) == moved(a & b, shift)
    assert (later_a - later_b) == moved(a - b, shift)
    assert later_a.clip(shift - 5, shift + 17) == moved(a.clip(-5, 17), shift)
    assert later_a.within(b.start + shift, b.end + shift).tolist() == a.within(b.start, b.end).tolist()


@given(spans)
def test_complement_within_a_frame_is_its_own_inverse(chosen: list[tuple[int, int]]) -> None:
    frame = built([(FRAME.start, len(FRAME))])
    outside = frame - built(chosen)
    assert members(outside) == set(FRAME) - points(chosen)
    assert (frame - outside) == built(chosen)


def test_touching_intervals_join_and_empty_ones_vanish() -> None:
    found = built([(10, 5), (0, 10), (20, 0), (30, -5), (15, 1)])
    assert found == Intervals(np.array([0]), np.array([16]))
    assert found.length == 16


def test_a_thousand_intervals_are_not_too_many() -> None:
    """Membership is counted in small integers, which must not overflow."""
    even = built([(20 * i, 10) for i in range(1000)])
    odd = built([(20 * i + 10, 10) for i in range(1000)])
    assert len(even) == 1000
    assert (even | odd) == built([(0, 20_000)])
    assert not even & odd
    assert (even - odd) == even


def test_intervals_are_not_other_things() -> None:
    assert built([(0, 1)]) != "0 to 1"
    with pytest.raises(TypeError, match="unhashable"):
        hash(built([(0, 1)]))
