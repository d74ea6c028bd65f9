"""Which device time belongs to which operator, and what the rows on the device are."""

from __future__ import annotations

import pytest

from tests.analyzers.operators.key_averages.averaged import averaged, by_name, cpu, device
from tests.builders import ERA_2022, MAX1550, MODERN, XPU, TraceBuilder


def two_levels() -> TraceBuilder:
    """A linear layer that launches nothing itself, and a kernel of the product inside it."""
    trace = TraceBuilder()
    trace.op("aten::linear", 0, 100)
    trace.op("aten::addmm", 20, 60)
    trace.launch_kernel("gemm", 200, 40, at=30)
    return trace


def test_operators_have_the_time_of_their_kernels() -> None:
    rows = by_name(two_levels())
    assert device(rows["aten::addmm"]) == (40_000, 40_000)
    assert device(rows["aten::linear"]) == (0, 40_000)
    assert device(rows["device: gemm"]) == (40_000, 40_000)
    assert cpu(rows["device: gemm"]) == (1, 0, 0)


def test_launches_are_rows_inside_their_operator() -> None:
    rows = by_name(two_levels())
    assert cpu(rows["cudaLaunchKernel"]) == (1, 5_000, 5_000)
    assert cpu(rows["aten::addmm"]) == (1, 55_000, 60_000)
    assert device(rows["cudaLaunchKernel"]) == (0, 0)


def test_overlapping_kernels_count_in_full() -> None:
    trace = two_levels()
    trace.launch_kernel("gemm", 210, 40, at=40, stream=20)
    rows = by_name(trace)
    assert device(rows["aten::addmm"]) == (80_000, 80_000)
    assert (rows["device: gemm"].calls, rows["device: gemm"].device_avg_us) == (2, 40.0)


def test_ranges_on_the_device_are_rows_of_their_own_and_belong_to_nobody() -> None:
    trace = TraceBuilder()
    step = trace.step(5, 0, 100)
    trace.op("aten::relu", 10, 20)
    trace.launch_kernel("relu", 110, 10, at=15)
    trace.gpu_annotation("ProfilerStep#5", 110, 10, external_id=step)
    rows = by_name(trace)
    assert device(rows["ProfilerStep*"]) == (0, 10_000)
    assert device(rows["device: ProfilerStep*"]) == (10_000, 10_000)
    assert rows["device: ProfilerStep*"].is_user_annotation
    assert averaged(trace).device == "CUDA"


def test_a_kernel_without_an_operator_is_a_row_and_nothing_else() -> None:
    trace = TraceBuilder()
    trace.op("aten::relu", 0, 10)
    trace.kernel("triton_poi", 20, 10)
    rows = by_name(trace)
    assert device(rows["device: triton_poi"]) == (10_000, 10_000)
    assert device(rows["aten::relu"]) == (0, 0)


def test_an_operator_that_stands_for_its_child_has_the_kernels_of_the_child() -> None:
    trace = TraceBuilder()
    trace.op("aten::sum", 0, 100)
    trace.op("aten::sum", 10, 80)
    trace.launch_kernel("reduce", 200, 30, at=20)
    rows = by_name(trace)
    # The launch is a second child of nobody but the inner one, so the two are one row.
    assert (rows["aten::sum"].calls, device(rows["aten::sum"])) == (1, (30_000, 30_000))


def test_a_call_counts_for_the_thread_of_its_operator() -> None:
    trace = TraceBuilder()
    backward = trace.op("aten::mm", 0, 100, tid=1)
    trace.launch("cudaLaunchKernel", 10, 5, external_id=backward, tid=2)
    assert cpu(by_name(trace)["aten::mm"]) == (1, 95_000, 100_000)


def test_a_call_without_an_operator_counts_for_the_thread_that_ends_the_profile() -> None:
    trace = TraceBuilder(pid=1, tid=1)
    trace.step(1, 0, 100, tid=1)
    trace.op("aten::mm", 20, 50, tid=2)
    trace.launch("cudaMalloc", 30, 10, external_id=None, tid=2)
    rows = by_name(trace)
    assert cpu(rows["aten::mm"])[1] == 50_000
    assert cpu(rows["ProfilerStep*"])[1] == 90_000


def test_a_correlation_that_is_some_other_operators_id_links_nothing() -> None:
    trace = TraceBuilder()  # until 2024 calls without an operator gave their correlation for the id
    trace.op("aten::mm", 0, 10, external_id=77)
    trace.op("aten::relu", 20, 10, external_id=5)
    trace.launch_kernel("relu", 100, 10, at=22)
    for ident in (78, 79, 77):
        trace.launch_kernel("other", 200 + ident, 1, at=50 + ident, external_id=5 if ident > 77 else 77)
    trace.launch("cudaEventRecord", 60, 2, correlation=77, external_id=77)
    assert by_name(trace)["cudaEventRecord"].cpu_total_ns == 2_000
    assert cpu(by_name(trace)["aten::mm"])[1] == 10_000


def test_ids_that_are_correlations_are_replaced_by_containment() -> None:
    trace = TraceBuilder(ERA_2022)
    trace.op("aten::linear", 0, 100)
    trace.op("aten::addmm", 20, 60)
    trace.launch_kernel("gemm", 200, 40, at=30)
    rows = by_name(trace)
    assert device(rows["aten::addmm"]) == (40_000, 40_000)
    assert device(rows["aten::linear"]) == (0, 40_000)


def test_two_operators_of_one_id_both_have_the_kernel() -> None:
    trace = TraceBuilder()
    trace.op("a", 0, 10, external_id=9)
    trace.op("b", 20, 10, external_id=9)
    trace.launch_kernel("k", 100, 7, at=22, external_id=9)
    rows = by_name(trace)
    assert device(rows["a"]) == device(rows["b"]) == (7_000, 7_000)


def test_synchronizations_on_the_device_count_for_the_operator_that_waits() -> None:
    trace = TraceBuilder()
    trace.op("aten::item", 0, 100)
    correlation = trace.launch("cudaStreamSynchronize", 10, 50)
    trace.sync("Stream Sync", 12, 40, correlation=correlation)
    rows = by_name(trace)
    assert device(rows["device: Stream Sync"]) == (40_000, 40_000)
    assert device(rows["aten::item"]) == (40_000, 40_000)


@pytest.mark.parametrize(("dialect", "devices", "name"), [(MODERN, None, "CUDA"), (XPU, (MAX1550,), "XPU")])
def test_the_device_has_torchs_name(dialect: object, devices: object, name: str) -> None:
    trace = TraceBuilder(dialect, **({"devices": devices} if devices else {}))  # type: ignore[arg-type]
    trace.op("aten::relu", 0, 10)
    trace.launch_kernel("relu", 20, 10, at=2)
    assert averaged(trace).device == name
