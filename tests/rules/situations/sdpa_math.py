"""Attention by torch's operator, fused or in parts."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.rules.gpu_work import ADDITION, Call, kernel, product, training

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
