"""Tests of the rule `sdpa-math`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings, report
from tests.rules.situations.sdpa_math import fires
from traceanalyzer.cli import delivery

RULE = "sdpa-math"


def test_nothing_is_promised_for_sure() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == (0, pytest.approx(0.8 * 500_000))
    assert finding.summary.params["calls"] == 2
    assert finding.stage == "preview"


def test_edge_gpu_share() -> None:
    # 500 of 1500 us
    assert findings(fires(), RULE, {"gpu_share": 1 / 3}) == []
    assert findings(fires(), RULE, {"gpu_share": 1 / 3 - 1e-9})


def test_a_rule_in_preview_fails_no_check() -> None:
    whole = report(fires(), RULE)
    assert [finding.stage for finding in whole.findings] == ["preview"]
    delivery.exit_if_found(whole, "info")
