"""Layers of experts beside attention and other products."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.rules.gpu_work import MATRIX_UNITS, Call, kernel, product, training

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
