"""What a headline says of the work of a busy GPU: of which kinds its kernels are, and what bounds these."""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work, finish
from tests.rules.judging import report, said
from tests.rules.test_headline import bound, steps

CONVOLUTION = "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x32"
ADDITION = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >"


def test_a_busy_gpu_that_writes_out_quantized_weights_is_said_to() -> None:
    name = "void kDequantizeBlockwise<__nv_bfloat16, 512, 64, 8, 2>(float*, unsigned char*, float*, __nv_bfloat16*)"
    assert "mostly dequantizing weights, 6.0 of the 8.0 ms" in said(running({name: 6000, CONVOLUTION: 2000}))


def test_a_kernel_that_no_name_explains_is_of_no_class() -> None:
    (found,) = report(steps(host=10, kernel="acme_secret_sauce", gpu=5000)).headlines
    assert found.bound == "gpu-compute"
    assert "names of kernels do not tell its work" in found.text
    assert "matrix" not in found.text
    assert "move data" not in found.text


@pytest.mark.parametrize(
    ("kernels", "work"),
    [
        ({"ampere_sgemm_128x64_nn": 5000}, "matrix multiplications"),
        ({"ampere_sgemm_128x64_nn": 4000, "flash_fwd_kernel": 800}, "matrix multiplications and attention"),
        ({"sm80_xmma_fprop_implicit_gemm_indexed_tf32f32": 4000, "ampere_sgemm_128x64_nn": 90}, "convolutions"),
        ({"void at::native::sbtopk::gatherTopK<float>": 5000}, "sorting and selection"),
        ({"void at::native::conv_depthwise3d_cuda_kernel<float>": 4000, CONVOLUTION: 300}, "depthwise convolutions"),
        ({"void cudnn::cnn::conv2d_grouped_direct_kernel<float>": 4000, CONVOLUTION: 300}, "grouped convolutions"),
        (
            {"void at::native::distribution_elementwise_grid_stride_kernel<float, 4>": 4000, ADDITION: 900},
            "random numbers",
        ),
    ],
)
def test_the_class_that_takes_most_is_named(kernels: dict[str, int], work: str) -> None:
    trace = TraceBuilder()
    thread, stream = Host(trace, at=10), Stream()
    for number in range(3):
        with thread.annotation(f"ProfilerStep#{number}"):
            with thread.op("aten::mm", 10, 2):
                for kernel, time in kernels.items():
                    thread.launch(Work(kernel, time), stream)
            thread.wait(stream)
    assert f": mostly {work}, " in said(finish(trace))


def test_a_busy_gpu_is_told_with_the_shares_of_its_kinds_of_work() -> None:
    """Products take 6 of 10 ms, the optimizer 3; what takes less than a twentieth is not told."""
    trace = TraceBuilder()
    for number in range(3):
        at = 10_100 * number
        trace.step(number, at, 10_100)
        trace.launch_kernel("ampere_sgemm_128x64_nn", at + 20, 6000, at=at + 5, call_dur=5)
        trace.launch_kernel("multi_tensor_apply_kernel<Adam>", at + 6020, 3000, at=at + 11, call_dur=5)
        trace.launch_kernel("softmax_warp_forward", at + 9020, 400, at=at + 17, call_dur=3)
    assert "What its kernels do: matrix multiplications 64 %, optimizer updates 32 %." in said(trace)
    assert "Of the time of its kernels" not in said(steps(host=10, kernel="ampere_sgemm_128x64_nn", gpu=5000))


def running(kernels: dict[str, int], grid: tuple[int, int, int] = (4096, 1, 1)) -> TraceBuilder:
    """Three steps with these kernels and their durations, that leave the GPU no time."""
    trace = TraceBuilder()
    thread, stream = Host(trace, at=10), Stream()
    for number in range(3):
        with thread.annotation(f"ProfilerStep#{number}"):
            for name, dur in kernels.items():
                with thread.op("aten::mm"):
                    thread.launch(Work(name, dur, grid), stream)
            thread.wait(stream)
    return finish(trace)


ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"


NORMALIZATION = "void at::native::batch_norm_transform_input_channels_last_kernel<float>"


def test_where_no_kind_that_moves_data_leads_all_kinds_are_named() -> None:
    trace = running({CONVOLUTION: 4200, NORMALIZATION: 3000, ELEMENTWISE: 2800})
    assert bound(trace) == "gpu-memory"
    assert said(trace).startswith("Limited by the GPU, all 10 ms of each step: convolutions 42 %, moving data 58 %.")
    assert "bandwidth" in said(running({CONVOLUTION: 3000, NORMALIZATION: 4200, ELEMENTWISE: 2800}))


@pytest.mark.parametrize(
    ("grid", "begin"), [((1, 43, 1), "Limited by the GPU: mostly matrix"), ((64, 43, 1), "Limited by GPU compute")]
)
def test_products_of_few_rows_are_not_bound_by_arithmetic(grid: tuple[int, int, int], begin: str) -> None:
    products = {"ampere_fp16_s16816gemm_fp16_64x64_sliced1x2_ldg8_f2f_stages_64x6_tn": 3000}
    assert said(running(products, grid)).startswith(begin)


def test_products_that_inductor_writes_as_sums_read_weights() -> None:
    text = said(running({"triton_red_fused_mm_6": 3000}, (4096, 1, 1)))
    assert text.startswith("Limited by the GPU: mostly matrix multiplications")


@pytest.mark.parametrize(("vector", "expected"), [(1600, "gpu-memory"), (1400, "gpu-compute")])
def test_products_with_a_vector_are_bound_by_reading_the_matrix(vector: int, expected: str) -> None:
    """On any grid: blocks of one such kernel each read a part of the weights."""
    gemm = "ampere_fp16_s16816gemm_fp16_64x64_sliced1x2_ldg8_f2f_stages_64x6_tn"
    int4 = "void at::native::tinygemm_m16n8k16_chunk_kernel<at::native::ALayout_RM<3>, BLayout_TC_int4<2, 32>>"
    gemv = "void gemv2T_kernel_val<int, int, __half, __half, __half, float, 128, 16, 4, 4, false>"
    trace = running({int4: vector - 500, gemv: 500, gemm: 1500})
    assert bound(trace) == expected
    said_so = said(trace).startswith("Limited by GPU memory bandwidth: mostly reading weights in matrix multi")
    assert said_so is (expected == "gpu-memory")


def test_compiled_pointwise_kernels_move_data() -> None:
    (found,) = report(steps(host=10, kernel="triton_poi_fused_add_0", gpu=5000)).headlines
    assert found.bound == "gpu-memory"
    assert "Limited by GPU memory bandwidth" in found.text


def test_generated_kernels_of_no_named_kind_are_no_data_that_moves() -> None:
    (found,) = report(steps(host=10, kernel="triton__0d1d2d3d", gpu=5000)).headlines
    assert found.bound == "gpu-compute"
    assert "names of kernels do not tell its work" in found.text


def test_graphs_are_named_where_the_device_is_busy() -> None:
    trace = TraceBuilder()
    for number in range(3):
        start = 1000 * number
        trace.step(number, start, 1000)
        trace.graph_launch(start + 10, 15, [("ampere_sgemm_128x64_nn", start + 30 + 90 * i, 90, {}) for i in range(10)])
    (found,) = report(trace).headlines
    assert "30 of 30 kernels are launched by graphs" in found.text


def test_gaps_between_the_kernels_of_a_graph_are_the_devices() -> None:
    """A replay runs for 980 of 1000 us: kernels of 3 us with 1 us between them."""
    trace = TraceBuilder()
    for number in range(4):
        start = 1000 * number
        trace.step(number, start, 1000)
        kernels = [("gemv_kernel", start + 20 + 4 * i, 3, {}) for i in range(245)]
        trace.graph_launch(start + 5, 10, kernels)
    (found,) = report(trace).headlines
    assert found.bound == "gpu-memory"


def test_a_kind_that_is_named_has_its_own_time_and_leads_only_where_it_is_most() -> None:
    """Writing out quantized weights takes 4.5 ms, products 3.5 and normalization 1: none is half of the 9 ms."""
    written = "void kDequantizeBlockwise<__nv_bfloat16, 512, 64, 8, 2>(float*, unsigned char*, float*, __nv_bfloat16*)"
    gemm = "ampere_fp16_s16816gemm_fp16_64x64_sliced1x2_ldg8_f2f_stages_64x6_tn"
    told = said(running({written: 4400, gemm: 3500, NORMALIZATION: 1100}))
    assert told.startswith("Limited by GPU memory bandwidth: above all dequantizing weights, 4.4 of the 9.0 ms of each")
    assert ": mostly dequantizing weights, 4.6 of the 9.1 ms" in said(running({written: 4600, gemm: 4500}))
