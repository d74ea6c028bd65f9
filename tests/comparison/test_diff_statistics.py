"""The statistical tests of a verdict, compared with tables, enumeration and figures worked out by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.comparison import statistics
from traceanalyzer.comparison.statistics import inflation, rank_sum, welch

samples = st.lists(st.integers(0, 30), min_size=3, max_size=6).map(lambda values: np.array(values, np.float64))


@pytest.mark.parametrize(
    ("t", "freedom", "p"),
    [(12.7062, 1, 0.05), (4.3027, 2, 0.05), (2.2281, 10, 0.05), (3.1693, 10, 0.01), (1.9600, 1e7, 0.05), (0, 5, 1)],
)
def test_the_t_distribution_agrees_with_printed_tables(t: float, freedom: float, p: float) -> None:
    assert statistics.two_sided_p(t, freedom) == pytest.approx(p, abs=2e-5)


@given(st.floats(0.0001, 0.9), st.floats(1, 500))
def test_the_quantile_is_the_inverse(level: float, freedom: float) -> None:
    assert statistics.two_sided_p(statistics.quantile(level, freedom), freedom) == pytest.approx(level, rel=1e-6)


def test_certainty_is_certain() -> None:
    assert statistics.two_sided_p(math.inf, 3) == 0


def test_welch_by_hand() -> None:
    """Variances 1 and 4 of 4 values each: error sqrt(1.25), freedom 1.25^2 / (0.0625/3 + 1/3) = 4.412."""
    base = np.array([-1.0, -1, 1, 1]) * math.sqrt(3 / 4) + 10
    head = np.array([-1.0, -1, 1, 1]) * math.sqrt(3) + 12
    found = welch(base, head, 0.05)
    assert found.change == pytest.approx(2)
    assert found.p == pytest.approx(statistics.two_sided_p(2 / math.sqrt(1.25), 1.25**2 / (0.0625 / 3 + 1 / 3)))
    assert found.interval is not None
    assert found.interval[1] - 2 == pytest.approx(2 - found.interval[0])


def test_welch_of_constants() -> None:
    same, other = np.full(5, 3.0), np.full(5, 4.0)
    assert (welch(same, same, 0.05).p, welch(same, other, 0.05).p) == (1.0, 0.0)
    assert welch(same, other, 0.05).interval == (1.0, 1.0)


def by_enumeration(base: np.ndarray, head: np.ndarray) -> float:
    """The share of all divisions whose rank sum is as far from the middle as the given one."""
    values = np.concatenate((base, head))
    ranks = [sum(v < x for v in values) + (sum(v == x for v in values) + 1) / 2 for x in values]
    middle = len(head) * (len(values) + 1) / 2
    given_ = abs(sum(ranks[len(base) :]) - middle)
    sums = [abs(sum(chosen) - middle) for chosen in itertools.combinations(ranks, len(head))]
    return sum(s >= given_ - 1e-9 for s in sums) / len(sums)


@given(samples, samples)
def test_rank_sums_are_exact_with_ties(base: np.ndarray, head: np.ndarray) -> None:
    assert rank_sum(base, head, 0.05).p == pytest.approx(by_enumeration(base, head))


@given(samples, samples)
def test_swapping_the_sides_turns_the_sign_and_nothing_else(base: np.ndarray, head: np.ndarray) -> None:
    there, back = rank_sum(base, head, 0.05), rank_sum(head, base, 0.05)
    assert there.p == pytest.approx(back.p)
    assert there.change == pytest.approx(-back.change)
    if there.interval is not None and back.interval is not None:
        assert there.interval == pytest.approx((-back.interval[1], -back.interval[0]))


def test_the_interval_of_the_shift_by_hand() -> None:
    """Five against five: P(U <= 2) = 4/252 <= 2.5 %, so the third smallest difference is the lower end."""
    base, head = np.arange(5.0), np.arange(5.0) * 10 + 100
    differences = sorted(h - b for h in head for b in base)
    assert rank_sum(base, head, 0.05).interval == (differences[2], differences[-3])
    assert rank_sum(base[:3], head[:3], 0.05).interval is None, "three against three tell nothing at 5 %"


def test_large_samples_are_approximated_continuously() -> None:
    """At the border between counting and the normal law the p is nearly the same."""
    random = np.random.default_rng(5)
    base, head = random.normal(100, 5, 60), random.normal(101.2, 5, 60)
    exact = rank_sum(base, head, 0.05)
    more = rank_sum(np.append(base, np.median(base)), head, 0.05)
    assert more.p == pytest.approx(exact.p, rel=0.25)
    assert rank_sum(np.zeros(100), np.zeros(100), 0.05).p == pytest.approx(1)


def test_neighbours_that_are_alike_widen_the_interval() -> None:
    slow_phase = [100, 101, 102, 104, 107, 109, 110, 111, 112, 113]
    factor = inflation(slow_phase)
    assert factor > 2
    base, head = np.array(slow_phase, float), np.array(slow_phase, float) + 12
    plain, wide = rank_sum(base, head, 0.05), rank_sum(base, head, 0.05, factor)
    assert wide.p > plain.p
    assert plain.interval is not None
    assert wide.interval is not None
    assert wide.interval[1] - wide.interval[0] == pytest.approx(factor * (plain.interval[1] - plain.interval[0]))


@pytest.mark.parametrize("run", [[130, 158, 140, 163, 141, 159], [5, 5, 5, 5], [1, 2], []])
def test_alternating_constant_and_short_runs_widen_nothing(run: list[float]) -> None:
    assert inflation(run) == 1.0


def test_an_outlier_makes_no_neighbours_alike() -> None:
    assert inflation([100, 101, 99, 100.5, 5000, 99.5, 100.2, 99.8]) == 1.0
