"""Entries of a column at rows of which some are none."""

from __future__ import annotations

import numpy as np
import pytest

from traceanalyzer.trace.table import take_or


@pytest.mark.parametrize("rows", [[0, -1, 2, 1], [3, 0, 3, -1], []])
def test_no_row_is_minus_one_or_the_one_after_the_last(rows: list[int]) -> None:
    found = take_or(np.array([10, 20, 30]), np.array(rows, np.int64), 99)
    assert found.tolist() == [{0: 10, 1: 20, 2: 30}.get(row, 99) for row in rows]


def test_an_empty_column_has_no_row() -> None:
    assert take_or(np.zeros(0, np.int64), np.array([0, -1]), 99).tolist() == [99, 99]


def test_what_is_missing_fits_into_the_result() -> None:
    assert take_or(np.array([200], np.uint8), np.array([0, -1]), -1).tolist() == [200, -1]


def test_one_row() -> None:
    assert int(take_or(np.array([7]), 0, 99)) == 7
    assert int(take_or(np.array([7]), -1, 99)) == 99
