"""Tests of the rule `sdpa-math`: numbers worked out by hand, and edges of thresholds.

The programs: attention by torch's operator, fused or in parts.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.rules.gpu_work import ADDITION, Call, kernel, product, training
from tests.rules.judging import findings, report
from traceanalyzer.cli import delivery

MATH = "aten::_scaled_dot_product_attention_math"
AROUND = ("aten::scaled_dot_product_attention", MATH)
SGEMM = "ampere_sgemm_128x64_nn"


def model(attention: int, other: int) -> TraceBuilder:
    """Attention in parts that takes so many us, and a product."""
    parts = [Call("aten::bmm", [kernel(SGEMM, attention // 2)], within=AROUND)]
    parts.append(Call("aten::_softmax", [kernel(ADDITION, attention - attention // 2)], within=AROUND))
    return training([*parts, product(SGEMM, other)], shapes=False)


def fires() -> TraceBuilder:
    """The fallback takes a third of the GPU's time."""
    return model(500, 1000)


def quiet() -> TraceBuilder:
    """The fallback takes little."""
    return model(20, 1000)


def trap_a_fused_kernel() -> TraceBuilder:
    """The operator with a fused kernel."""
    within = ("aten::scaled_dot_product_attention", "aten::_scaled_dot_product_flash_attention")
    fused = Call(
        "aten::_flash_attention_forward", [kernel("void pytorch_flash::flash_fwd_kernel<>", 500)], within=within
    )
    return training([fused, product(SGEMM, 1000)], shapes=False)


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
