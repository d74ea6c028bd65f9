"""Tests of the rule `elementwise-fusion-chain`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings, skipped
from tests.rules.situations.dataloader_bound import fires as without_shapes
from tests.rules.situations.elementwise_fusion_chain import (
    NORM,
    fires,
    fires_in_training,
    fires_without_modules,
    in_a_table,
    model,
)

RULE = "elementwise-fusion-chain"


def test_less_one_short_pass_or_two_long_ones() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((5 * (162_000 - 2 * 50_000), 5 * (162_000 - 30_000)))
    assert finding.summary.params["kernels"] == 25
    assert finding.evidence[0].where[0].name == "Norm: pow, mean, rsqrt, mul, mul"


def test_one_chain_is_told_in_the_singular() -> None:
    assert findings(model(NORM, layers=1), RULE)[0].summary.text.startswith("A chain of 5 kernels")


def test_the_same_without_modules() -> None:
    (finding,) = findings(fires_without_modules(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[1] == pytest.approx(660_000)


def test_what_autograd_keeps_has_to_be_written() -> None:
    (finding,) = findings(fires_in_training(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((0, 66_000))
    assert "autograd" in finding.saving.basis.text


def test_without_shapes_nobody_can_tell() -> None:
    assert "shapes" in (skipped(without_shapes(), RULE) or "")


def test_a_table_cannot_tell() -> None:
    assert "follow each other" in (skipped(in_a_table(), RULE) or "")


def test_edge_step_share() -> None:
    share = findings(fires(), RULE)[0].evidence[0].observed
    assert findings(fires(), RULE, {"step_share": share}) == []
    assert findings(fires(), RULE, {"step_share": share - 1e-9})


def test_a_long_chain_ends_in_a_number_and_not_in_dots() -> None:
    (finding,) = findings(model(NORM * 2, layers=1), RULE)
    assert finding.summary.text.endswith(": pow, mean, rsqrt, mul, mul, pow, mean, rsqrt and 2 more.")
    assert finding.evidence[0].where[0].name.endswith("mean, rsqrt, ...")
