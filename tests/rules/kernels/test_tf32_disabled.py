"""Tests of the rule `tf32-disabled`: numbers worked out by hand, and edges of thresholds.

The programs: products in fp32 beside others that use Tensor Cores.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.hardware import A100, V100
from tests.rules.gpu_work import MATRIX_UNITS, TF32_CONVOLUTION, Call, addition, kernel, product, training
from tests.rules.judging import findings
from tests.rules.kernels.test_tensor_cores_unused import printed

SGEMM = "ampere_sgemm_128x64_nn"


def convolution(dur: int) -> Call:
    """A convolution in TF32."""
    return Call("aten::cudnn_convolution", [kernel(TF32_CONVOLUTION, dur)])


HALF = product(MATRIX_UNITS, 2000, [[4096, 4096], [4096, 4096]], "c10::BFloat16")


def fires() -> TraceBuilder:
    """Some products are in bfloat16, and others are left in fp32."""
    return training([HALF, product(SGEMM, 6000), addition(2000)], device=A100)


def fires_in_a_table() -> str:
    """The same program in a printed table."""
    return printed([(MATRIX_UNITS, "20.000ms"), (SGEMM, "60.000ms"), ("elementwise_kernel<128, 2>", "20.000ms")])


def quiet() -> TraceBuilder:
    """All products use TF32."""
    gemm = "cutlass_80_tensorop_s1688gemm_128x128_32x3_nn_align4"
    return training([convolution(2000), product(gemm, 6000)], device=A100)


def quiet_in_half_precision() -> TraceBuilder:
    """Everything is in bfloat16."""
    return training([product(MATRIX_UNITS, 6000, dtype="c10::BFloat16"), addition(2000)], device=A100)


def trap_before_ampere() -> TraceBuilder:
    """A V100 has no TF32."""
    half = "volta_fp16_s884cudnn_fp16_128x128_ldg8_relu_f2f_exp_small_nhwc_tn_v1"
    return training(
        [Call("aten::cudnn_convolution", [kernel(half, 2000)]), product("volta_sgemm_128x64_nn", 6000)], device=V100
    )


def trap_everything_in_fp32() -> TraceBuilder:
    """Nothing is in 16 bits: `mixed-precision-unused` gives both choices on one card."""
    return training([convolution(2000), product(SGEMM, 6000), addition(2000)], device=A100)


def trap_products_bound_by_memory() -> TraceBuilder:
    """TF32 moves as many bytes as fp32."""
    return training([HALF, product(SGEMM, 6000, [[1_000_000, 1], [1, 128]])], device=A100)


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


def test_edge_flops_per_byte() -> None:
    assert findings(fires(), RULE, {"flops_per_byte": 2048 / 6})
    assert findings(fires(), RULE, {"flops_per_byte": 2048 / 6 + 1e-6}) == []


def test_edge_kernel_ns() -> None:
    assert findings(fires(), RULE, {"kernel_ns": 6_000_000})
    assert findings(fires(), RULE, {"kernel_ns": 6_000_001}) == []
