"""Tests of the rule `activations-recomputed`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings, skipped
from tests.rules.situations.activations_recomputed import checkpointed, fires, trap_memory_unknown
from tests.rules.situations.autograd_in_inference import in_a_table

RULE = "activations-recomputed"


def test_the_segment_is_the_time_from_the_evaluation_to_the_last_operator() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    # 3 us until the first operator, then two layers of 303 + 203 + 103 us
    assert finding.saving.direct_ns_per_step == pytest.approx((0.95 * 1_221_000, 1.55 * 1_221_000))
    assert "runs again: 1 per step" in finding.summary.text
    assert "aten::conv2d, aten::batch_norm, aten::relu" in finding.summary.text
    assert finding.severity == "info", "a CPU does not tell whether memory is free"


def test_on_a_gpu_only_with_free_memory() -> None:
    assert "profile_memory" in (skipped(trap_memory_unknown(), RULE) or "")
    (finding,) = findings(checkpointed(gpu=True, peak=8 << 30), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((0.9 * 1_200_000, 1_200_000)), "kernels of two layers"
    assert finding.severity == "medium"


def test_a_table_does_not_tell() -> None:
    assert "does not show" in (skipped(in_a_table(), RULE) or "")


def test_edge_share() -> None:
    share = findings(fires(), RULE)[0].evidence[0].observed
    assert findings(fires(), RULE, {"share": share}) == []
    assert findings(fires(), RULE, {"share": share - 1e-9})


def test_edge_used_share() -> None:
    half = checkpointed(gpu=True, peak=22_000_000_000)
    assert findings(half, RULE) == [], "of 42.3 GB"
    assert findings(half, RULE, {"used_share": 0.6})
