"""Tests of the rule `tf32-disabled`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.builders.hardware import A100
from tests.rules.gpu_work import MATRIX_UNITS, addition, product, training
from tests.rules.judging import findings
from tests.rules.situations.tf32_disabled import SGEMM, fires, fires_in_a_table

RULE = "tf32-disabled"


def test_one_switch_saves_up_to_two_thirds() -> None:
    # 6 of 10 ms; the ratio of the peaks of an A100 is 8, but no more than 3 counts
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == pytest.approx(0.6)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((6e6 * 3 / 13, 4e6), rel=0.001)
    assert finding.code == 'torch.set_float32_matmul_precision("high")'


def test_products_left_in_fp32_beside_mixed_precision() -> None:
    half = product(MATRIX_UNITS, 3000, dtype="c10::BFloat16")
    (finding,) = findings(training([half, product(SGEMM, 3000), addition(1000)], device=A100), RULE)
    assert finding.evidence[0].observed == pytest.approx(3 / 7, rel=0.001)


def test_a_table_tells_the_same_by_names() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.evidence[0].where[0].name == SGEMM
    assert finding.evidence[0].observed == pytest.approx(0.6)


def test_edge_product_share() -> None:
    share = findings(fires(), RULE)[0].evidence[0].observed
    assert findings(fires(), RULE, {"product_share": share}) == []
    assert findings(fires(), RULE, {"product_share": share - 1e-9})


def test_edge_flops_per_byte() -> None:
    assert findings(fires(), RULE, {"flops_per_byte": 2048 / 6})
    assert findings(fires(), RULE, {"flops_per_byte": 2048 / 6 + 1e-6}) == []


def test_edge_kernel_ns() -> None:
    assert findings(fires(), RULE, {"kernel_ns": 6_000_000})
    assert findings(fires(), RULE, {"kernel_ns": 6_000_001}) == []
