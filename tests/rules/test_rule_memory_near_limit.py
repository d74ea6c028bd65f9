"""Tests of the rule `memory-near-limit`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

from tests.rules.judging import findings, skipped
from tests.rules.situations.dataloader_bound import fires_in_a_table
from tests.rules.situations.memory_near_limit import fires, training

RULE = "memory-near-limit"


def test_is_a_risk_without_a_saving() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is None
    assert finding.severity == "high"
    assert [round(e.observed, 2) for e in finding.evidence] == [0.95], "what is allocated decides"


def test_a_recording_with_hardly_any_work_is_no_reason_to_worry_much() -> None:
    (finding,) = findings(training(0.95, 0.97, kernel=499), RULE)
    assert finding.severity == "medium"
    (finding,) = findings(training(0.95, 0.97, kernel=500), RULE)
    assert finding.severity == "high"


def test_edge_used_share() -> None:
    assert findings(training(0.9, 0.95), RULE) == []
    assert findings(training(0.9001, 0.95), RULE)


def test_a_table_cannot_tell() -> None:
    assert "does not show the peak" in (skipped(fires_in_a_table(), RULE) or "")


def test_inference_has_no_activations_to_checkpoint() -> None:
    (finding,) = findings(fires(), RULE)
    trained = fires()
    trained.op("Optimizer.step#SGD.step", 3000, 10)
    (other,) = findings(trained, RULE)
    assert ("checkpoint" in finding.advice.text, finding.code) == (False, None)
    assert "checkpoint" in other.advice.text
    assert "checkpoint" in (other.code or "")
