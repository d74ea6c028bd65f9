"""What holds a call or a device event up: one trace for each kind of cause, times in microseconds."""

from __future__ import annotations

import numpy as np
import pytest

from tests.builders import TraceBuilder
from tests.simulation.replaying import model_of, saved, synchronized
from traceanalyzer.simulation import replay_error
from traceanalyzer.simulation.edits import (
    DropEdit,
    HostEdit,
    LoaderEdit,
    OverlapEdit,
    RelaunchEdit,
    ScaleEdit,
    UnblockEdit,
)
from traceanalyzer.simulation.graph import NOTHING
from traceanalyzer.simulation.model import Model

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def rows(found: Model, *names: str) -> np.ndarray:
    """Rows of the device table with some names."""
    trace = found.context.trace
    return np.flatnonzero(np.isin(trace.device.name, [list(trace.names).index(name) for name in names]))


def two_kernels() -> TraceBuilder:
    """The figures of Holistic Trace Analysis' test of a simple addition: host 15, 14, 17, 15, 32; launch 27; gap 7."""
    trace = TraceBuilder()
    trace.op("aten::add", 0, 93)
    trace.launch_kernel("first", 15 + 27, 30, at=15, call_dur=14)
    trace.launch_kernel("second", 79, 10, at=46, call_dur=15)
    return trace


def test_a_simple_addition_has_the_edges_of_holistic_trace_analysis() -> None:
    graph = model_of(two_kernels()).graph
    assert graph.host.cost_ns.tolist() == [0, 15_000, 14_000, 17_000, 15_000, 32_000]
    assert graph.device.latency_ns.tolist() == [27_000, 27_000]
    assert graph.device.gap_ns.tolist() == [0, 7_000]
    assert graph.device.dur_ns.tolist() == [30_000, 10_000]


def test_the_slower_of_launch_and_stream_decides() -> None:
    found = model_of(two_kernels())
    assert saved(found, ScaleEdit(rows(found, "first"), 0.5)) == 0  # the host takes 93 anyway
    # 79 follows 72 by 7; 46 + 27 = 73 is when the launch arrives: 200 more on the first kernel push the end to 289
    slower = ScaleEdit(rows(found, "first"), (30 + 200) / 30)
    assert saved(found, slower) == -(79 + 200 + 10 - 93)


def test_a_synchronization_returns_after_the_work_before_it() -> None:
    found = model_of(synchronized())
    end = found.graph.host.held_by != NOTHING
    assert found.graph.host.time_ns[end].tolist() == [118_000]
    assert found.graph.host.delay_ns[end].tolist() == [3_000]
    assert saved(found, ScaleEdit(rows(found, "kernel"), 0.5)) == 50
    assert saved(found, ScaleEdit(rows(found, "kernel"), 0.5, 80_000)) == 20
    assert saved(found, UnblockEdit(np.arange(2))) == 168 - 115  # the step ends with its kernel
    assert saved(found, DropEdit(rows(found, "kernel"))) >= 98


def test_a_call_that_frees_memory_waits_until_the_device_is_done() -> None:
    assert (model_of(synchronized("cudaFree")).graph.host.held_by != NOTHING).any()


def test_a_call_that_takes_memory_while_the_device_works_on_waits_for_nothing() -> None:
    trace = synchronized("cudaMalloc")
    trace.launch_kernel("longer", 115, 100, at=16, call_dur=2, stream=7)
    assert not (model_of(trace).graph.host.held_by != NOTHING).any()


def test_a_copy_of_pageable_memory_waits_for_itself() -> None:
    trace = TraceBuilder()
    trace.step(1, 0, 200)
    trace.op("aten::copy_", 5, 150)
    trace.memcpy("DtoH", 4096, 40, 60, at=10, call_dur=95)
    found = model_of(trace)
    assert found.graph.host.held_by[found.graph.host.is_end].tolist() == [0]
    assert saved(found, ScaleEdit(np.array([0]), 0.5)) == 30


def copied_behind_a_kernel(*, pinned: bool) -> TraceBuilder:
    """A kernel from 15 to 115, a copy to the device behind it from 117 to 140, and host work until 200.

    From pageable memory the call lasts until 130, from pinned memory it returns at 25, and the host works from there.
    """
    trace = TraceBuilder()
    trace.step(1, 0, 200 if not pinned else 145)
    trace.op("aten::mm", 2, 16)
    trace.launch_kernel("kernel", 15, 100, at=10, call_dur=5)
    trace.op("aten::copy_", 19, 112 if not pinned else 7)
    trace.memcpy("HtoD", 4096, 117, 23, at=20, call_dur=110 if not pinned else 5, pinned=pinned)
    trace.op("aten::relu", 135 if not pinned else 30, 60)
    return trace


def test_a_copy_from_pageable_memory_waits_for_the_work_before_it() -> None:
    found = model_of(copied_behind_a_kernel(pinned=False))
    kernel = rows(found, "kernel")
    held = found.graph.host.held_by[found.graph.host.held_by != NOTHING]
    assert found.graph.device.row[held].tolist() == kernel.tolist()
    # the kernel ends at 65 instead of 115, and all that follows with it
    assert saved(found, ScaleEdit(kernel, 0.5)) == 50
    assert saved(found, UnblockEdit(np.arange(2))) == 200 - 140  # the step ends with its copy


def test_a_copy_from_pinned_memory_holds_nothing_up() -> None:
    found = model_of(copied_behind_a_kernel(pinned=True))
    assert not (found.graph.host.held_by != NOTHING).any()


def test_an_unexplained_wait_keeps_its_duration_and_is_counted() -> None:
    trace = TraceBuilder()
    trace.step(1, 0, 6_000)
    trace.op("aten::copy_", 5, 50)
    trace.launch_kernel("kernel", 15, 10, at=10, call_dur=3)
    trace.launch("cudaStreamSynchronize", 1_000, 4_000)
    found = model_of(trace)
    assert replay_error.analyze(found.context).unexplained_waits == 1
    assert saved(found, ScaleEdit(np.array([0]), 0.0)) == 0


def handed_over() -> TraceBuilder:
    """Thread 4201 launches, thread 4202 runs the backward pass from 100 to 400, then 4201 goes on at 420."""
    trace = TraceBuilder()
    trace.step(1, 0, 500)
    trace.op("aten::mm", 5, 60)
    trace.launch_kernel("forward", 30, 10, at=20, call_dur=5)
    trace.op("MmBackward0", 100, 300, tid=4202, sequence=1, fwd_thread=1)
    trace.launch_kernel("backward", 370, 10, at=360, call_dur=5, tid=4202)
    trace.op("aten::add_", 415, 30)
    trace.launch_kernel("update", 430, 10, at=420, call_dur=5)
    return trace


def test_a_thread_goes_on_after_the_call_of_another_one() -> None:
    found = model_of(handed_over())
    host = found.graph.host
    handed = np.flatnonzero(host.held_by_point != NOTHING)
    assert host.time_ns[handed].tolist() == [420_000, 360_000]
    assert host.time_ns[host.held_by_point[handed]].tolist() == [365_000, 25_000]
    thread = int(host.thread[handed[1]])
    backward = HostEdit(np.array([thread]), np.array([100_000]), np.array([360_000]), 0.5)
    assert saved(found, backward) == 130


def test_a_thread_that_works_meanwhile_waits_for_nobody() -> None:
    trace = handed_over()
    trace.op("aten::busy", 70, 345)
    host = model_of(trace).graph.host
    assert host.time_ns[host.held_by_point != NOTHING].tolist() == [360_000]


def waiting_streams(*, call: bool = True) -> TraceBuilder:
    """A collective on stream 20 that waits for a kernel on stream 7 which ends at 300; then the host waits for it."""
    trace = TraceBuilder()
    trace.step(1, 0, 600)
    trace.op("aten::mm", 5, 500)
    trace.launch_kernel("kernel", 100, 200, at=90, call_dur=5)
    trace.launch("cudaEventRecord", 100, 1)
    if call:
        trace.launch("cudaStreamWaitEvent", 102, 1)
    else:
        trace.launch("cudaStreamWaitEvent", 80, 1)
    trace.launch_kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 302, 100, at=110, call_dur=5, stream=20)
    trace.launch("cudaDeviceSynchronize", 120, 285)
    return trace


def test_a_stream_waits_for_an_event_of_another_one() -> None:
    found = model_of(waiting_streams())
    assert found.graph.device.waits_for.tolist() == [NOTHING, 0]
    assert found.graph.device.wait_ns.tolist() == [0, 2_000]
    assert saved(found, ScaleEdit(rows(found, "kernel"), 0.5)) == 100


def test_without_a_call_that_waits_a_stream_waits_for_nothing() -> None:
    assert model_of(waiting_streams(call=False)).graph.device.waits_for.tolist() == [NOTHING, NOTHING]


def recorded_wait(record: int = 1, *, stream: int = 20, waited: int = 7) -> TraceBuilder:
    """A stream waits for the first of two kernels of another one; the second ends just before its work starts.

    Args:
        record: The call that recorded the event: 0 before all work, 1 after the first kernel; 9 is none.
        stream: The stream that waits.
        waited: The stream of the event.
    """
    trace = TraceBuilder()
    trace.step(1, 0, 600)
    trace.op("aten::mm", 5, 500)
    calls = [trace.launch("cudaEventRecord", 86, 1)]
    trace.launch_kernel("kernel", 100, 100, at=90, call_dur=5)
    calls.append(trace.launch("cudaEventRecord", 96, 1))
    trace.launch_kernel("other", 200, 100, at=98, call_dur=5)
    wait = trace.launch("cudaStreamWaitEvent", 104, 1)
    recorded = {
        "wait_on_stream": waited,
        "wait_on_cuda_event_record_corr_id": {0: calls[0], 1: calls[1]}.get(record, -1),
    }
    trace.sync("Stream Wait Event", 105, 1, stream=stream, correlation=wait, args=recorded)
    trace.launch_kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 302, 100, at=110, call_dur=5, stream=20)
    trace.launch("cudaDeviceSynchronize", 120, 285)
    return trace


def test_a_recorded_wait_says_which_event_is_waited_for() -> None:
    """The guess would be the second kernel, which ends just before."""
    assert model_of(recorded_wait()).graph.device.waits_for.tolist() == [NOTHING, NOTHING, 0]
    assert saved(model_of(recorded_wait()), ScaleEdit(rows(model_of(recorded_wait()), "other"), 0.5)) == 0


@pytest.mark.parametrize(("record", "stream", "waited"), [(9, 20, 7), (0, 20, 7), (1, 20, 20), (1, 24, 7), (1, 20, 9)])
def test_waits_that_name_nothing_known_are_guessed(record: int, stream: int, waited: int) -> None:
    found = model_of(recorded_wait(record, stream=stream, waited=waited))
    assert found.graph.device.waits_for.tolist() == [NOTHING, NOTHING, 1]


def test_an_overlapped_collective_delays_only_the_end() -> None:
    trace = TraceBuilder()
    trace.step(1, 0, 20)
    trace.op("aten::mm", 5, 10)
    trace.launch_kernel("before", 20, 100, at=6, call_dur=1)
    trace.launch_kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 120, 300, at=8, call_dur=1)
    trace.launch_kernel("after", 420, 100, at=10, call_dur=1)
    found = model_of(trace)
    collective = rows(found, "ncclDevKernel_AllReduce_Sum_f32_RING_LL")
    assert saved(found, OverlapEdit(collective)) == 100  # it still ends at 420, and what came after it much earlier


def test_a_launch_that_loads_code_first_launches_at_its_end() -> None:
    trace = TraceBuilder()
    trace.step(1, 0, 5_000)
    trace.op("aten::mm", 5, 4_000)
    for at in range(100, 1_000, 100):
        trace.launch_kernel("kernel", at + 8, 10, at=at, call_dur=5)
    trace.launch_kernel("new", 3_003, 10, at=2_000, call_dur=1_000)
    found = model_of(trace)
    assert found.graph.device.latency_ns[-1] == 3_000
    assert found.graph.host.is_end[found.graph.device.launch[-1]]


def test_graphs_have_one_launch_and_the_recorded_order() -> None:
    trace = TraceBuilder()
    trace.step(1, 0, 300)
    trace.graph_launch(10, 20, [("first", 60, 50, {}), ("second", 111, 50, {}), ("third", 162, 50, {})])
    trace.launch("cudaDeviceSynchronize", 40, 175)
    found = model_of(trace)
    assert (found.graph.device.launch >= 0).tolist() == [True, False, False]
    assert found.graph.device.gap_ns.tolist() == [0, 1_000, 1_000]
    assert saved(found, ScaleEdit(rows(found, "second"), 0.5)) == 25


def test_work_from_before_the_recording_is_an_input() -> None:
    trace = TraceBuilder()
    trace.step(1, 0, 30_000)
    trace.op("aten::mm", 5, 25_000)
    trace.launch_kernel("held", 9_000, 100, at=10, call_dur=5)
    for at in range(10_000, 20_000, 1_000):
        trace.launch_kernel("kernel", at + 8, 10, at=at, call_dur=5)
    found = model_of(trace)
    result = replay_error.analyze(found.context)
    assert (result.unrecorded_starts, result.error_share) == (1, 0)


def test_an_event_without_a_launch_keeps_its_place_on_the_host() -> None:
    trace = TraceBuilder()
    trace.step(1, 0, 1_000)
    trace.op("aten::mm", 5, 900)
    trace.launch_kernel("kernel", 110, 10, at=100, call_dur=5)
    trace.kernel("unknown", 500, 10, correlation=999)
    trace.launch_kernel("kernel", 710, 10, at=700, call_dur=5)
    result = replay_error.analyze(model_of(trace).context)
    assert result.unlinked_starts == 1
    assert result.device_start_error_p95_share == 0


def loading(wait: int) -> TraceBuilder:
    """A step that waits for the loader, then launches 100 of work and waits for it."""
    trace = TraceBuilder()
    trace.step(1, 0, wait + 150)
    trace.annotation(LOADER, 10, wait)
    trace.op("aten::mm", wait + 15, 130)
    trace.launch_kernel("kernel", wait + 28, 100, at=wait + 20, call_dur=5)
    trace.launch("cudaStreamSynchronize", wait + 30, 100)
    return trace


def test_waits_for_the_loader_shrink_to_a_floor() -> None:
    found = model_of(loading(400))
    assert saved(found, LoaderEdit(0)) == 400
    assert saved(found, LoaderEdit(150_000)) == 250
    assert saved(found, LoaderEdit(500_000)) == 0


def test_one_launch_replaces_the_host_time_between_launches() -> None:
    trace = TraceBuilder()
    trace.step(1, 0, 1_000)
    trace.op("aten::mm", 5, 990)
    for at in range(100, 600, 100):
        trace.launch_kernel("kernel", at + 8, 2, at=at, call_dur=5)
    found = model_of(trace)
    everything = np.arange(5)
    assert saved(found, RelaunchEdit(everything, 0)) == 405  # from 100 to 505
    assert saved(found, RelaunchEdit(everything, 30_000)) == 375


@pytest.mark.parametrize("waits_for", ["nothing", "a batch", "the device"])
def test_a_graph_contains_no_wait(waits_for: str) -> None:
    trace = TraceBuilder()
    trace.step(1, 0, 1_000)
    trace.op("aten::mm", 5, 190 if waits_for == "a batch" else 990)
    for at in (100, 500):
        trace.launch_kernel("kernel", at + 8, 300 if at == 100 else 2, at=at, call_dur=5)
    if waits_for == "a batch":
        trace.annotation(LOADER, 210, 280)
    elif waits_for == "the device":
        trace.launch("cudaStreamSynchronize", 120, 290)
    found, both = model_of(trace), np.arange(2)
    assert saved(found, RelaunchEdit(both, 0)) == pytest.approx(400 if waits_for == "nothing" else 5, abs=5)
    if waits_for == "the device":  # together with what removes the wait, in any order
        calls = np.flatnonzero(found.context.trace.launches.dur_ns == 290_000)
        edits = [RelaunchEdit(both, 0), UnblockEdit(calls)]
        assert saved(found, *edits) == saved(found, *reversed(edits)) > 0


def test_dropped_kernels_take_their_launches_and_operators_with_them() -> None:
    trace = TraceBuilder()
    trace.step(1, 0, 1_000)
    trace.op("aten::mul", 100, 60)
    trace.launch_kernel("kernel", 128, 2, at=120, call_dur=5)
    trace.op("aten::both", 200, 60)
    trace.launch_kernel("kernel", 218, 2, at=210, call_dur=5)
    trace.launch_kernel("other", 238, 2, at=230, call_dur=5)
    found = model_of(trace)
    assert saved(found, DropEdit(rows(found, "kernel"))) == 60 + 5
