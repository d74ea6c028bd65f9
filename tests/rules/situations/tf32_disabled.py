"""Products in fp32 beside others that use Tensor Cores."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.builders.hardware import A100, V100
from tests.rules.gpu_work import MATRIX_UNITS, TF32_CONVOLUTION, Call, addition, kernel, product, training
from tests.rules.situations.tensor_cores_unused import printed

SGEMM = "ampere_sgemm_128x64_nn"


def convolution(dur: int) -> Call:
    """A convolution in TF32."""
    return Call("aten::cudnn_convolution", [kernel(TF32_CONVOLUTION, dur)])


def fires() -> TraceBuilder:
    """Convolutions use TF32, as is the default, and linear layers do not."""
    return training([convolution(2000), product(SGEMM, 6000), addition(2000)], device=A100)


def fires_in_a_table() -> str:
    """The same program in a printed table."""
    return printed([(TF32_CONVOLUTION, "20.000ms"), (SGEMM, "60.000ms"), ("elementwise_kernel<128, 2>", "20.000ms")])


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


def trap_merged_with_tensor_cores_unused() -> TraceBuilder:
    """Nothing uses Tensor Cores: `tensor-cores-unused` gives both steps on one card."""
    return training([product(SGEMM, 6000), addition(2000)], device=A100)


def trap_products_bound_by_memory() -> TraceBuilder:
    """TF32 moves as many bytes as fp32."""
    return training([convolution(2000), product(SGEMM, 6000, [[1_000_000, 1], [1, 128]])], device=A100)
