"""Set-up in the first step and in later ones."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers.launches import runtime_calls
from traceanalyzer.analyzers.launches.runtime_calls import RuntimeCalls, SetUp
from traceanalyzer.structure.context import Context

US = 1000


def analyzed(trace: TraceBuilder) -> RuntimeCalls:
    return runtime_calls.analyze(Context(read_built(trace)))


def steps(count: int = 3) -> TraceBuilder:
    trace = TraceBuilder()
    for number in range(count):
        trace.step(number, 10_000 * number, 9_000)
        trace.launch_kernel("k", 10_000 * number + 8_000, 100, at=10_000 * number + 7_990, call_dur=5)
    return trace


def test_calls_of_later_steps_are_counted_apart() -> None:
    trace = steps()
    for start, dur in ((100, 300), (10_100, 200), (10_500, 100), (20_100, 50), (9_500, 100)):
        trace.launch("cudaMalloc", start, dur)  # the last one lies between steps
    (row,) = analyzed(trace).rows
    assert row == SetUp(
        "allocation", "cudaMalloc", False, None, 4, 650 * US, 3, 2, 350 * US, 100 * US, 3, 2, 350 * US, 1, 50 * US
    )


def test_stream_ordered_and_mapped_memory_is_no_set_up() -> None:
    trace = steps()
    for start, name in enumerate(("cudaMallocAsync", "cudaFreeAsync", "cuMemMap", "cuMemCreate")):
        trace.launch(name, 10_100 + start, 1)
    assert analyzed(trace).rows == ()


def test_compiling_within_compiling_counts_once() -> None:
    trace = steps()
    trace.python_function("torch/_dynamo/convert_frame.py(800): _compile", 10_100, 5_000)
    trace.launch("cuModuleLoadData", 11_000, 1_000)
    found = analyzed(trace)
    assert [(row.kind, row.later_ns // US) for row in found.rows] == [("compiling", 5_000), ("loading", 1_000)]
    assert (found.code_ns, found.later_code_ns) == (5_000 * US, 5_000 * US)


def test_slow_launches_are_marked_as_inferred() -> None:
    trace = steps()
    trace.launch("cudaLaunchKernel", 100, 2_000)
    (row,) = analyzed(trace).rows
    assert (row.kind, row.is_inferred, row.calls, row.later_calls) == ("loading", True, 1, 0)


def test_without_devices_a_slow_launch_says_nothing() -> None:
    trace = TraceBuilder()
    trace.step(0, 0, 9_000)
    trace.launch("cudaLaunchKernel", 100, 2_000)
    assert analyzed(trace).rows == ()
