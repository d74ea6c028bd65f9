"""Tests of the rule `attention-unfused`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.rules.cpu_work import AROUND
from tests.rules.judging import findings, skipped
from tests.rules.situations.attention_unfused import attention, fires, fires_in_a_table, fires_on_a_cpu, model, on_a_cpu
from tests.rules.situations.dataloader_bound import fires as without_shapes

RULE = "attention-unfused"
FLOPS = 2 * 16 * 2048 * 2048 * 64
"""Floating-point operations of one product of the scores."""
BEST = 2 * 4096 * 1024 * 4096 / 400_000
"""Rate of the dense product in operations per nanosecond."""


def test_the_chain_less_its_products_at_the_best_rate() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    low, high = finding.saving.direct_ns_per_step
    products = 4 * 2 * FLOPS / BEST
    assert high == pytest.approx(4_000_000 - products)
    assert low == pytest.approx(4_000_000 - min(2_000_000, 3 * products) - 4 * 5_000), "one fused kernel in each layer"
    assert finding.evidence[0].observed == pytest.approx(1000 / 1400)
    assert finding.evidence[0].where[0].name in ("aten::_softmax", "aten::bmm")


def test_a_table_by_shape_tells_the_same() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.evidence[0].observed == pytest.approx(0.5)
    assert finding.saving is not None
    best = 10 * 2 * 8192 * 4096 * 4096 / 500_000_000
    least = 10 * 2 * FLOPS / best
    assert finding.saving.direct_ns_per_step == pytest.approx(
        (500_000_000 - 3 * least - 10 * 5_000, 500_000_000 - least)
    )


def test_the_backward_pass_counts_with_it() -> None:
    scores = [16, 2048, 2048]
    backward = [
        ("aten::_softmax_backward_data", "softmax_warp_backward", (scores, scores, [], []), 400),
        ("aten::bmm", "gemm", ([16, 64, 2048], scores), 300),
    ]
    (forward,) = findings(fires(), RULE)
    (both,) = findings(model([*attention(16, 2048, 2048, 64), *backward]), RULE)
    assert both.summary.params["time"] == pytest.approx(forward.summary.params["time"] + 4 * 700_000)


def test_without_shapes_nobody_can_tell() -> None:
    assert "shapes" in (skipped(without_shapes(), RULE) or "")


def test_edge_gpu_share() -> None:
    share = findings(fires(), RULE)[0].evidence[0].observed
    assert findings(fires(), RULE, {"gpu_share": share}) == []
    assert findings(fires(), RULE, {"gpu_share": share - 1e-9})


def test_edge_score_ratio() -> None:
    assert findings(model(attention(16, 127, 512, 64)), RULE) == []
    assert findings(model(attention(16, 128, 512, 64)), RULE)


def test_on_a_cpu_what_is_no_product_and_a_part_of_the_products() -> None:
    (finding,) = findings(fires_on_a_cpu(), RULE)
    assert finding.evidence[0].observed == pytest.approx(4_000_000 / (4_500_000 + AROUND))
    assert finding.saving is not None
    assert finding.saving.resource == "host"
    assert finding.saving.direct_ns_per_step == pytest.approx((0.5 * 2_000_000, 0.75 * 2_000_000 + 0.2 * 2_000_000))
    assert "GPU" not in finding.title.text + finding.summary.text + finding.advice.text


def test_on_a_cpu_products_take_no_less_than_at_the_best_rate() -> None:
    """The product beside attention has as many operations as each of its two, and takes as long."""
    (finding,) = findings(on_a_cpu(others=(200, 300), products=2000, dense=2000), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[1] == pytest.approx(500_000), "not 0.75 * 0.5 and 0.2 * 4 ms"


def test_edge_host_share() -> None:
    share = findings(fires_on_a_cpu(), RULE)[0].evidence[0].observed
    assert findings(fires_on_a_cpu(), RULE, {"host_share": share}) == []
    assert findings(fires_on_a_cpu(), RULE, {"host_share": share - 1e-9})
