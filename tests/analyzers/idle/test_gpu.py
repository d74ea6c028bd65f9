"""Figures of each GPU, over the window of the steps."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.builders import ROCM, TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers.idle import gpu
from traceanalyzer.analyzers.idle.gpu import DeviceUse
from traceanalyzer.structure.context import Context


def devices(trace: TraceBuilder) -> tuple[DeviceUse, ...]:
    return gpu.analyze(Context(read_built(trace))).devices


def only(trace: TraceBuilder) -> DeviceUse:
    (found,) = devices(trace)
    return found


def window() -> TraceBuilder:
    """Two steps from 0 to 200 us."""
    trace = TraceBuilder()
    trace.step(1, 0, 80)
    trace.step(2, 120, 80)
    return trace


def test_utilization_is_the_time_with_a_kernel() -> None:
    trace = window()
    trace.kernel("a", 10, 40)
    trace.kernel("b", 30, 40, stream=8)
    trace.kernel("c", 90, 20)  # between the steps, but in the window
    assert only(trace).utilization == 80 / 200


def test_copies_and_fills_keep_a_device_busy_but_not_utilized() -> None:
    trace = window()
    trace.kernel("k", 10, 40)
    trace.memcpy("HtoD", 4096, 40, 30)
    trace.memset(64, 100, 10)
    found = only(trace)
    assert (found.utilization, found.busy_share) == (40 / 200, 70 / 200)
    assert found.idle_share == pytest.approx(130 / 200)


def test_communication_counts_as_utilization() -> None:
    trace = window()
    trace.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 10, 40)
    assert only(trace).utilization == 40 / 200


def test_what_lies_outside_the_window_is_cut_off() -> None:
    trace = TraceBuilder()
    trace.kernel("before", 0, 150, blocks_per_sm=Decimal(1), occupancy=100)
    trace.step(1, 100, 100)
    trace.kernel("after", 180, 500, blocks_per_sm=Decimal("0.5"), occupancy=25)
    found = only(trace)
    assert found.utilization == 70 / 100
    assert found.est_sm_efficiency == (50 + 10) / 100
    assert found.est_achieved_occupancy == (50 * 1.0 + 20 * 0.25) / 70


def test_sm_efficiency_adds_up_kernels_but_not_beyond_one() -> None:
    trace = window()
    trace.kernel("a", 0, 40, blocks_per_sm=Decimal("0.5"))
    trace.kernel("b", 20, 40, blocks_per_sm=Decimal("0.75"), stream=8)
    # 20 us at 0.5, 20 us at 1, 20 us at 0.75
    assert only(trace).est_sm_efficiency == pytest.approx(45 / 200)


def test_sm_efficiency_needs_blocks() -> None:
    trace = TraceBuilder(ROCM)
    trace.step(1, 0, 100)
    trace.kernel("k", 10, 40)
    found = only(trace)
    assert (found.est_sm_efficiency, found.est_achieved_occupancy) == (None, None)


def test_an_occupancy_that_no_device_has_gives_no_mean() -> None:
    trace = window()
    trace.kernel("damaged", 0, 30, occupancy=Decimal("1e308"))
    trace.kernel("b", 30, 10, occupancy=50)
    assert only(trace).est_achieved_occupancy is None


def test_occupancy_is_weighted_by_duration_and_zero_counts() -> None:
    trace = window()
    trace.kernel("a", 0, 30, occupancy=80)
    trace.kernel("b", 30, 10, occupancy=0)
    trace.kernel("c", 40, 60, occupancy=None)
    assert only(trace).est_achieved_occupancy == pytest.approx(30 * 0.8 / 40)


def test_tensor_cores_by_kernel_time() -> None:
    trace = window()
    trace.kernel("ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn", 0, 60)
    trace.kernel("ampere_sgemm_128x64_nn", 60, 30)
    trace.kernel("my_kernel", 90, 10)
    found = only(trace)
    assert found.tensor_core_share == 60 / 100
    assert found.tensor_core_unknown_share == 10 / 100


def test_devices_are_told_apart() -> None:
    trace = window()
    trace.kernel("a", 0, 50, device=1)
    trace.kernel("b", 0, 100, device=3)
    trace.memcpy("HtoD", 4096, 100, 50, device=1)
    trace.memcpy("HtoD", 4096, 100, 50, device=2)  # no kernel, no row
    found = devices(trace)
    assert [(d.device, d.utilization, d.busy_share) for d in found] == [(1, 0.25, 0.5), (3, 0.5, 0.5)]


def test_kernels_without_a_device_are_nobodys() -> None:
    trace = window()
    trace.kernel("k", 0, 50)
    args = trace.events[-1]["args"]
    assert isinstance(args, dict)
    del args["device"]
    assert devices(trace) == ()


def test_a_window_without_length_has_no_figures() -> None:
    trace = TraceBuilder()
    trace.step(1, 10, 0)
    trace.kernel("k", 0, 5)
    assert devices(trace) == ()
