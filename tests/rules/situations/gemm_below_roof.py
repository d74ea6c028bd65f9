"""Large products in 16 bits, at the pace of their kernels."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.builders.hardware import A100
from tests.rules.gpu_work import MATRIX_UNITS, addition, product, training

HALF = "c10::BFloat16"
SIDES = [[4096, 4096], [4096, 4096]]
"""2 * 4096^3 = 137.4 GFLOP, 440.5 us at the 312 TFLOP/s of an A100."""


def model(dur: int, *, other: int = 100, kind: str = HALF) -> TraceBuilder:
    """One large product of a duration in us, and an addition."""
    return training([product(MATRIX_UNITS, dur, SIDES, kind), addition(other)], device=A100)


def fires() -> TraceBuilder:
    """The product takes 1100 us: 40 % of the peak."""
    return model(1100)


def quiet() -> TraceBuilder:
    """The product takes 600 us: 73 % of the peak."""
    return model(600)


def trap_small_products() -> TraceBuilder:
    """A product of small sides cannot fill the device, whatever its kernel does."""
    return training([product(MATRIX_UNITS, 20, [[512, 512], [512, 512]], HALF), addition(10)], device=A100)


def trap_a_product_that_memory_bounds() -> TraceBuilder:
    """A few tokens times a large matrix: its weights must be read."""
    return training([product(MATRIX_UNITS, 200, [[16, 8192], [8192, 8192]], HALF), addition(10)], device=A100)
