"""Doubts: one trace that is above suspicion, and one for each suspicion."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.builders import A100, Device, TraceBuilder, distributed_info
from tests.builders.damage import clean
from tests.reading import read, read_built
from traceanalyzer.analyzers.steps import trace_doubts
from traceanalyzer.report.warnings import warning
from traceanalyzer.structure.context import Context


def sound(steps: int = 4, first: int = 100, **options: object) -> TraceBuilder:
    """Steps of 100 us, each with an operator that launches a kernel."""
    trace = TraceBuilder(options=("record_shapes",), **options)  # type: ignore[arg-type]
    start = 0
    for number in range(steps):
        dur = first if number == 0 else 100
        trace.step(number, start, dur)
        trace.op("aten::mm", start + 10, 50, shapes=[[8, 8], [8, 8]], types=["float", "float"])
        trace.launch_kernel("gemm", start + 40, 30, at=start + 20)
        start += dur
    return trace


def doubts(trace: TraceBuilder) -> dict[str, int]:
    return {doubt.id: doubt.count for doubt in trace_doubts.analyze(Context(read_built(trace)))}


def test_a_sound_trace_raises_no_doubt() -> None:
    assert doubts(sound()) == {}


def unmarked(*devices: Device) -> TraceBuilder:
    trace = TraceBuilder(devices=devices)
    trace.op("aten::mm", 10, 50, shapes=[[8, 8]], types=["float"])
    return trace


def launches_only() -> TraceBuilder:
    silent = TraceBuilder(options=("record_shapes",))
    for number in range(3):
        silent.step(number, number * 100, 100)
        silent.op("aten::mm", number * 100 + 10, 50, shapes=[[8, 8]], types=["float"])
        silent.launch("cudaLaunchKernel", number * 100 + 20, 5)
    return silent


def with_own_work(dur: int = 10) -> TraceBuilder:
    """The profiler asks for a buffer; the typical steps take 500 in all."""
    trace = sound()
    trace.add("overhead", "Activity Buffer Request", (30, dur), (-1, 0), {})
    trace.add("overhead", "Lazy Function Loading", (60, 90), (-1, 0), {})
    return trace


def with_stack() -> TraceBuilder:
    trace = sound()
    trace.options = ("record_shapes", "with_stack")
    trace.python_function("train.py(1): <module>", 0, 400)
    return trace


def overlapping() -> TraceBuilder:
    trace = sound()
    trace.op("aten::a", 72, 10, shapes=[[8]], types=["float"])
    trace.op("aten::b", 78, 10, shapes=[[8]], types=["float"])
    return trace


def early_kernel() -> TraceBuilder:
    trace = sound()
    trace.launch_kernel("gemm", 310, 1, at=320)
    return trace


def homeless_kernels() -> TraceBuilder:
    trace = sound()
    trace.kernel("gemm", 150, 20, correlation=999_999)
    return trace


def graphs() -> TraceBuilder:
    trace = sound()
    trace.graph_launch(320, 5, [("gemm", 330 + i, 1, {}) for i in range(5)])
    return trace


def without_shapes() -> TraceBuilder:
    trace = TraceBuilder()
    for number in range(3):
        trace.step(number, number * 100, 100)
        trace.op("aten::mm", number * 100 + 10, 50)
    return trace


def cut_at_the_end() -> TraceBuilder:
    trace = sound()
    trace.step(4, 400, 100)
    for step in range(4):
        for extra in range(9):
            trace.launch_kernel("relu", step * 100 + 80 + extra, 1, at=step * 100 + 61 + extra, call_dur=1)
    trace.launch_kernel("gemm", 430, 10, at=410)
    return trace


def unlike(first: int = 100) -> TraceBuilder:
    """Three steps of which no two are alike."""
    trace, start = TraceBuilder(), 0
    for number, length in enumerate((first, 150, 200)):
        trace.step(number, start, length)
        trace.launch_kernel("gemm", start + 40, length - 50, at=start + 20)
        start += length
    return trace


def annotated() -> TraceBuilder:
    trace = TraceBuilder()
    for number in range(4):
        trace.annotation("train_step", 100 * number, 100)
        trace.op("aten::mm", 100 * number + 10, 50, shapes=[[8, 8]], types=["float"])
        trace.launch_kernel("gemm", 100 * number + 40, 30, at=100 * number + 20)
    return trace


def begun_late() -> TraceBuilder:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 20, shapes=[[8, 8]], types=["float"])
    trace.launch_kernel("gemm", 5000, 100, at=10)
    return trace


def removed() -> TraceBuilder:
    """Half of a recording is empty, although the runtime made 500 calls in it."""
    trace = sound()
    for number in range(80):
        start, ident = 8000 + 50 * number, 1500 + number
        trace.op("aten::mm", start, 50, shapes=[[8, 8]], types=["float"])
        trace.launch("cudaLaunchKernel", start + 10, 5, correlation=ident)
        trace.kernel("gemm", start + 20, 30, correlation=ident)
    return trace


def device_alone() -> TraceBuilder:
    """Kernels with their launches, and no operators, as `activities=[ProfilerActivity.CUDA]` records."""
    trace = TraceBuilder()
    for start in (0, 100, 200):
        trace.launch_kernel("gemm", start + 20, 50, at=start)
    return trace


def counters() -> TraceBuilder:
    trace = sound()
    trace.add("cuda_profiler_range", "smsp__inst_executed", (10, 20), (0, 7), {})
    return trace


def without_its_gpu() -> TraceBuilder:
    """Ranges of NCCL, and no other sign of a GPU."""
    trace = TraceBuilder(devices=())
    trace.step(0, 0, 1000)
    trace.op("aten::mm", 10, 50, shapes=[[8, 8]], types=["float"])
    trace.annotation("nccl:all_to_all", 100, 300)
    return trace


def test_counters_explain_why_there_are_no_kernels() -> None:
    trace = launches_only()
    trace.add("cuda_profiler_range", "smsp__inst_executed", (10, 20), (0, 7), {})
    found = doubts(trace)
    assert "q-hardware-counters" in found
    assert not {"q-no-gpu-events", "q-gpu-not-recorded"} & found.keys()


@pytest.mark.parametrize(
    ("doubt", "make", "count"),
    [
        ("q-no-steps", unmarked, 1),
        ("q-one-step", lambda: unmarked(A100), 1),
        ("q-few-steps", lambda: sound(steps=2), 2),
        ("q-warmup-included", lambda: unlike(first=263), 1),
        ("q-steps-inferred", annotated, 4),
        ("q-steps-left-out", lambda: sound(first=151), 1),
        ("q-unlike-steps-count", unlike, 2),
        ("q-unrecorded-work", begun_late, 1),
        ("q-removed-events", removed, 1),
        ("q-hardware-counters", counters, 1),
        ("q-last-step-cut", cut_at_the_end, 1),
        ("q-no-gpu-events", launches_only, 3),
        ("q-gpu-not-recorded", without_its_gpu, 1),
        ("q-shapes-missing", without_shapes, 1),
        ("q-stack-overhead", with_stack, 1),
        ("q-profiler-work", with_own_work, 1),
        ("q-overlapping-slices", overlapping, 1),
        ("q-clock-anomaly", early_kernel, 1),
        ("q-unattributed", homeless_kernels, 1),
        ("q-only-device-recorded", device_alone, 3),
        ("q-graph-opaque", graphs, 5),
        ("q-single-rank-of-many", lambda: sound(distributed=distributed_info(0, 8)), 1),
    ],
)
def test_each_doubt_has_a_trace_that_raises_it(doubt: str, make: Callable[[], TraceBuilder], count: int) -> None:
    assert doubts(make()).get(doubt) == count


def test_a_first_step_of_half_again_the_others_is_no_warm_up() -> None:
    assert "q-warmup-included" not in doubts(unlike(first=262))


def test_a_first_step_that_is_long_as_later_ones_is_no_warm_up() -> None:
    """Each fourth step waits for a loader that works in bursts."""
    trace, start = TraceBuilder(), 0
    for number in range(12):
        wait = 0 if number % 4 else 500
        trace.step(number, start, 150 + wait)
        trace.annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", start, wait + 10)
        trace.launch_kernel("gemm", start + wait + 40, 100, at=start + wait + 20)
        start += 150 + wait
    assert "q-warmup-included" not in doubts(trace)


def test_a_first_step_that_is_left_out_is_no_warm_up_of_the_mean() -> None:
    assert doubts(sound(first=151)) == {"q-steps-left-out": 1}


def test_little_work_of_the_profiler_is_no_doubt() -> None:
    assert "q-profiler-work" not in doubts(with_own_work(1))


def test_one_rank_alone_is_the_whole_run() -> None:
    assert "q-single-rank-of-many" not in doubts(sound(distributed=distributed_info(0, 1)))


def test_a_cut_and_a_repaired_file_raise_doubts() -> None:
    data = clean().to_bytes()
    cut = read(data[: len(data) * 2 // 3])
    assert "q-truncated-file" in {doubt.id for doubt in trace_doubts.analyze(Context(cut))}
    repaired = read(data.replace(b"aten::relu", b"aten::\nrelu"))
    assert {d.id: d.count for d in trace_doubts.analyze(Context(repaired))}["q-repaired-json"] == 1


@pytest.mark.parametrize(
    "make",
    [
        unmarked,
        lambda: unmarked(A100),
        lambda: sound(first=151),
        launches_only,
        with_stack,
        overlapping,
        graphs,
        homeless_kernels,
        cut_at_the_end,
        annotated,
        unlike,
        begun_late,
        removed,
        counters,
    ],
)
def test_every_doubt_has_words(make: Callable[[], TraceBuilder]) -> None:
    doubts = trace_doubts.analyze(Context(read_built(make())))
    assert doubts
    for doubt in doubts:
        assert warning(doubt.id, doubt.count, doubt.params).message.text
