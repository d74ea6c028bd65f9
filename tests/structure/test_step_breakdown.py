"""Every nanosecond of a step belongs to one part. Times are microseconds in the traces, nanoseconds in results."""

from __future__ import annotations

import pytest

from tests.builders import OLD, TraceBuilder
from tests.reading import read_built
from traceanalyzer.structure import step_breakdown
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.step_breakdown import PARTS, Step, StepBreakdown

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def breakdown(trace: TraceBuilder) -> StepBreakdown:
    return step_breakdown.analyze(Context(read_built(trace)))


def parts(step: Step) -> dict[str, int]:
    """Parts in microseconds, without those that are 0."""
    exact = {part: getattr(step, f"{part}_ns") for part in PARTS}
    assert sum(exact.values()) == step.duration_ns
    return {part: value // 1000 for part, value in exact.items() if value}


def one_step(length: int = 100) -> TraceBuilder:
    trace = TraceBuilder()
    trace.step(7, 0, length)
    return trace


def test_parts_hide_each_other_in_their_order() -> None:
    trace = one_step()
    trace.kernel("k", 10, 20)
    trace.memcpy("HtoD", 4096, 20, 20)
    trace.memset(64, 35, 15)
    trace.kernel(NCCL, 45, 15, stream=24)
    trace.launch("cudaStreamSynchronize", 55, 15)
    trace.annotation(LOADER, 65, 15)
    trace.op("aten::mm", 75, 15)
    found = breakdown(trace)
    assert parts(found.steps[0]) == {
        "kernel": 20,
        "memcpy": 10,
        "memset": 10,
        "communication": 10,
        "runtime": 10,
        "dataloader": 10,
        "cpu_exec": 10,
        "other": 20,
    }
    assert (found.steps[0].name, found.steps[0].start_ns, found.steps[0].duration_ns) == ("7", 0, 100_000)
    assert found.window is not None
    assert (found.window.start_ns, found.window.end_ns) == (0, 100_000)


def test_the_same_time_counts_once() -> None:
    trace = one_step()
    trace.kernel("a", 10, 30)
    trace.kernel("b", 20, 30, stream=8)
    trace.kernel("a", 10, 30, device=1)
    assert parts(breakdown(trace).steps[0]) == {"kernel": 40, "other": 60}


def test_a_step_filled_by_kernels_has_nothing_else() -> None:
    """The TensorBoard plugin counted the rest a second time here."""
    trace = one_step()
    trace.kernel("k", 0, 100)
    trace.memcpy("HtoD", 4096, 20, 20)
    trace.op("aten::mm", 0, 100)
    assert parts(breakdown(trace).steps[0]) == {"kernel": 100}


def test_work_outside_of_steps_counts_nowhere() -> None:
    trace = TraceBuilder()
    trace.op("aten::before", 0, 100)
    trace.step(1, 100, 100)
    trace.op("aten::after", 200, 50)
    trace.op("aten::across", 190, 30, tid=5)
    assert parts(breakdown(trace).steps[0]) == {"cpu_exec": 10, "other": 90}


@pytest.mark.parametrize(
    ("name", "args", "part"),
    [
        (NCCL, {}, "communication"),
        ("some_kernel", {"Collective name": "allreduce"}, "communication"),
        ("some_kernel", {}, "kernel"),
    ],
)
def test_kernels_communicate_by_name_or_metadata(name: str, args: dict[str, object], part: str) -> None:
    trace = one_step()
    trace.kernel(name, 10, 30, args=args)
    assert parts(breakdown(trace).steps[0]) == {part: 30, "other": 70}


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("nccl:all_reduce", "communication"),
        ("gloo:reduce_scatter", "communication"),
        ("nccl:all_to_all", "cpu_exec"),
        ("my range", "cpu_exec"),
        ("Optimizer.step#SGD.step", "cpu_exec"),
        (LOADER, "dataloader"),
        ("enumerate(DataPipe)#Batcher", "dataloader"),
        ("enumerate(DataLoader)#_Iter.__init__", "cpu_exec"),
    ],
)
def test_host_ranges_by_their_names(name: str, part: str) -> None:
    trace = one_step()
    trace.annotation(name, 10, 30)
    assert parts(breakdown(trace).steps[0]) == {part: 30, "other": 70}


def test_the_operator_around_a_collective_is_not_communication() -> None:
    """The kernel's own name decides whether it is a collective, not the operator that launched it."""
    trace = one_step()
    trace.collective("all_reduce", 40, 20, at=10, nelems=1024, host_dur=10, annotation=False)
    found = parts(breakdown(trace).steps[0])
    assert found == {"communication": 20, "runtime": 5, "cpu_exec": 5, "other": 70}


def test_projections_frames_and_steps_do_not_count() -> None:
    trace = one_step()
    trace.gpu_annotation("my range", 10, 50, external_id=9)
    trace.python_function("train.py(3): main", 10, 50)
    trace.module("Linear_0", 10, 50)
    assert parts(breakdown(trace).steps[0]) == {"other": 100}


@pytest.mark.parametrize("call", ["cudaLaunchKernel", "cuLaunchKernelEx", "hipLaunchKernel", "urQueueFinish"])
def test_calls_of_all_back_ends_are_runtime(call: str) -> None:
    trace = one_step()
    trace.launch(call, 10, 30)
    assert parts(breakdown(trace).steps[0]) == {"runtime": 30, "other": 70}


def test_python_events_of_old_writers_are_work_of_the_cpu() -> None:
    trace = TraceBuilder(OLD)
    trace.step(1, 0, 100)
    trace.python_function("train.py(3): main", 10, 30)
    assert parts(breakdown(trace).steps[0]) == {"cpu_exec": 30, "other": 70}


def test_several_steps_mean_and_median() -> None:
    trace = TraceBuilder()
    for number, (start, length) in enumerate([(0, 100), (100, 100), (200, 400)]):
        trace.step(number, start, length)
    trace.annotation(LOADER, 50, 100)
    trace.annotation(LOADER, 250, 60)
    trace.kernel("k", 260, 30)
    found = breakdown(trace)
    assert [parts(step) for step in found.steps] == [
        {"dataloader": 50, "other": 50},
        {"dataloader": 50, "other": 50},
        {"kernel": 30, "dataloader": 30, "other": 340},
    ]
    assert [step.dataloader_full_ns for step in found.steps] == [50_000, 50_000, 60_000]
    assert found.average is not None
    assert found.average.duration_ns == 200_000
    assert found.average.kernel_ns == 10_000
    assert found.average.dataloader_ns == pytest.approx(130_000 / 3)
    assert found.average.dataloader_full_ns == pytest.approx(160_000 / 3)
    assert found.median_duration_ns == 100_000
    assert found.dataloader_share == pytest.approx(130 / 600)
    assert found.dataloader_full_share == pytest.approx(160 / 600)


def test_inferred_steps_are_divided_in_the_same_way() -> None:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 400)
    for start in (100, 200):
        trace.annotation("Optimizer.step#SGD.step", start, 10)
    trace.kernel("k", 150, 100)
    found = breakdown(trace)
    assert found.inferred is not None
    assert found.inferred.steps_from == "Optimizer.step"
    assert [parts(step) for step in found.inferred.steps] == [
        {"kernel": 50, "cpu_exec": 50},
        {"kernel": 50, "cpu_exec": 150},
    ]
    assert found.inferred.median_duration_ns == 150_000
    assert parts(found.steps[0]) == {"kernel": 100, "cpu_exec": 300}


def test_a_step_without_length() -> None:
    trace = TraceBuilder()
    trace.step(1, 0, 0)
    found = breakdown(trace)
    assert parts(found.steps[0]) == {}
    assert found.dataloader_share is None
