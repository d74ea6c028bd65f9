"""Tests of the rule `step-time-outliers`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings, skipped
from tests.rules.situations.dataloader_bound import fires_in_a_table
from tests.rules.situations.step_time_outliers import fires, trap_too_few_to_tell

RULE = "step-time-outliers"


def test_it_names_the_longest_step() -> None:
    (finding,) = findings(fires(), RULE)
    assert (finding.summary.params["long"], finding.summary.params["steps"]) == (1, 7)
    assert finding.summary.params["name"] == "3"
    assert finding.evidence[0].observed == pytest.approx(2, rel=0.03)
    assert (finding.severity, finding.saving) == ("info", None)


def test_says_why_it_cannot_judge() -> None:
    assert "too few" in (skipped(trap_too_few_to_tell(), RULE) or "")
    assert "single steps" in (skipped(fires_in_a_table(), RULE) or "")


def test_edge_ratio() -> None:
    ratio = findings(fires(), RULE)[0].evidence[0].observed
    assert findings(fires(), RULE, {"ratio": ratio * (1 + 1e-9)}) == []
    assert findings(fires(), RULE, {"ratio": ratio * (1 - 1e-9)})


def test_edge_steps() -> None:
    assert findings(fires(), RULE, {"steps": 7})
    assert findings(fires(), RULE, {"steps": 8}) == []
