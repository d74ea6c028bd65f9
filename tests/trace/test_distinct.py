"""Distinct values and order are those that sorting gives, whether values lie close together or far apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.trace.distinct import ascending, distinct, is_among, moments, ranked, stable_order

near = st.lists(st.integers(-3, 40), max_size=30)
far = st.lists(st.sampled_from([-(2**63), -(2**31), -1, 0, 3, 2**31, 2**63 - 1]), max_size=12)


@given(near | far)
def test_distinct_values_and_their_ranks(values: list[int]) -> None:
    column, expected = np.array(values, np.int64), sorted(set(values))
    found, ranks = ranked(column)
    assert distinct(column).tolist() == found.tolist() == expected
    assert [expected[rank] for rank in ranks.tolist()] == values
    assert ascending(column).tolist() == sorted(values)


@pytest.mark.parametrize(
    ("dtype", "values"), [("i1", [-128, 127, -128]), ("u1", [255, 0]), ("i4", [-(2**31), 2**31 - 1])]
)
def test_columns_of_few_bits_from_their_least_to_their_greatest_value(dtype: str, values: list[int]) -> None:
    column = np.array(values, dtype)
    found, ranks = ranked(column)
    assert found.tolist() == distinct(column).tolist() == sorted(set(values))
    assert found[ranks].tolist() == values
    assert found.dtype == distinct(column).dtype == column.dtype


@given(near | far | st.lists(st.sampled_from([-(2**15) - 1, 2**15 - 1, 2**15, 2**16]), max_size=6))
def test_rows_of_one_number_keep_their_order(values: list[int]) -> None:
    order = stable_order(np.array(values, np.int64)).tolist()
    assert order == sorted(range(len(values)), key=lambda row: (values[row], row))


@given(near | far, near | far)
def test_moments_of_columns_are_their_distinct_times(one: list[int], two: list[int]) -> None:
    assert moments(np.array(one, np.int64), np.array(two, np.int64)).tolist() == sorted({*one, *two})


@given(st.lists(st.integers(-1, 12), max_size=20), st.sets(st.integers(-1, 15)))
def test_codes_among_some(codes: list[int], wanted: set[int]) -> None:
    assert is_among(np.array(codes, np.int32), wanted).tolist() == [code in wanted for code in codes]
