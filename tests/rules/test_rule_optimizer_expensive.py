"""Tests of the rule `optimizer-expensive`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

from tests.rules.judging import findings, skipped
from tests.rules.situations import optimizer_not_fused
from tests.rules.situations.dataloader_bound import fires_in_a_table
from tests.rules.situations.optimizer_expensive import fires, model

RULE = "optimizer-expensive"


def test_preconditioners_are_computed_less_often() -> None:
    (finding,) = findings(fires(), RULE)
    assert "ten or hundred steps" in finding.advice.text
    assert (finding.severity, finding.saving, finding.code) == ("low", None, None)


def test_others_have_a_fused_form() -> None:
    (finding,) = findings(model(1000, name="Optimizer.step#AdamW.step"), RULE)
    assert "fused" in finding.advice.text
    assert "fused=True" in (finding.code or "")


def test_a_loop_over_parameters_is_told_by_its_own_rule() -> None:
    assert findings(optimizer_not_fused.fires(), RULE) == []
    assert findings(optimizer_not_fused.fires_on_a_cpu(), RULE) == []
    assert findings(optimizer_not_fused.fires_on_few_huge_parameters_on_a_cpu(), RULE) == []
    assert findings(optimizer_not_fused.trap_few_long_calls_on_a_cpu(), RULE)


def test_a_table_does_not_tell() -> None:
    assert "hides" in (skipped(fires_in_a_table(), RULE) or "")


def test_edge_host_share() -> None:
    share = findings(fires(), RULE)[0].evidence[0].observed
    assert findings(fires(), RULE, {"host_share": share}) == []
    assert findings(fires(), RULE, {"host_share": share - 1e-9})
