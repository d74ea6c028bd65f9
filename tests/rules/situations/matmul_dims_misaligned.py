"""Products in half precision with odd sides."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.builders.hardware import A100
from tests.rules.gpu_work import MATRIX_UNITS, addition, product, training

ODD = "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_256x128_tn_align1>"
HALF = "c10::BFloat16"


def model(odd_us: int, aligned_us: int = 100, *, kernel: str = ODD, side: int = 2047) -> TraceBuilder:
    """A product with an odd side, and one of about the same size without; 17 GFLOP each."""
    odd = product(kernel, odd_us, [[2048, 2048], [2048, side]], HALF)
    aligned = product(MATRIX_UNITS, aligned_us, [[2048, 2048], [2048, 2048]], HALF)
    return training([odd, aligned, addition(100)], device=A100)


def fires() -> TraceBuilder:
    """The odd product takes 400 us, the aligned one of its size 100 us."""
    return model(400)


def fires_without_a_peer() -> TraceBuilder:
    """Nothing to compare with, but the kernel loads element by element and is far from what the GPU can do."""
    return training([product(ODD, 400, [[2048, 2048], [2048, 2047]], HALF), addition(100)], device=A100)


def quiet() -> TraceBuilder:
    """All sides are multiples of 8."""
    return model(400, side=2048)


def trap_the_library_pads() -> TraceBuilder:
    """The odd product is as fast as the aligned one."""
    return model(110)


def trap_a_slow_kernel_that_loads_whole_vectors() -> TraceBuilder:
    """Its name shows that it is not slow because of alignment."""
    return model(400, kernel="void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_64x64_32x6_tn_align8>")


def trap_an_odd_number_of_rows() -> TraceBuilder:
    """The first side, as a batch of tokens, does not matter: rows are stored one after another."""
    odd = product(MATRIX_UNITS, 400, [[2047, 2048], [2048, 2048]], HALF)
    return training([odd, product(MATRIX_UNITS, 100, None, HALF)], device=A100)


def trap_fp32() -> TraceBuilder:
    """In fp32 nothing has to be a multiple of 8."""
    odd = product("ampere_sgemm_128x64_nn", 400, [[2048, 2048], [2048, 2047]])
    return training([odd, product("ampere_sgemm_128x64_nn", 100)], device=A100)
