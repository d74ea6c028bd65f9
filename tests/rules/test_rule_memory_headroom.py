"""Tests of the rule `memory-headroom`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

from tests.rules.judging import findings, skipped
from tests.rules.situations.dataloader_bound import fires_in_a_table
from tests.rules.situations.memory_headroom import fires, training, trap_no_totals

RULE = "memory-headroom"


def test_says_what_more_samples_share() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is None, "a larger batch makes no step shorter"
    assert finding.severity == "info"
    assert "times" not in finding.advice.text, "how many samples fit, memory alone does not tell"
    assert finding.advice.params["idle"] > 0


def test_edge_used_share() -> None:
    assert findings(training(used=0.395, gpu=1000), RULE), "twice as much would fit"
    used = findings(fires(), RULE)[0].evidence[0].observed
    assert findings(fires(), RULE, {"used_share": used}) == []
    assert findings(fires(), RULE, {"used_share": used + 1e-9})


def test_edge_busy_share() -> None:
    busy = findings(fires(), RULE)[0].evidence[1].observed
    assert findings(fires(), RULE, {"busy_share": busy}) == []
    assert findings(fires(), RULE, {"busy_share": busy + 1e-9})


def test_edge_loader_share() -> None:
    slow = training(used=0.02, gpu=1000, loader=1000)
    assert findings(slow, RULE, {"loader_share": 0.3})
    assert findings(slow, RULE, {"loader_share": 0.1}) == []


def test_says_why_it_cannot_judge() -> None:
    assert "not known" in (skipped(trap_no_totals(), RULE) or "")
    assert "does not show the peak" in (skipped(fires_in_a_table(), RULE) or "")
