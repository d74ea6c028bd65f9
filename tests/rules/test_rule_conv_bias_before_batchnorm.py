"""Tests of the rule `conv-bias-before-batchnorm`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.judging import findings, report, skipped
from tests.rules.situations.conv_bias_before_batchnorm import (
    fires,
    fires_in_a_table,
    fires_in_training,
    trap_other_additions_in_a_table,
)
from traceanalyzer import analyze, load

RULE = "conv-bias-before-batchnorm"


def test_the_addition_of_the_bias_goes_away() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == pytest.approx(0.1)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((500_000, 500_000))
    assert finding.summary.params["calls"] == 1
    assert finding.evidence[0].where[0].name == "aten::conv2d"


def test_in_training_its_gradient_goes_away_too() -> None:
    (finding,) = findings(fires_in_training(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((900_000, 900_000))


def test_a_table_tells_by_equal_counts() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.evidence[0].observed == pytest.approx(0.15)
    assert "do not occur equally often" in (skipped(trap_other_additions_in_a_table(), RULE) or "")


def test_folding_and_leaving_out_the_bias_do_not_count_it_twice() -> None:
    # adding the bias (0.5 ms) is in both findings: together 1.1 ms, not 1.6. With the least of folding, 0.6 ms, only
    # 0.5 * 0.6 / 1.1 = 0.273 ms of the bias are gone, and leaving it out adds the other 0.227 ms
    (headline,) = report(fires()).headlines
    assert headline.combined is not None
    own = [f for f in headline.combined.fixes if f.rule in (RULE, "bn-not-folded-inference")]
    assert all(fix.scenarios_ns_per_step is not None for fix in own)
    least, _, most = (sum(ns) for ns in zip(*(fix.scenarios_ns_per_step or () for fix in own), strict=True))
    assert most == pytest.approx(1.1e6, rel=1e-5)
    assert least == pytest.approx(0.6e6 + 0.5e6 * (1 - 0.6 / 1.1), rel=1e-5)


def test_edge_gpu_share() -> None:
    assert findings(fires(), RULE, {"gpu_share": 0.1}) == []
    assert findings(fires(), RULE, {"gpu_share": 0.1 - 1e-9})


def test_worked_number_of_document_000(corpus: Path) -> None:
    (document,) = (corpus / "documents").glob("000_*")
    (finding,) = [f for f in analyze(load(document)).findings if f.rule == RULE]
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((6.03e6, 6.03e6), abs=0.005e6)
    assert finding.evidence[0].observed == pytest.approx(0.137, abs=0.0005)
    assert (finding.latent, finding.blocked_by) == (True, "loader")
