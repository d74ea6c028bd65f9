"""Tests of the rule `dataloader-too-many-workers`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings, skipped
from tests.rules.situations.dataloader_bound import fires as without_capture
from tests.rules.situations.dataloader_too_many_workers import fires, training, trap_unknown_cores

RULE = "dataloader-too-many-workers"


def test_eight_workers_on_two_hardware_threads() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == 4
    assert finding.evidence[1].observed == pytest.approx(0.1 / 4.1, rel=0.01)
    assert finding.saving is None, "the trace does not show the workers"
    assert "num_workers=1" in (finding.code or "")
    assert (finding.severity, finding.stage) == ("medium", "preview")


def test_only_a_capture_knows() -> None:
    assert "only a capture" in (skipped(trap_unknown_cores(), RULE) or "")
    assert "only a capture" in (skipped(without_capture(), RULE) or "")


def test_edge_per_core() -> None:
    assert findings(training(4), RULE, {"per_core": 2}) == []
    assert findings(training(4), RULE, {"per_core": 1.99})


def test_edge_wait_share() -> None:
    share = findings(fires(), RULE)[0].evidence[1].observed
    assert findings(fires(), RULE, {"wait_share": share - 1e-9}) == []
    assert findings(fires(), RULE, {"wait_share": share})
