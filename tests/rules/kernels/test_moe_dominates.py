"""Tests of the rule `moe-dominates`: numbers worked out by hand, and edges of thresholds.

The programs: layers of experts beside attention and other products.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.rules.gpu_work import MATRIX_UNITS, Call, kernel, product, training
from tests.rules.judging import findings

EXPERTS = "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1"
ATTENTION = "void flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4, false, false, cutlass::bfloat16_t>>"


def model(experts: int, attention: int) -> TraceBuilder:
    """A layer by the durations of its kernels in us."""
    calls = [
        Call("experts::forward", [kernel(EXPERTS, experts)]),
        Call("attention::forward", [kernel(ATTENTION, attention)]),
    ]
    return training(calls, shapes=False)


def fires() -> TraceBuilder:
    """The experts take two thirds of the GPU's time."""
    return model(600, 300)


def quiet() -> TraceBuilder:
    """Attention over long contexts takes nearly all of it."""
    return model(100, 900)


def trap_dense_products() -> TraceBuilder:
    """A dense model has products, too."""
    return training([product(MATRIX_UNITS, 900)])


RULE = "moe-dominates"


def test_it_names_share_and_kernel_and_promises_nothing() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == pytest.approx(2 / 3)
    assert finding.summary.params["time"] == pytest.approx(600_000)
    assert EXPERTS in finding.summary.text
    assert (finding.severity, finding.saving) == ("low", None)


def test_a_training_is_told_of_balance() -> None:
    trained = fires()
    trained.op("Optimizer.step#AdamW.step", 5, 1)
    (finding,) = findings(trained, RULE)
    assert "evenly" in finding.advice.text


def test_edge_gpu_share() -> None:
    assert findings(fires(), RULE, {"gpu_share": 2 / 3}) == []
    assert findings(fires(), RULE, {"gpu_share": 2 / 3 - 1e-9})
