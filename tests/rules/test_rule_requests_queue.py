"""Tests of the rule `requests-queue`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings, skipped
from tests.rules.situations.dataloader_bound import fires_in_a_table
from tests.rules.situations.requests_queue import fires, trap_one_request_after_the_other

RULE = "requests-queue"


def test_the_mean_number_of_waiting_requests() -> None:
    # twenty waits of 2 ms in the 19.9 ms from the first task to the end of the last
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == pytest.approx(40 / 19.9, rel=0.001)
    assert finding.summary.params["calls"] == 20
    assert finding.saving is None


def test_says_why_it_cannot_judge() -> None:
    assert "no server" in (skipped(trap_one_request_after_the_other(), RULE) or "")
    assert "same time" in (skipped(fires_in_a_table(), RULE) or "")


def test_edge_waiting() -> None:
    waiting = findings(fires(), RULE)[0].evidence[0].observed
    assert findings(fires(), RULE, {"waiting": waiting}) == []
    assert findings(fires(), RULE, {"waiting": waiting - 1e-9})


def test_edge_busy_share() -> None:
    # twenty tasks of 900 us
    assert findings(fires(), RULE, {"busy_share": 18 / 19.9 - 1e-6})
    assert findings(fires(), RULE, {"busy_share": 18 / 19.9 + 1e-6}) == []
