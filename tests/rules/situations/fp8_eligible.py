"""Large products in 16 bits on devices with FP8 and without."""

from __future__ import annotations

from collections.abc import Sequence

from tests.builders import TraceBuilder
from tests.builders.hardware import A100, B200, H100, Device
from tests.rules.gpu_work import MATRIX_UNITS, Call, addition, kernel, product, training

HALF = "c10::BFloat16"
SIDES = [[8192, 8192], [8192, 8192]]
"""2 * 8192^3 = 1100 GFLOP, 1111 us at the 989.4 TFLOP/s of an H100."""
HOPPER = "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT"


def model(
    *,
    dur: int = 1500,
    other: int = 1000,
    device: Device | None = H100,
    kind: str = HALF,
    sides: Sequence[Sequence[object]] = SIDES,
    name: str = HOPPER,
) -> TraceBuilder:
    """One product and an addition, of durations in us: 60 % of the GPU's time unless they are given."""
    return training([product(name, dur, sides, kind), addition(other)], device=device)


def fires() -> TraceBuilder:
    """The product takes 1500 of 2500 us."""
    return model()


def fires_with_a_bias_in_fp16() -> TraceBuilder:
    """A linear layer with a bias."""
    shapes, types = [[8192], *SIDES], ["c10::Half"] * 3
    return training([Call("aten::addmm", [kernel(HOPPER, 1500)], shapes, types)], device=H100)


def fires_with_fp4() -> TraceBuilder:
    """A B200 computes in FP4, too; nothing is trained."""
    return model(device=B200)


def quiet() -> TraceBuilder:
    """In fp32 there are other steps before."""
    return model(kind="float")


def trap_a_device_without_fp8() -> TraceBuilder:
    """An A100 has no matrix units for it."""
    return model(device=A100, name=MATRIX_UNITS)


def trap_an_unknown_device() -> TraceBuilder:
    """The types of its products are unknown."""
    return model(device=None)


def trap_fp8_is_used() -> TraceBuilder:
    """The largest products are in FP8 already; these were left out."""
    scaled = [*SIDES, [], []], ["c10::Float8_e4m3fn", "c10::Float8_e4m3fn", "float", "float"]
    fp8 = Call("aten::_scaled_mm", [kernel(HOPPER, 700)], *scaled)
    return training([product(HOPPER, 1500, SIDES, HALF), fp8], device=H100)


def trap_kernels_in_fp8() -> TraceBuilder:
    """Only the name of a library's kernel shows FP8."""
    fp8 = Call("_C::gemm", [kernel("void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 7168u>", 300)])
    return training([product(HOPPER, 1500, SIDES, HALF), fp8], device=H100)


def trap_a_small_share() -> TraceBuilder:
    """The product takes 1500 of 5500 us."""
    return model(other=4000)


def trap_weights_are_read() -> TraceBuilder:
    """Sixteen tokens times a large matrix: memory bounds it."""
    return model(sides=[[16, 8192], [8192, 8192]])


def trap_attention_written_out() -> TraceBuilder:
    """Products of activations belong to no linear layer."""
    return model(sides=[[64, 2048, 2048], [64, 2048, 2048]])


def trap_odd_sides() -> TraceBuilder:
    """FP8 kernels need sides that are multiples of 16."""
    return model(sides=[[8192, 8192], [8192, 8200]])


def trap_a_waiting_device() -> TraceBuilder:
    """The GPU works for 1500 of 4000 us."""
    trace = TraceBuilder(devices=(H100,), options=("record_shapes",))
    for number in range(3):
        start = 4000 * number
        trace.annotation(f"ProfilerStep#{number}", start, 3990)
        trace.op("aten::mm", start + 5, 20, shapes=SIDES, types=[HALF, HALF])
        trace.launch_kernel(HOPPER, start + 30, 1500, at=start + 10)
    return trace
