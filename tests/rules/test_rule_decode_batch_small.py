"""Tests of the rule `decode-batch-small`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings, skipped
from tests.rules.situations.dataloader_bound import fires_in_a_table
from tests.rules.situations.decode_batch_small import fires, trap_prefill

RULE = "decode-batch-small"


def test_tokens_per_second() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == 8
    assert finding.summary.params["rate"] == pytest.approx(8000, rel=0.05)
    assert (finding.severity, finding.saving) == ("info", None)


def test_says_why_it_cannot_judge() -> None:
    assert "no mark" in (skipped(trap_prefill(), RULE) or "")
    assert "marks" in (skipped(fires_in_a_table(), RULE) or "")


def test_edge_tokens() -> None:
    assert findings(fires(), RULE, {"tokens": 8}) == []
    assert findings(fires(), RULE, {"tokens": 8.1})


def test_edge_busy_share() -> None:
    assert findings(fires(), RULE, {"busy_share": 0.9})
    assert findings(fires(), RULE, {"busy_share": 0.99}) == []
