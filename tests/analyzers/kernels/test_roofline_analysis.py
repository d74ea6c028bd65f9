"""Operators against the limits of the device."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import A100, MI300X, TraceBuilder
from tests.builders.hardware import Device
from tests.reading import read_built
from traceanalyzer.analyzers.kernels import roofline
from traceanalyzer.analyzers.kernels.roofline import Roofline
from traceanalyzer.knowledge.gpus import Gpu
from traceanalyzer.structure.context import Context

TENSOR_CORE, PLAIN = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn", "ampere_sgemm_128x64_nn"
TF32 = "sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x16_stage4_warpsize2x2x1_tensor16x8x8_cublas"
ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >"
ODD = Device("My GPU", 2**34, 50, 8, 0)


def analyze(trace: TraceBuilder, gpu: Gpu | None = None) -> Roofline:
    return roofline.analyze(Context(read_built(trace), gpu=gpu))


def product(trace: TraceBuilder, at: int, dur: int, kernel: str, size: int = 1000, dtype: str = "float") -> None:
    """A square product that takes `dur` us."""
    trace.op("aten::mm", at, 20, shapes=[[size, size], [size, size]], types=[dtype, dtype], concrete=["", ""])
    trace.launch_kernel(kernel, at + 25, dur, at=at + 5)


def test_rates_and_shares_of_the_peak() -> None:
    # 2 * 10^9 operations in 100 us are 20 TFLOP/s; 6 MB in 100 us are 60 GB/s
    trace = TraceBuilder(devices=(A100,))
    product(trace, 0, 100, TENSOR_CORE, dtype="c10::BFloat16")
    product(trace, 200, 300, TENSOR_CORE, dtype="c10::BFloat16")
    found = analyze(trace)
    assert found.roof is not None
    assert (found.roof.name, found.roof.bandwidth_gb_per_s) == ("A100 40GB", 1555)
    (row,) = found.rows
    assert (row.name, row.family, row.calls, row.device_ns) == ("aten::mm", "gemm", 2, 400_000)
    assert (row.flops, row.bytes) == (4 * 10**9, 12 * 10**6)
    assert (row.tflops_per_s, row.gb_per_s) == (10, 30)
    assert row.flops_per_byte == pytest.approx(1000 / 3)
    assert row.peak_tflops_per_s == 312
    assert row.compute_share == pytest.approx(10 / 312)
    assert row.bandwidth_share == pytest.approx(30 / 1555)
    assert (row.roofline_share, row.bound) == (row.compute_share, "compute")
    assert (found.modelled_ns, found.modelled_share) == (400_000, 1)


@pytest.mark.parametrize(("kernel", "peak"), [(TF32, 156), (PLAIN, 19.5)])
def test_kernels_tell_whether_fp32_products_use_tensor_cores(kernel: str, peak: float) -> None:
    trace = TraceBuilder(devices=(A100,))
    product(trace, 0, 100, kernel)
    assert analyze(trace).rows[0].peak_tflops_per_s == peak


def test_elementwise_operators_are_bound_by_memory() -> None:
    trace = TraceBuilder(devices=(A100,))
    trace.op("aten::add", 0, 20, shapes=[[1000, 1000], [1000, 1000], []], types=["float", "float", "Scalar"])
    trace.launch_kernel(ELEMENTWISE, 30, 12, at=5)
    (row,) = analyze(trace).rows
    assert (row.flops, row.bytes, row.gb_per_s, row.bound) == (10**6, 12 * 10**6, 1000, "memory")
    assert row.roofline_share == row.bandwidth_share == pytest.approx(1000 / 1555)


def test_the_inner_operator_of_a_family_counts_once() -> None:
    trace = TraceBuilder()
    inputs = {"shapes": [[8, 512], [], [512], [512], []], "types": ["float", "ScalarList", "float", "float", "Scalar"]}
    trace.op("aten::layer_norm", 0, 50, **inputs)
    trace.op("aten::native_layer_norm", 5, 40, **inputs)
    trace.launch_kernel("vectorized_layer_norm_kernel", 60, 10, at=10)
    assert [(r.name, r.calls, r.device_ns) for r in analyze(trace).rows] == [("aten::native_layer_norm", 1, 10_000)]


def test_the_outer_operator_does_not_count_what_it_launches_beside_the_inner_one() -> None:
    trace = TraceBuilder()
    inputs = {"shapes": [[8, 512], [], [512], [512], []], "types": ["float", "ScalarList", "float", "float", "Scalar"]}
    trace.op("aten::layer_norm", 0, 50, **inputs)
    trace.launch_kernel("prepare", 55, 3, at=2)
    trace.op("aten::native_layer_norm", 10, 30, **inputs)
    trace.launch_kernel("vectorized_layer_norm_kernel", 60, 10, at=15)
    found = analyze(trace)
    assert [(r.name, r.device_ns) for r in found.rows] == [("aten::native_layer_norm", 10_000)]
    assert found.modelled_share == pytest.approx(10 / 13)


def test_operators_of_other_families_inside_count_too() -> None:
    trace = TraceBuilder()
    trace.op("aten::addmm", 0, 50, shapes=[[8], [8, 8], [8, 8], [], []], types=["float"] * 3 + ["Scalar"] * 2)
    trace.op("aten::copy_", 5, 10, shapes=[[8, 8], [8], []], types=["float", "float", "Scalar"])
    trace.launch_kernel(ELEMENTWISE, 60, 4, at=8)
    trace.launch_kernel(PLAIN, 70, 9, at=20)
    assert [(r.name, r.device_ns) for r in analyze(trace).rows] == [("aten::addmm", 9_000), ("aten::copy_", 4_000)]


def test_calls_that_put_nothing_on_the_device_do_not_count() -> None:
    trace = TraceBuilder()
    product(trace, 0, 100, PLAIN)
    trace.op("aten::mm", 500, 20, shapes=[[1000, 1000], [1000, 1000]], types=["float", "float"])
    assert [(r.calls, r.flops) for r in analyze(trace).rows] == [(1, 2 * 10**9)]


def test_copies_between_host_and_device_do_not_count() -> None:
    trace = TraceBuilder()
    trace.op("aten::copy_", 0, 50, shapes=[[1000], [1000], []], types=["float", "float", "Scalar"])
    trace.memcpy("HtoD", 4000, 60, 10, at=5)
    trace.op("aten::copy_", 100, 50, shapes=[[500], [500], []], types=["float", "float", "Scalar"])
    trace.memcpy("DtoD", 2000, 160, 10, at=105)
    assert [row.input_shapes for row in analyze(trace).rows] == ["[[500],[500],[]]"]


def test_calls_that_differ_in_strides_or_values_share_a_row() -> None:
    trace = TraceBuilder()
    for at, stride in ((0, "[1, 1]"), (100, "[2, 2]")):
        trace.op(
            "aten::cudnn_convolution",
            at,
            40,
            shapes=[[1, 1, 4, 4], [1, 1, 2, 2], [], [], [], []],
            types=["float", "float", "ScalarList", "ScalarList", "ScalarList", "Scalar"],
            concrete=["", "", "[0, 0]", stride, "[1, 1]", "1"],
        )
        trace.launch_kernel("sm80_xmma_fprop_implicit_gemm", at + 50, 10, at=at + 5)
    (row,) = analyze(trace).rows
    assert (row.calls, row.flops) == (2, 2 * 9 * 4 + 2 * 4 * 4)  # 3x3 and 2x2 results of 4 products


def test_an_unknown_device_gets_rates_but_no_shares() -> None:
    trace = TraceBuilder(devices=(ODD,))
    product(trace, 0, 100, PLAIN)
    found = analyze(trace)
    assert found.roof is None
    (row,) = found.rows
    assert row.tflops_per_s == 20
    assert (row.peak_tflops_per_s, row.compute_share, row.bandwidth_share) == (None, None, None)
    assert (row.roofline_share, row.bound) == (None, None)


def test_devices_of_different_models_have_no_common_limit() -> None:
    trace = TraceBuilder(devices=(A100, MI300X))
    product(trace, 0, 100, PLAIN)
    assert analyze(trace).roof is None


def test_other_limits_can_be_given() -> None:
    trace = TraceBuilder(devices=(ODD,))
    product(trace, 0, 100, PLAIN)
    found = analyze(trace, Gpu("mine", "measured", bandwidth=240, fp32=40))
    assert found.roof is not None
    assert found.roof.source == "measured"
    (row,) = found.rows
    assert (row.compute_share, row.bandwidth_share, row.bound) == (0.5, 0.5, "memory")


def test_without_types_bytes_are_unknown_not_0() -> None:
    trace = TraceBuilder(devices=(A100,))
    trace.op("aten::mm", 0, 20, shapes=[[1000, 1000], [1000, 1000]])
    trace.launch_kernel(PLAIN, 30, 100, at=5)
    (row,) = analyze(trace).rows
    assert (row.flops, row.tflops_per_s) == (2 * 10**9, 20)
    assert (row.bytes, row.gb_per_s, row.flops_per_byte, row.bandwidth_share, row.bound) == (None,) * 5


def test_rows_are_in_the_order_of_their_time_then_name() -> None:
    trace = TraceBuilder()
    for number, name in enumerate(["aten::sub", "aten::add", "aten::mul"]):
        trace.op(name, 100 * number, 20, shapes=[[8], [8]], types=["float", "float"])
        trace.launch_kernel(ELEMENTWISE, 100 * number + 30, 50 if name == "aten::mul" else 7, at=100 * number + 5)
    assert [row.name for row in analyze(trace).rows] == ["aten::mul", "aten::add", "aten::sub"]


def test_why_it_cannot_run() -> None:
    no_kernels, no_shapes, fine = TraceBuilder(), TraceBuilder(), TraceBuilder()
    no_kernels.op("aten::mm", 0, 20, shapes=[[8, 8], [8, 8]])
    no_shapes.op("aten::mm", 0, 20)
    no_shapes.launch_kernel(PLAIN, 30, 100, at=5)
    product(fine, 0, 100, PLAIN)
    reasons = [roofline.ANALYSES[0].missing(Context(read_built(trace))) for trace in (no_kernels, no_shapes, fine)]
    assert [reason and reason.id for reason in reasons] == ["skip-no-kernels", "skip-no-shapes", None]


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 60), st.booleans()), min_size=1, max_size=6))
def test_work_and_time_add_up_over_calls(calls: list[tuple[int, int, bool]]) -> None:
    trace = TraceBuilder(devices=(A100,))
    for number, (size, dur, nested) in enumerate(calls):
        at = 1000 * number
        if nested:
            trace.annotation("block", at - 5, 100)
        product(trace, at, dur, PLAIN, size)
    found = analyze(trace)
    launched = [(size, dur) for size, dur, _ in calls if dur]
    assert sum(row.flops for row in found.rows) == sum(2 * size**3 for size, _ in launched)
    assert sum(row.bytes or 0 for row in found.rows) == sum(12 * size**2 for size, _ in launched)
    assert found.modelled_ns == sum(row.device_ns for row in found.rows) == 1000 * sum(dur for _, dur in launched)
    assert sum(row.calls for row in found.rows) == len(launched)
    for row in found.rows:
        assert row.roofline_share == max(row.compute_share or 0, row.bandwidth_share or 0)
