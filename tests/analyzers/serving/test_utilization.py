"""MFU and HFU, worked out by hand: operations over the dense peak, over steps of 1 ms."""

from __future__ import annotations

import pytest

from tests.analyzers.serving.loops import (
    BF16,
    ELEMENTWISE,
    EVALUATION,
    PLAIN,
    TENSOR_CORE,
    TF32,
    Loop,
    analyze,
)
from tests.builders import A100, MI300X
from tests.builders.hardware import Device
from traceanalyzer.analyzers.serving.utilization import PeakShare, Utilization

ODD = Device("My GPU", 2**34, 50, 8, 0)
FLASH = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4> >(Flash_fwd_params)"
SIZE = 2000
FLOPS = 2 * SIZE**3  # 16 * 10^9


def of(loop: Loop) -> Utilization:
    return analyze(loop).utilization


def one(dtype: str | None, kernel: str, *devices: Device) -> Utilization:
    """A step with one product."""
    loop = Loop(*devices)
    loop.begin()
    loop.product(SIZE, 900, kernel, dtype)
    return of(loop)


def test_operations_over_the_peak_over_the_step() -> None:
    found = one(BF16, TENSOR_CORE)
    assert found.mfu == found.hfu == pytest.approx(FLOPS / 312e12 / 1e-3)
    assert found.model_flops_per_step == found.hardware_flops_per_step == FLOPS
    assert (found.coverage, found.products_share, found.devices, found.unknown) == (1, 1, 1, None)
    assert found.peaks == (PeakShare(BF16, True, FLOPS, 312),)


@pytest.mark.parametrize(("kernel", "peak"), [(TF32, 156e12), (PLAIN, 19.5e12)])
def test_kernels_tell_which_peak_products_of_fp32_have(kernel: str, peak: float) -> None:
    assert one("float", kernel).mfu == pytest.approx(FLOPS / peak / 1e-3)


def test_products_of_several_types_have_a_peak_each() -> None:
    loop = Loop()
    loop.begin()
    loop.product(SIZE, 400)
    loop.product(1000, 400, PLAIN, "float")
    found = of(loop)
    assert found.mfu == pytest.approx((FLOPS / 312e12 + 2e9 / 19.5e12) / 1e-3)
    assert [(row.dtype, row.peak_tflops_per_s) for row in found.peaks] == [(BF16, 312), ("float", 19.5)]


@pytest.mark.parametrize(
    ("dtype", "kernel", "device"),
    [
        ("float", "my_gemm", A100),
        ("float", "Cijk_Ailk_Bljk_SB_MT128x128x16_MI32x32x2", MI300X),
        ("long int", TENSOR_CORE, A100),
        (None, TENSOR_CORE, A100),
    ],
    ids=["units not told", "two kinds of matrix units", "no peak", "no type"],
)
def test_without_a_peak_for_the_type_that_ran_there_is_no_share(dtype: str | None, kernel: str, device: Device) -> None:
    found = one(dtype, kernel, device)
    assert (found.mfu, found.hfu, found.unknown) == (None, None, "types")
    assert found.model_flops_per_step == FLOPS


@pytest.mark.parametrize(("counted", "other", "unknown"), [(400, 100, None), (399, 101, "coverage")])
def test_too_few_products_that_are_counted(counted: int, other: int, unknown: str | None) -> None:
    loop = Loop()
    loop.begin()
    loop.product(1000, counted)
    loop.launch_kernel(TENSOR_CORE, 600, other, at=550)  # no operator: as graphs launch it
    found = of(loop)
    assert found.coverage == pytest.approx(counted / 500)
    assert found.unknown == unknown
    assert found.mfu == (None if unknown else pytest.approx(2e9 / 312e12 / 1e-3))


def test_kernels_that_hold_no_products_need_no_model() -> None:
    loop = Loop()
    loop.begin()
    loop.product(SIZE, 300)
    loop.launch_kernel(ELEMENTWISE, 400, 300, at=390)
    loop.launch_kernel("triton_poi_fused_add_0", 700, 100, at=395)
    loop.launch_kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", 800, 100, at=396)
    found = of(loop)
    assert (found.coverage, found.unknown) == (1, None)
    assert found.products_share == pytest.approx(300 / 800)


def test_generated_templates_and_unknown_names_may_hold_products() -> None:
    loop = Loop()
    loop.begin()
    loop.product(SIZE, 300)
    loop.launch_kernel("triton_tem_fused_mm_0", 400, 300, at=390)
    loop.launch_kernel("mystery", 700, 300, at=395)
    assert of(loop).coverage == pytest.approx(1 / 3)


def test_a_figure_above_the_peak_is_withheld() -> None:
    # 2 * 6000^3 operations need 1.385 ms at 312 TFLOP/s, and the step takes 1 ms
    loop = Loop()
    loop.begin()
    loop.product(6000, 900)
    found = of(loop)
    assert (found.mfu, found.hfu, found.unknown) == (None, None, "above-peak")
    assert found.model_flops_per_step == 2 * 6000**3


def test_an_unknown_device_has_no_peak() -> None:
    assert one(BF16, TENSOR_CORE, ODD).unknown == "device"


def test_the_peak_is_that_of_all_devices_that_work() -> None:
    loop = Loop(A100, A100)
    loop.begin()
    loop.product(SIZE, 400)
    loop.product(SIZE, 400, device=1)
    found = of(loop)
    assert (found.devices, found.mfu) == (2, pytest.approx(2 * FLOPS / 312e12 / 2e-3))


def test_steps_that_are_left_out_do_not_count() -> None:
    loop = Loop()
    for size in (SIZE, SIZE, SIZE, 1000):
        loop.begin()
        loop.product(size, 900)
    found = analyze(loop, reasons=(None, None, None, "edge"))
    assert (found.steps, found.typical_step_ns) == (3, 1_000_000)
    assert found.utilization.mfu == pytest.approx(FLOPS / 312e12 / 1e-3)


def test_work_counts_in_the_step_in_which_the_device_does_it() -> None:
    # called in the third step, done in the fourth, which is left out
    loop = Loop()
    for _ in range(3):
        loop.begin()
        loop.product(1000, 500)
    loop.begin()
    loop.op("aten::mm", 2950, 80, shapes=[[SIZE, SIZE], [SIZE, SIZE]], types=[BF16, BF16], tid=5)
    loop.launch_kernel(TENSOR_CORE, 3100, 500, at=3010, tid=5)
    assert analyze(loop, reasons=(None, None, None, "edge")).utilization.model_flops_per_step == 2e9
    assert analyze(loop).utilization.model_flops_per_step == (3 * 2e9 + FLOPS) / 4


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda loop: loop.op("aten::mm", 0, 9, shapes=[[8, 8], [8, 8]]), "no-kernels"),
        (lambda loop: loop.launch_kernel(TENSOR_CORE, 20, 9, at=5), "no-shapes"),
        (lambda loop: loop.layer("aten::add", [8], [8], kernel=ELEMENTWISE), "no-products"),
    ],
    ids=["no-kernels", "no-shapes", "no-products"],
)
def test_what_a_trace_lacks(make: object, reason: str) -> None:
    loop = Loop()
    loop.begin()
    make(loop)  # type: ignore[operator]
    found = of(loop)
    assert (found.mfu, found.unknown) == (None, reason)


def test_without_steps_there_is_no_time_to_divide_by() -> None:
    loop = Loop()
    loop.product(SIZE, 900)
    found = analyze(loop)
    assert (found.steps, found.typical_step_ns, found.utilization.unknown) == (0, None, "no-steps")


QUERY = [2, 4, 128, 64]
PAIRS = 2 * 4 * 128 * 128 * 64 * 2  # operations of one product of all queries with all keys
FORWARD = 2 * PAIRS
BACKWARD = 5 * PAIRS


def attention(loop: Loop, at: int, tid: int | None = None) -> None:
    """A fused attention of the forward pass, with a number of autograd."""
    shapes = [QUERY, QUERY, QUERY, [], [], [], []]
    values = ["", "", "", "0.", "False", "False", ""]
    types = [BF16, BF16, BF16, "Scalar", "Scalar", "Scalar", ""]
    name = "aten::_scaled_dot_product_flash_attention"
    loop.op(name, at, 8, shapes=shapes, types=types, concrete=values, sequence=at, tid=tid)
    loop.launch_kernel(FLASH, at + 8, 20, at=at + 1, tid=tid)


def gradient(loop: Loop, at: int, tid: int) -> None:
    """The backward pass of that attention, within its own evaluation."""
    shapes = [*[QUERY] * 5, QUERY[:3], *[[]] * 6]
    values = [*[""] * 8, "128", "128", "0.", "False"]
    name = "ScaledDotProductFlashAttentionBackward0"
    loop.op(EVALUATION + name, at, 40, sequence=5, fwd_thread=1, tid=tid)
    loop.op(
        "aten::_scaled_dot_product_flash_attention_backward",
        at + 10,
        8,
        shapes=shapes,
        types=[*[BF16] * 5, "float", "", "", *["Scalar"] * 4],
        concrete=values,
        tid=tid,
    )
    loop.launch_kernel(FLASH.replace("fwd", "bwd"), at + 60, 50, at=at + 11, tid=tid)


def test_what_a_checkpoint_computes_again_counts_in_hfu_only() -> None:
    loop = Loop()
    loop.begin()
    attention(loop, 10)
    loop.op(EVALUATION + "CheckpointFunctionBackward", 100, 300, sequence=9, fwd_thread=1, tid=77)
    attention(loop, 110, tid=77)
    gradient(loop, 200, tid=77)
    found = of(loop)
    assert found.model_flops_per_step == FORWARD + BACKWARD
    assert found.hardware_flops_per_step == FORWARD + BACKWARD + FORWARD
    assert found.mfu == pytest.approx((FORWARD + BACKWARD) / 312e12 / 1e-3)
    assert found.hfu == pytest.approx((2 * FORWARD + BACKWARD) / 312e12 / 1e-3)


def test_a_pass_that_is_repeated_while_autograd_unpacks_counts_in_hfu_only() -> None:
    # the checkpoint without a function of its own: the first function that needs an activation computes it again
    loop = Loop()
    loop.begin()
    attention(loop, 10)
    loop.op(EVALUATION + "MulBackward0", 100, 60, sequence=9, fwd_thread=1, tid=77)
    loop.op("MulBackward0", 102, 50, sequence=9, fwd_thread=1, tid=77)
    attention(loop, 110, tid=77)
    gradient(loop, 200, tid=77)
    found = of(loop)
    assert found.hardware_flops_per_step == FORWARD + BACKWARD + FORWARD
    assert found.model_flops_per_step == FORWARD + BACKWARD


def test_gradients_of_gradients_are_part_of_the_model() -> None:
    # operators in the backward pass have numbers where its gradients are differentiated again
    loop = Loop()
    loop.begin()
    loop.op(EVALUATION + "MmBackward0", 100, 60, sequence=9, fwd_thread=1, tid=77)
    loop.op("aten::mm", 110, 8, shapes=[[64, 32], [32, 16]], types=[BF16, BF16], sequence=10, tid=77)
    loop.launch_kernel(TENSOR_CORE, 120, 20, at=112, tid=77)
    found = of(loop)
    assert found.model_flops_per_step == found.hardware_flops_per_step == 2 * 64 * 32 * 16
