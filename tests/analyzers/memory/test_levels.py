"""Which totals are believed, what the level is between them, and how a curve keeps its peaks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.analyzers.memory.levels import POINTS, _levels, curve, judge_totals

KNOWN, FOREIGN = 0, 1


def judged(*records: tuple[int, int]) -> tuple[list[bool], list[bool]]:
    """Which (bytes, total) are believed, and which are foreign."""
    change, total = (np.array(column, np.int64) for column in zip(*records, strict=True))
    believed, foreign = judge_totals(change, total)
    return believed.tolist(), foreign.tolist()


def test_consistent_totals_are_believed() -> None:
    believed, foreign = judged((100, 100), (50, 150), (-100, 50), (-50, 0))
    assert believed == [True] * 4
    assert foreign == [False] * 4


def test_a_total_below_what_was_just_taken_is_not_the_allocators() -> None:
    believed, foreign = judged((864, 864), (64, 0), (100, 964))
    assert believed == [True, False, True]
    assert foreign == [False, True, False]


def test_a_release_down_to_0_is_believed_if_the_next_total_starts_there() -> None:
    assert judged((8, 8), (-8, 0), (16, 16))[FOREIGN] == [False, False, False]
    assert judged((8, 8), (-64, 0), (16, 24))[FOREIGN] == [False, True, False]
    assert judged((8, 8), (-8, 0))[KNOWN] == [True, True]


def test_a_writer_that_says_0_always_has_no_totals() -> None:
    believed, foreign = judged((8, 0), (-8, 0), (16, 0))
    assert believed == [False] * 3
    assert foreign == [False] * 3


def test_absent_totals_are_not_foreign() -> None:
    assert judged((8, -1), (-8, -1)) == ([False, False], [False, False])


def test_levels_between_totals_follow_the_changes() -> None:
    change = np.array([10, 10, -5, 20, -7])
    total = np.array([-1, 120, -1, -1, 100])
    believed = np.array([False, True, False, False, True])
    assert _levels(change, total, believed).tolist() == [110, 120, 115, 135, 100]
    assert _levels(change, total, np.zeros(5, np.bool_)).tolist() == [10, 20, 15, 35, 28]


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=60), st.integers(0, 5000), st.data())
def test_what_an_allocator_reports_is_believed(sizes: list[int], held: int, data: st.DataObject) -> None:
    """Totals of a real allocator: all true, and the levels are the totals, whichever of them are missing."""
    change, blocks = [], []
    for size in sizes:
        change.append(size)
        blocks.append(size)
        if data.draw(st.booleans()):
            change.append(-blocks.pop(data.draw(st.integers(0, len(blocks) - 1))))
    taken = np.array(change, np.int64)
    total = held + np.cumsum(taken)
    believed, foreign = judge_totals(taken, total)
    assert believed.all()
    assert not foreign.any()
    known = np.array(data.draw(st.lists(st.booleans(), min_size=len(taken), max_size=len(taken))))
    if known.any():
        levels = _levels(taken, np.where(known, total, -1), known)
        assert levels.tolist() == total.tolist()


def test_few_points_stay_as_they_are() -> None:
    found = curve(np.array([5, 7, 9, 12]), np.array([1, 3, 3, 2]))
    assert found.time_ns == (5, 7, 12)
    assert found.level_bytes == (1, 3, 2)
    assert curve(np.empty(0, np.int64), np.empty(0, np.int64)).time_ns == ()


def test_a_peak_of_a_nanosecond_survives() -> None:
    level = np.zeros(100_000, np.int64)
    level[::2] = 1
    level[50_001], level[70_002] = 999, -5
    found = curve(np.arange(100_000), level)
    assert max(found.level_bytes) == 999
    assert min(found.level_bytes) == -5
    assert found.time_ns[found.level_bytes.index(999)] == 50_001
    assert 300 < len(found.time_ns) <= POINTS


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 30)), min_size=1, max_size=200),
    st.integers(4, 40),
)
def test_every_span_of_time_keeps_its_extremes(records: list[tuple[int, int]], points: int) -> None:
    time = np.cumsum([gap for gap, _ in records])
    level = np.array([value for _, value in records])
    found = curve(time, level, points)
    assert len(found.time_ns) <= points
    assert (found.time_ns[0], found.level_bytes[0]) == (time[0], level[0])
    assert (found.time_ns[-1], found.level_bytes[-1]) == (time[-1], level[-1])
    assert max(found.level_bytes) == level.max()
    assert min(found.level_bytes) == level.min()
    assert list(found.time_ns) == sorted(found.time_ns)
    assert set(zip(found.time_ns, found.level_bytes, strict=True)) <= set(
        zip(time.tolist(), level.tolist(), strict=True)
    )


@pytest.mark.parametrize("size", [1, 2, 511, 512, 513, 5000])
def test_never_more_points_than_asked(size: int) -> None:
    found = curve(np.arange(size), np.arange(size) % 7)
    assert len(found.time_ns) <= POINTS
    assert found.time_ns[0] == 0
    assert found.time_ns[-1] == size - 1
