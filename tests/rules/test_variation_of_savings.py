"""How much steps differ: worked numbers, laws, and that no saving pretends to be exact."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import corpus_files
from tests.rules.judging import report, situations
from traceanalyzer.report.model import Report
from traceanalyzer.simulation import variation

LEAST = 0.03
"""Width of the narrowest interval of a saving, over its middle."""
times = st.floats(0, 1e9, allow_nan=False)


def ns(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


def test_the_difference_of_steps_varies_as_both_do() -> None:
    """Around 100 and 50 the middle distances are 3 and 4: 1.4826 times 5, over the root of nine."""
    before = ns(100, 100, 97, 103, 97, 103, 97, 103, 900)
    after = ns(50, 50, 46, 54, 46, 54, 46, 54, 700)
    assert variation.of_other_steps(before, after) == pytest.approx(1.4826 * 5 / 3)
    assert variation.of_other_steps(before[:2], after[:2]) == 0, "two steps do not tell"
    assert variation.of_savings(before, before - 10) == 0, "each step saves as much"
    assert variation.of_work(before) == pytest.approx(1.28 * 1.4826 * 3 / 3 / 100)
    assert variation.of_work(before[:2]) == variation.of_work(ns(0, 0, 0)) == 0
    assert variation.of_savings(before, after) == pytest.approx(1.4826 * 1 / 3), "50 three times, and 49 or 51"


def test_uncertainties_add_in_squares() -> None:
    """40 to 80 around 50 of a step of 100: 2.4 of steps counts 1.28 times, and 2 % of 50 is 1."""
    by = (1.28 * 2.4) ** 2 + 1
    low, high = variation.around((40, 80), 50, 2.4, 100)
    assert (low, high) == pytest.approx((50 - (100 + by) ** 0.5, 50 + (900 + by) ** 0.5))
    assert variation.around((40, 80), 50, 50, 81)[1] == 81, "no more than the step"
    assert variation.around((0, 10), 5, 1e6, 100) == pytest.approx((0, 5 + (25 + 25 + 0.01) ** 0.5)), "no more than it"
    assert variation.around((0, 0), 0, 3, 100) == (0, 0), "nothing stays nothing"
    assert variation.around((50, 50), 50, 0, 50) == pytest.approx((50 * 98 / 102, 50)), "a bound is only less"
    assert variation.around((50, 60), 55, 1e6, 60) == (0, 60)
    assert variation.below((100, 100)) == pytest.approx((100 * 98 / 102, 100))
    assert variation.below((0, 100)) == (0, 100)


def test_the_error_of_a_mean() -> None:
    assert variation.of_mean([8, 10, 12]) == pytest.approx(2 / 10 / 3**0.5)
    assert variation.of_mean([8]) == variation.of_mean([0, 0]) == 0


@given(times, times, times, times, times)
def test_no_interval_gets_narrower_or_leaves_the_step(a: float, b: float, c: float, varies: float, rest: float) -> None:
    low, point, high = sorted((a, b, c))
    least, most = variation.around((low, high), point, varies, high + rest)
    assert 0 <= least <= low
    assert high <= most <= high + rest
    assert variation.below((low, high))[0] <= low


def stated(found: Report) -> list[tuple[str, float, float]]:
    """Rule, width over the middle, and middle of every saving that a report states."""
    savings = [(finding.rule, finding.saving.wall_ns_per_step) for finding in found.findings if finding.saving]
    savings += [("all fixes", head.combined.wall_ns_per_step) for head in found.headlines if head.combined]
    return [(rule, 2 * (high - low) / (high + low), high) for rule, (low, high) in savings if high > 0]


RULES = ("sync-item-frequent", "attention-unfused", "comm-straggler", "dataloader-bound", "redundant-passes")


@pytest.mark.parametrize("rule", RULES)
def test_no_saving_of_a_situation_is_a_point(rule: str) -> None:
    found = stated(report(situations(rule).fires()))
    assert found
    assert min(width for _, width, _ in found) >= LEAST


@pytest.mark.corpus
def test_no_saving_of_a_real_trace_is_a_point(corpus: Path) -> None:
    paths = sorted((corpus / "corpus").glob("*.json.gz"))
    found = [(path.name, *each) for path in paths for each in stated(corpus_files.report_of(path))]
    assert len(found) >= 50
    assert [each for each in found if each[2] < LEAST] == []
