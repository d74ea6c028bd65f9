"""Why a GPU did nothing, on traces small enough to work out by hand."""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers import idle
from traceanalyzer.analyzers.idle import DeviceIdle
from traceanalyzer.structure.context import Context

LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
US = 1000


def only(trace: TraceBuilder) -> DeviceIdle:
    (device,) = idle.analyze(Context(read_built(trace))).devices
    assert sum(cause.time_ns for cause in device.causes) == device.idle_ns
    return device


def causes(trace: TraceBuilder) -> dict[str, int]:
    """Microseconds by cause; none of the causes without time."""
    return {cause.cause: cause.time_ns // US for cause in only(trace).causes if cause.time_ns}


def step(number: int = 1, length: int = 200) -> TraceBuilder:
    """A step from 0 on in which a kernel, launched at 0, runs from 5 to 20 us."""
    trace = TraceBuilder()
    trace.step(number, 0, length)
    trace.launch_kernel("first", 5, 15, at=0)
    return trace


def test_idle_is_the_window_without_kernels_copies_and_fills() -> None:
    trace = step()
    trace.memcpy("HtoD", 64, 30, 10)
    trace.memset(64, 40, 20, stream=8)
    trace.kernel("late", 190, 40)
    found = only(trace)
    assert (found.window_ns, found.busy_ns, found.idle_ns) == (200 * US, 55 * US, 145 * US)
    assert found.idle_share == 145 / 200
    assert found.gaps == 3
    assert sum(cause.share or 0 for cause in found.causes) == pytest.approx(1)


def test_a_loader_wait_is_charged_where_nothing_was_queued() -> None:
    trace = step()
    trace.annotation(LOADER, 10, 80)
    trace.launch_kernel("second", 104, 96, at=95, call_dur=5)
    # From 0 the first launch call; 20 to 90 in the loader, 90 to 95 elsewhere, 95 to 104 launching.
    assert causes(trace) == {"dataloader": 70, "launch_bound": 14, "host_code": 5}


def test_a_loader_wait_costs_nothing_while_work_is_queued() -> None:
    trace = step()
    trace.annotation(LOADER, 15, 180)
    trace.launch_kernel("second", 25, 175, at=6, call_dur=5)
    assert causes(trace) == {"launch_bound": 5, "device_gap": 5}


def test_a_long_pause_before_a_queued_kernel_is_pending() -> None:
    trace = step()
    trace.launch_kernel("second", 50, 150, at=6, call_dur=5)
    assert causes(trace) == {"launch_bound": 5, "pending": 30}


def test_what_was_launched_in_a_gap_and_starts_long_afterwards_is_pending() -> None:
    trace = step()
    trace.launch_kernel("second", 100, 100, at=40, call_dur=5)
    # 20 to 40 nothing, 40 to 45 the call; then 55 us in which the host is not what the device waits for
    assert causes(trace) == {"launch_bound": 5 + 5, "host_code": 20, "pending": 55}


@pytest.mark.parametrize(("start", "wanted"), [(74, {"launch_bound": 39}), (75, {"launch_bound": 10, "pending": 30})])
def test_the_way_to_the_device_takes_less_than_30_us(start: int, wanted: dict[str, int]) -> None:
    trace = step()
    trace.launch_kernel("second", start, 200 - start, at=40, call_dur=5)
    assert causes(trace) == wanted | {"host_code": 20}


def test_a_launch_call_that_is_still_open_has_not_queued_its_kernel() -> None:
    trace = step()
    trace.launch_kernel("second", 30, 170, at=18, call_dur=3)
    assert causes(trace) == {"launch_bound": 15}


def test_operators_and_calls_are_launch_bound_and_the_rest_is_host_code() -> None:
    trace = step()
    trace.op("aten::view", 30, 10)
    trace.annotation("my range", 40, 20)
    trace.launch("cudaEventRecord", 45, 5)
    trace.launch_kernel("second", 70, 130, at=60, call_dur=5)
    # 20 to 30 nothing; 30 to 40 operator; 40 to 60 only a range, with a call of 5; from 60 the launch.
    assert causes(trace) == {"launch_bound": 5 + 10 + 5 + 10, "host_code": 10 + 15}


def test_a_wait_that_is_open_when_the_gpu_goes_idle_drained_the_queue() -> None:
    trace = step()
    trace.launch("cudaStreamSynchronize", 8, 14)
    trace.op("aten::view", 30, 10)
    trace.launch_kernel("second", 60, 140, at=50, call_dur=5)
    # 20 to 22 the wait; 30 to 40 operator and 50 to 60 launch follow it; else no call is open
    assert causes(trace) == {"launch_bound": 5, "synchronization": 2 + 10 + 10, "host_code": 8 + 10}


def test_a_wait_that_ends_as_the_gpu_goes_idle_drained_the_queue() -> None:
    trace = step()
    trace.launch("cudaStreamSynchronize", 8, 12)
    trace.launch_kernel("second", 60, 140, at=50, call_dur=5)
    assert causes(trace) == {"launch_bound": 5, "synchronization": 10, "host_code": 30}


def test_a_wait_for_an_idle_gpu_drains_nothing_but_takes_time() -> None:
    trace = step()
    trace.launch("cudaDeviceSynchronize", 25, 5)
    trace.launch_kernel("second", 60, 140, at=50, call_dur=5)
    assert causes(trace) == {"launch_bound": 15, "synchronization": 5, "host_code": 25}


def test_a_long_operator_without_calls_computes_on_the_cpu_whatever_emptied_the_queue() -> None:
    trace = step(length=500)
    trace.launch("cudaStreamSynchronize", 10, 15)
    trace.op("aten::sort", 30, 300)
    trace.op("aten::to", 335, 10)
    trace.op("aten::empty", 350, 2)
    trace.launch_kernel("second", 404, 96, at=395, call_dur=5)
    # 20 to 25 in the wait, 30 to 330 in the sort; the short operators and the launch come after the wait.
    assert causes(trace) == {"launch_bound": 5, "cpu_operators": 300, "synchronization": 26, "host_code": 58}


def test_an_operator_with_a_call_inside_or_of_less_than_200_us_computes_nothing_on_the_cpu() -> None:
    for inside, dur in ((True, 300), (False, 199)):
        trace = step(length=500)
        trace.op("aten::nonzero", 30, dur)
        if inside:
            trace.launch("cudaMemsetAsync", 40, 3)
        trace.launch_kernel("second", 404, 96, at=395, call_dur=5)
        assert "cpu_operators" not in causes(trace)


def test_a_loader_explains_idle_time_that_a_wait_began() -> None:
    trace = step()
    trace.launch("cudaStreamSynchronize", 8, 14)
    trace.annotation(LOADER, 25, 20)
    trace.launch_kernel("second", 60, 140, at=50, call_dur=5)
    assert causes(trace) == {"launch_bound": 5, "dataloader": 20, "synchronization": 2 + 10, "host_code": 3 + 5}


def test_a_blocking_copy_drains_the_queue() -> None:
    trace = step()
    trace.memcpy("DtoH", 4, 20, 5, at=6, call_dur=24)
    trace.launch_kernel("second", 60, 140, at=50, call_dur=5)
    assert causes(trace) == {"launch_bound": 5, "synchronization": 5 + 10, "host_code": 20}


def test_cuda_free_waits_for_the_device_and_cuda_malloc_does_not() -> None:
    for call, wanted in (
        ("cudaFree", {"allocation": 5 + 10, "host_code": 25, "launch_bound": 5}),
        ("cudaMalloc", {"allocation": 5, "host_code": 25, "launch_bound": 15}),
    ):
        trace = step()
        trace.launch(call, 15, 10)
        trace.launch_kernel("second", 60, 140, at=50, call_dur=5)
        assert causes(trace) == wanted


@pytest.mark.parametrize("name", ["nccl:_all_gather_base", "c10d::allreduce_", "gloo:all_reduce", "record_param_comms"])
def test_a_host_that_is_in_a_collective_waits_for_communication(name: str) -> None:
    trace = step()
    trace.op(name, 20, 30)
    trace.launch("cudaStreamSynchronize", 25, 5)
    trace.launch_kernel("second", 60, 140, at=50, call_dur=5)
    assert causes(trace) == {"communication": 30, "launch_bound": 15}


def test_loading_and_compiling_is_compilation() -> None:
    trace = step()
    trace.launch("cuModuleLoadData", 20, 10)
    trace.annotation("compile_fx_inner (dynamo_timed)", 30, 10)
    trace.python_function("torch/_inductor/compile_fx.py(700): compile_fx", 40, 10)
    trace.add("overhead", "Lazy Function Loading", (50, 10), (-1, 0), {})
    trace.annotation("Torch-Compiled Region: 0/0", 60, 10)  # runs what was compiled
    trace.launch_kernel("second", 80, 120, at=70, call_dur=5)
    assert causes(trace) == {"compilation": 40, "host_code": 10, "launch_bound": 15}


def test_a_call_of_a_millisecond_loads_code() -> None:
    trace = step(length=3000)
    trace.launch_kernel("second", 1100, 1900, at=30, call_dur=1000)
    # 20 to 30 nothing, 30 to 1030 within the call, then 70 us until the device starts; the first launch takes 5.
    assert causes(trace) == {"compilation": 1000, "host_code": 10, "launch_bound": 5, "pending": 70}


def test_the_profiler_is_charged_for_its_own_overhead() -> None:
    trace = step()
    trace.launch("cudaStreamSynchronize", 8, 20)
    trace.add("overhead", "Buffer Flush", (30, 10), (-1, 0), {})
    trace.launch_kernel("second", 60, 140, at=50, call_dur=5)
    assert causes(trace) == {"launch_bound": 5, "profiler_overhead": 10, "synchronization": 8 + 10, "host_code": 2 + 10}


def test_other_launching_threads_count_where_the_responsible_one_does_nothing() -> None:
    trace = step()
    trace.op("aten::forward", 20, 40, tid=4201)
    trace.annotation(LOADER, 45, 10, tid=4201)
    trace.op("backward", 40, 20, tid=7)
    trace.annotation(LOADER, 20, 60, tid=8)  # of a thread that launches nothing
    trace.launch_kernel("second", 75, 125, at=65, call_dur=5, tid=7)
    # Thread 7 is in an operator from 40 to 60, so the loader of the other thread does not explain that time.
    assert causes(trace) == {"launch_bound": 5 + 20 + 20 + 10, "host_code": 5}


def test_only_the_first_kernel_of_a_graph_can_come_late() -> None:
    trace = step()
    kernels = [("a", 60, 10, {}), ("b", 75, 10, {}), ("c", 90, 110, {})]
    trace.graph_launch(50, 60, kernels)  # type: ignore[arg-type]
    assert causes(trace) == {"launch_bound": 5 + 10, "host_code": 30, "device_gap": 10}


def test_a_kernel_without_launch_leaves_unknown_what_nothing_explains() -> None:
    trace = step()
    trace.annotation(LOADER, 30, 10)
    trace.op("aten::view", 40, 5)
    trace.kernel("second", 60, 140)
    assert causes(trace) == {"launch_bound": 5, "dataloader": 10, "unknown": 30}


def test_after_the_last_event_all_launching_threads_count() -> None:
    trace = step()
    trace.op("aten::view", 100, 40)
    assert causes(trace) == {"launch_bound": 5 + 40, "host_code": 140}


def test_a_wait_drains_no_queue_that_nothing_refills() -> None:
    trace = step()
    trace.launch("cudaDeviceSynchronize", 10, 20)
    assert causes(trace) == {"launch_bound": 5, "synchronization": 10, "host_code": 170}


def test_without_host_events_nothing_is_known() -> None:
    trace = TraceBuilder()
    trace.kernel("a", 0, 10)
    trace.kernel("b", 15, 10)
    assert causes(trace) == {"unknown": 5}


def test_a_gap_counts_only_within_the_window() -> None:
    trace = TraceBuilder()
    trace.launch_kernel("before", 10, 10, at=0)
    trace.annotation(LOADER, 20, 70)
    trace.step(1, 50, 100)
    trace.launch_kernel("after", 100, 100, at=95, call_dur=2)
    # The window begins at 50: 40 in the loader, 5 outside, 5 launching.
    assert causes(trace) == {"dataloader": 40, "host_code": 5, "launch_bound": 5}


def test_devices_are_told_apart() -> None:
    trace = step()
    trace.launch_kernel("second", 30, 170, at=21, call_dur=2, device=1)
    found = idle.analyze(Context(read_built(trace))).devices
    assert [(device.device, device.idle_ns // US) for device in found] == [(0, 185), (1, 30)]


def test_gaps_are_counted_by_cause() -> None:
    trace = step()
    trace.annotation(LOADER, 20, 20)
    trace.launch_kernel("second", 50, 20, at=45, call_dur=2)
    trace.annotation(LOADER, 70, 20)
    trace.launch_kernel("third", 100, 100, at=95, call_dur=2)
    counted = {cause.cause: cause.gaps for cause in only(trace).causes}
    assert (counted["dataloader"], counted["launch_bound"], counted["host_code"], counted["unknown"]) == (2, 3, 2, 0)
    assert tuple(counted) == idle.CAUSES


def test_no_kernel_and_no_window_are_reasons_to_skip() -> None:
    trace = TraceBuilder()
    trace.step(1, 0, 10)
    trace.memcpy("HtoD", 64, 0, 5)
    skipped = idle.ANALYSES[0].missing(Context(read_built(trace)))
    assert skipped is not None
    assert skipped.id == "skip-idle-no-kernels"
    trace = TraceBuilder()
    trace.kernel("k", 0, 0)
    context = Context(read_built(trace))
    skipped = idle.ANALYSES[0].missing(context)
    assert skipped is not None
    assert skipped.id == "skip-idle-no-window"
    assert idle.analyze(context).devices == ()
    assert idle.ANALYSES[0].missing(Context(read_built(step()))) is None
