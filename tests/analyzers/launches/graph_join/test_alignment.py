"""Matching of sequences: laws, and a slow way to the same answer."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.analyzers.launches.graph_join.fitting import agreement, common, completed, in_order, most_frequent

CODES = st.lists(st.integers(0, 2), max_size=12)


def longest_common(left: list[int], right: list[int]) -> int:
    """Length of the longest common subsequence, by the table that everybody knows."""
    table = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            table[i + 1][j + 1] = table[i][j] + 1 if a == b else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


@given(CODES, CODES)
def test_as_many_codes_as_possible_are_matched_in_order(left: list[int], right: list[int]) -> None:
    nodes, run = np.array(left, np.int64), np.array(right, np.int64)
    partner = in_order(nodes, run)
    matched = partner >= 0
    assert matched.sum() == longest_common(left, right)
    assert (nodes[partner[matched]] == run[matched]).all()
    assert (np.diff(partner[matched]) > 0).all()


@given(CODES, CODES)
def test_what_is_left_is_matched_as_long_as_both_sides_have_it(left: list[int], right: list[int]) -> None:
    nodes, run = np.array(left, np.int64), np.array(right, np.int64)
    partner = completed(in_order(nodes, run), nodes, run)
    matched = partner[partner >= 0]
    assert len(set(matched.tolist())) == len(matched) == common(nodes, run)
    assert (nodes[matched] == run[partner >= 0]).all()


def test_layers_are_not_shifted_where_one_node_is_missing() -> None:
    layer = [1, 2, 3]
    run = np.array([0, *layer * 20, 9], np.int64)
    nodes = np.delete(run, 17)
    assert in_order(nodes, run).tolist() == [*range(17), -1, *range(17, 61)]


def test_so_many_edits_that_no_order_can_be_found_match_nothing_in_order() -> None:
    nodes, run = np.arange(1000), np.arange(1000)[::-1].copy()
    assert (in_order(nodes, run) == -1).all()
    assert (completed(in_order(nodes, run), nodes, run) == run).all()


def test_equal_keys_agree_as_far_as_they_have_their_most_frequent_value() -> None:
    keys = np.array([1, 1, 1, 2, 2, 3], np.int64)
    assert agreement(keys, np.array([5, 5, 6, 7, 7, 8], np.int64)) == 4 / 5  # key 3 occurs once and tells nothing
    assert agreement(np.arange(3), np.arange(3)) is None
    assert most_frequent(keys, np.array([5, 6, 6, 8, 7, 9], np.int64), 5).tolist() == [-1, 6, 7, 9, -1]
