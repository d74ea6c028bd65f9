"""Sums by group are exact."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.structure.sums import count_by, group, sum_by

big = st.integers(-(2**58), 2**58)
pairs = st.lists(st.tuples(st.integers(0, 4), big), max_size=15)


@given(pairs)
def test_sums_and_counts(found: list[tuple[int, int]]) -> None:
    groups = np.array([g for g, _ in found], np.int64)
    values = np.array([v for _, v in found], np.int64)
    sums: Counter[int] = Counter()
    for number, value in found:
        sums[number] += value
    assert sum_by(groups, values, 6).tolist() == [sums[number] for number in range(6)]
    assert count_by(groups, 6).tolist() == [sum(g == number for g, _ in found) for number in range(6)]


def test_sums_beyond_floats() -> None:
    values = np.array([2**53, 1, 1, -1], np.int64)
    assert sum_by(np.zeros(4, np.int64), values, 1).tolist() == [2**53 + 1]


@given(st.lists(st.tuples(st.integers(-1, 3), big, st.integers(-1, 1)), max_size=15))
def test_groups_are_rows_that_agree_in_all_keys(rows: list[tuple[int, int, int]]) -> None:
    keys = [np.array([row[i] for row in rows], np.int64) for i in range(3)]
    first, groups = group(keys[0], keys[2], keys[0] + keys[2])
    pairs_of = [(row[0], row[2]) for row in rows]
    assert [pairs_of[row] for row in first.tolist()] == sorted(set(pairs_of))
    assert [pairs_of[first[g]] for g in groups.tolist()] == pairs_of
    assert all(pairs_of.index(pairs_of[row]) == row for row in first.tolist())


@given(st.lists(st.tuples(st.sampled_from([0, 5]), st.sampled_from([-(2**63), -1, 0, 2**62, 2**63 - 1])), max_size=12))
def test_groups_by_any_numbers(rows: list[tuple[int, int]]) -> None:
    first, groups = group(np.array([a for a, _ in rows], np.int64), np.array([b for _, b in rows], np.int64))
    assert [rows[row] for row in first.tolist()] == sorted(set(rows))
    assert [rows[first[g]] for g in groups.tolist()] == rows
