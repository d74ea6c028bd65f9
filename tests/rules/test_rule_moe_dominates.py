"""Tests of the rule `moe-dominates`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings
from tests.rules.situations.moe_dominates import EXPERTS, fires

RULE = "moe-dominates"


def test_it_names_share_and_kernel_and_promises_nothing() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == pytest.approx(2 / 3)
    assert finding.summary.params["time"] == pytest.approx(600_000)
    assert EXPERTS in finding.summary.text
    assert (finding.severity, finding.saving) == ("low", None)


def test_a_training_is_told_of_balance() -> None:
    trained = fires()
    trained.op("Optimizer.step#AdamW.step", 5, 1)
    (finding,) = findings(trained, RULE)
    assert "evenly" in finding.advice.text


def test_edge_gpu_share() -> None:
    assert findings(fires(), RULE, {"gpu_share": 2 / 3}) == []
    assert findings(fires(), RULE, {"gpu_share": 2 / 3 - 1e-9})
