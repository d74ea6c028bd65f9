"""What a printed row is."""

from __future__ import annotations

import pytest

from tests.analyzers.tables.making import document, row, table
from traceanalyzer.analyzers.tables.grouping import group
from traceanalyzer.analyzers.tables.kinds import RowKind, classify, is_dataloader, is_sync


@pytest.mark.parametrize(
    ("name", "cpu", "device", "kind"),
    [
        ("aten::mm", 5, 3, RowKind.OPERATOR),
        ("aten::to", 0, 3, RowKind.OPERATOR),
        ("AddmmBackward0", 5, 0, RowKind.OPERATOR),
        ("autograd::engine::evaluate_function: MulBackward0", 5, 0, RowKind.OPERATOR),
        ("relu_", 5, 0, RowKind.OPERATOR),
        ("cudaLaunchKernel", 5, 0, RowKind.RUNTIME),
        ("hipLaunchKernel", 5, 0, RowKind.RUNTIME),
        ("cuLaunchKernelEx", 5, 0, RowKind.RUNTIME),
        ("volta_sgemm_128x64_nn", 0, 3, RowKind.KERNEL),
        ("void at::native::vectorized_elementwise_kernel<4, at...", 0, 3, RowKind.KERNEL),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKern...", 0, 3, RowKind.KERNEL),
        ("Cijk_Ailk_Bljk_SB_MT64x64x16", 0, 3, RowKind.KERNEL),
        ("triton_poi_fused_add_0", 0, 3, RowKind.KERNEL),
        ("Memcpy HtoD (Pinned -> Device)", 0, 3, RowKind.COPY),
        ("Memset (Device)", 0, 3, RowKind.COPY),
        ("forward", 0, 3, RowKind.ANNOTATION),
        ("forward", 5, 0, RowKind.ANNOTATION),
        ("decode_0(0)_of(16)", 0, 3, RowKind.ANNOTATION),
        ("scale(float*, int)", 0, 3, RowKind.KERNEL),
        ("Optimizer.step#AdamW.step", 0, 3, RowKind.ANNOTATION),
        ("ProfilerStep*", 5, 0, RowKind.ANNOTATION),
        ("nccl:all_reduce", 0, 3, RowKind.ANNOTATION),
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter._...", 5, 0, RowKind.ANNOTATION),
    ],
)
def test_rows(name: str, cpu: int, device: int, kind: RowKind) -> None:
    assert classify([row(name, cpu, device)]) == [kind]


def test_a_device_row_with_the_name_of_a_host_row_is_its_projection() -> None:
    assert classify([row("my_kernel_range", 5, 0), row("my_kernel_range", 0, 3)])[1] is RowKind.ANNOTATION
    assert classify([row("my_kernel", 0, 3)]) == [RowKind.KERNEL]


def test_operators_of_old_torch_are_known_by_their_shapes() -> None:
    assert classify([row("conv2d", 5, input_shapes="[[8, 3, 32, 32]]")]) == [RowKind.OPERATOR]


def test_waits() -> None:
    assert is_sync("cudaStreamSynchronize")
    assert is_sync("hipDeviceSynchronize")
    assert not is_sync("cudaStreamWaitEvent")
    assert is_dataloader(row("enumerate(DataLoader)#_MultiProcessingDataLoaderIter...", 1, name_truncated=True))
    assert is_dataloader(row("enumerate(DataPipe)#Batcher", 1))
    assert not is_dataloader(row("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__init__", 1))


def test_what_took_as_long_as_an_operator_on_the_device_is_its_kernel() -> None:
    """Kernels of Triton have the names of Python functions."""
    rows = [row("_attention", 2, 40, 8), row("_attn_fwd", 0, 40, 8), row("denoise", 0, 40, 9)]
    assert classify(rows) == [RowKind.OPERATOR, RowKind.KERNEL, RowKind.ANNOTATION]
    generated = [row("triton_poi_fused_add_0", 2, 7), row("triton_poi_fused_add_0", 0, 7)]
    assert classify(generated) == [RowKind.OPERATOR, RowKind.KERNEL]


def test_a_range_around_one_kernel_is_no_second_kernel() -> None:
    rows = [row("aten::mm", 2, 40), row("ampere_sgemm_128x64", 0, 40), row("product", 0, 40)]
    assert classify(rows) == [RowKind.OPERATOR, RowKind.KERNEL, RowKind.ANNOTATION]
    projected = [row("aten::mm", 2, 40), row("product", 3, 0), row("product", 0, 40)]
    assert classify(projected) == [RowKind.OPERATOR, RowKind.ANNOTATION, RowKind.ANNOTATION]


def test_overhead_is_no_operator_although_kernels_may_be_counted_to_it() -> None:
    names = ("Activity Buffer Request", "Lazy Function Loading", "Command Buffer Full")
    assert classify(row(name, 5, 3) for name in names) == [RowKind.OVERHEAD] * 3


def test_operators_of_old_torch_have_no_namespace() -> None:
    rows = (row("addmm", 5), row("Forward", 3))
    (old,) = group(document(table(*rows, has_plain_names=True)))
    assert [kind for _, kind in old.by_name] == [RowKind.OPERATOR, RowKind.ANNOTATION]
    (new,) = group(document(table(*rows)))
    assert [kind for _, kind in new.by_name] == [RowKind.ANNOTATION, RowKind.ANNOTATION]


def test_names_in_code_are_kernels_where_their_times_fit() -> None:
    """The kernels of a server; of the total of 100 ms, 30 are in the first kernel and 20 in the second."""
    gemm = row("deep_gemm_kernel", 0, 30, self_device_share=0.3)
    quantization = row("_per_token_group_quant_fp8", 0, 20, self_device_share=0.2)
    assert classify([gemm, quantization]) == [RowKind.KERNEL] * 2
    step = row("model_inference", 0, 90, self_device_share=0.9)
    assert classify([gemm, quantization, step])[2] is RowKind.ANNOTATION, "longer than all kernels"
    range_ = row("my_range", 0, 29, self_device_share=0.29)
    assert classify([row("gemm_kernel", 0, 95, self_device_share=0.95), range_])[1] is RowKind.ANNOTATION, "too much"
    assert classify([gemm, row("_range", 3), row("_range", 0, 5)])[2] is RowKind.ANNOTATION, "it has a row of the host"
