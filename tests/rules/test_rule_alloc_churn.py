"""Tests of the rule `alloc-churn`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings
from tests.rules.situations.alloc_churn import fires, fires_by_turnover, fires_in_a_table

RULE = "alloc-churn"


def test_is_worth_at_most_the_host_time_of_the_operators() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((0, 1_000_000), rel=0.01)
    assert "at least nothing" in finding.saving.basis.text
    assert finding.severity == "low", "a loose bound is never more"


def test_turnover_counts_bytes_per_step_against_the_peak() -> None:
    (finding,) = findings(fires_by_turnover(), RULE)
    assert [(e.unit, e.observed) for e in finding.evidence] == [("number", pytest.approx(150))]


def test_edge_host_share() -> None:
    assert findings(fires_in_a_table(), RULE, {"host_share": 0.3}) == []
    assert findings(fires_in_a_table(), RULE, {"host_share": 0.299})


def test_edge_turnover() -> None:
    assert findings(fires_by_turnover(), RULE, {"turnover": 150}) == []
    assert findings(fires_by_turnover(), RULE, {"turnover": 149})
