"""Clocks of two sides: what a slower clock explains is no regression of the code."""

from __future__ import annotations

import pytest
from sides import report

from tests.builders.clocks import HIGHEST, clocked
from traceanalyzer.comparison import diff
from traceanalyzer.report.difference import Check, Difference

JITTER = (0, 10, -10, 5, -5, 8)
LOW = 1800


def compared(base: int, head: int, *, more: float = 1.0, limit: float | None = None) -> Difference:
    """Two programs at their clocks; the second has so many times as much work."""
    sides = [
        clocked([clock + one for one in JITTER], work=round(3000 * factor), power=600)
        for clock, factor in ((base, 1.0), (head, more))
    ]
    return diff(report(sides[0]), report(sides[1]), limit=limit)


def check_of(found: Difference) -> Check | None:
    return next((check for check in found.comparability.checks if check.id == "clocks"), None)


def test_a_lower_clock_is_no_regression_of_the_code() -> None:
    """A clock that is 9 % lower makes the step 9 or 10 % slower."""
    found = compared(HIGHEST - 20, LOW, limit=0.03)
    assert found.verdict.outcome == "inconclusive"
    assert found.verdict.reason.id == "diff-clock-slower"
    assert found.verdict.reason.params["clock"] == pytest.approx(0.08, abs=0.01)
    assert found.gate is not None
    assert found.gate.outcome == "inconclusive"
    check = check_of(found)
    assert check is not None
    assert check.message.id == "diff-clocks-other"


def test_a_higher_clock_is_no_improvement() -> None:
    assert compared(LOW, HIGHEST - 20).verdict.reason.id == "diff-clock-faster"


def test_both_sides_at_the_same_low_clock() -> None:
    found = compared(LOW, LOW, more=1.2)
    assert (found.verdict.outcome, found.verdict.reason.id) == ("slower", "diff-test-slower")
    check = check_of(found)
    assert check is not None
    assert check.message.id == "diff-clocks-same"


def test_more_than_the_clock_explains_is_a_regression() -> None:
    assert compared(HIGHEST - 20, LOW, more=1.3).verdict.outcome == "slower"


def test_slower_at_a_higher_clock_is_a_regression() -> None:
    assert compared(LOW, HIGHEST - 20, more=1.3).verdict.outcome == "slower"


def test_without_counters_nothing_is_said() -> None:
    one, two = (clocked([clock + jitter for jitter in JITTER]) for clock in (HIGHEST - 20, LOW))
    for trace in (one, two):
        trace.events = [event for event in trace.events if event["ph"] != "C"]
    found = diff(report(one), report(two))
    assert check_of(found) is None
    assert found.verdict.outcome == "slower"


def test_counters_of_one_side_only() -> None:
    one, two = (clocked([HIGHEST - 20 + jitter for jitter in JITTER]) for _ in range(2))
    one.events = [event for event in one.events if event["ph"] != "C"]
    check = check_of(diff(report(one), report(two)))
    assert check is not None
    assert (check.similarity, check.message.id) == (None, "diff-clocks-unknown")
