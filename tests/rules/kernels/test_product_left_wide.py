"""Tests of the rule `product-left-wide`: numbers worked out by hand, and edges of thresholds.

The programs: products in 16 bits, and one of them in fp32. The A100 moves 1555 GB/s and computes 312 TFLOP/s in
bfloat16, half of that in TF32 and 19.5 in fp32.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.hardware import A100
from tests.rules.gpu_work import MATRIX_UNITS, Call, addition, product, training
from tests.rules.judging import findings, report
from tests.rules.kernels.test_tensor_cores_unused import printed

RULE = "product-left-wide"
TF32 = "cutlass_80_tensorop_s1688gemm_128x128_32x3_nn_align4"
SGEMM = "ampere_sgemm_128x64_nn"
SMALL = [[512, 1024], [1024, 1024]]
VOCABULARY = [[8, 4096], [4096, 65536]]
"""16 operations for each number of the weight, so bound by memory at any width: 1.08 GB in fp32."""
HALF = product(MATRIX_UNITS, 200, SMALL, "c10::BFloat16")


def model(wide: Call, *, narrow: int = 8) -> TraceBuilder:
    """Layers in bfloat16 before the one in question."""
    return training([*[HALF] * narrow, wide, addition(1000)], device=A100)


def fires() -> TraceBuilder:
    """The last layer over the vocabulary is in fp32, in TF32."""
    return model(product(TF32, 1400, VOCABULARY))


def fires_in_fp32() -> TraceBuilder:
    """The same on ordinary cores."""
    return model(product(SGEMM, 1400, VOCABULARY))


def fires_without_shapes() -> TraceBuilder:
    """Only the kernels' names show the types."""
    return training([*[HALF] * 8, product(TF32, 1400, VOCABULARY)], device=A100, shapes=False)


def fires_in_a_table() -> str:
    """The same in a printed table: no operators with kernels, only rows of kernels."""
    return printed(
        [(MATRIX_UNITS, "20.000ms"), *[(f"{MATRIX_UNITS}{n}", "1.000ms") for n in range(8)], (TF32, "9.000ms")]
    )


def quiet() -> TraceBuilder:
    """The last layer is in bfloat16, too."""
    return model(product(MATRIX_UNITS, 700, VOCABULARY, "c10::BFloat16"))


def trap_half_of_the_model_in_fp32() -> TraceBuilder:
    """As many layers in fp32 as in bfloat16 are no oversight."""
    return model(product(TF32, 1400, VOCABULARY), narrow=1)


def trap_a_small_router() -> TraceBuilder:
    """A router of experts is in fp32 on purpose, and hardly takes time."""
    return model(product(SGEMM, 30, [[512, 1024], [1024, 8]]))


def trap_no_product() -> TraceBuilder:
    """Sums in fp32 beside products in 16 bits are usual."""
    return training([*[HALF] * 8, addition(4000)], device=A100)


def test_half_of_the_bytes_are_saved_where_memory_is_the_limit() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((350_000, 700_000), rel=0.001)
    assert finding.evidence[0].observed == pytest.approx(1.4 / 4.0)
    assert "aten::mm" in finding.summary.text


def test_arithmetic_is_saved_by_the_ratio_of_the_rates() -> None:
    # as far from its roof as now: 312 instead of 19.5 TFLOP/s, but no more than two thirds
    (finding,) = findings(model(product(SGEMM, 9000, [[4096, 4096], [4096, 4096]])), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((3_000_000, 6_000_000), rel=0.001)
    # TF32 is half as fast as bfloat16
    (finding,) = findings(model(product(TF32, 2000, [[4096, 4096], [4096, 4096]])), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((500_000, 1_000_000), rel=0.001)


def test_names_of_kernels_are_enough() -> None:
    (finding,) = findings(fires_without_shapes(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((350_000, 700_000), rel=0.001)


def test_the_switch_is_not_advised_for_the_same_product() -> None:
    # arithmetic bounds it, so that TF32 would help, too
    built = model(product(SGEMM, 9000, [[4096, 4096], [4096, 4096]]))
    assert findings(built, "tf32-disabled")
    rules = {finding.rule for finding in report(built).findings}
    assert RULE in rules
    assert "tf32-disabled" not in rules


def test_edge_narrow_calls() -> None:
    assert findings(fires(), RULE, {"narrow_calls": 8})
    assert findings(fires(), RULE, {"narrow_calls": 8.001}) == []


def test_edge_call_ns() -> None:
    assert findings(fires(), RULE, {"call_ns": 1_400_000})
    assert findings(fires(), RULE, {"call_ns": 1_400_001}) == []
