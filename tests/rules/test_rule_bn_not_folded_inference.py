"""Tests of the rule `bn-not-folded-inference`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.judging import findings, skipped
from tests.rules.situations.bn_not_folded_inference import (
    fires,
    fires_in_a_table,
    fires_without_a_bias,
    trap_shared_norms_in_a_table,
)
from traceanalyzer import analyze, load

RULE = "bn-not-folded-inference"


def test_with_a_bias_the_norm_goes_away_for_sure_and_the_addition_if_it_is_fused() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == pytest.approx(0.12)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((600_000, 1_100_000))


def test_without_a_bias_the_folded_one_may_cost_as_much() -> None:
    (finding,) = findings(fires_without_a_bias(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == (0, pytest.approx(600_000))
    assert "at least 0" in finding.saving.basis.text


def test_a_table_tells_inference_by_the_kernels_of_batch_norms() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((20e6, 35e6))
    assert "equally often" in (skipped(trap_shared_norms_in_a_table(), RULE) or "")


def test_edge_gpu_share() -> None:
    assert findings(fires(), RULE, {"gpu_share": 0.12}) == []
    assert findings(fires(), RULE, {"gpu_share": 0.12 - 1e-9})


def test_worked_number_of_document_000(corpus: Path) -> None:
    (document,) = (corpus / "documents").glob("000_*")
    (finding,) = [f for f in analyze(load(document)).findings if f.rule == RULE]
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((6.63e6, 6.63e6 + 6.03e6), abs=0.01e6)
    assert finding.evidence[0].observed == pytest.approx(0.151, abs=0.0005)
    assert (finding.latent, finding.blocked_by) == (True, "loader")
