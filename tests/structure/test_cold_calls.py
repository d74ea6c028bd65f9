"""Silence in first calls of operators, in which code is loaded although nothing is recorded of that; microseconds."""

from __future__ import annotations

import re

import pytest

from tests.builders import TraceBuilder
from tests.reading import read_built
from tests.rules.judging import report
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_activity import cold_calls

COLD = 50_000


def convolutions(first: int, *, later: int = 6, launches: bool = True, usual: int = 30) -> TraceBuilder:
    """Calls of a convolution, the first of which is silent for so long before it launches its kernel."""
    trace, at = TraceBuilder(), 0
    for number in range(1 + later):
        silent = usual if number else first
        trace.op("aten::convolution", at, silent + 20)
        trace.op("aten::cudnn_convolution", at + 2, silent + 15)
        if launches:
            trace.launch_kernel("conv", at + silent + 20, 10, at=at + silent + 5, call_dur=5)
        at += silent + 40
    return trace


def found(trace: TraceBuilder) -> list[tuple[int, int]]:
    """Starts and durations in microseconds."""
    calls = cold_calls(Context(read_built(trace)))
    return list(zip((calls.start_ns // 1000).tolist(), (calls.dur_ns // 1000).tolist(), strict=True))


def test_the_silence_of_a_first_call_is_loading() -> None:
    assert found(convolutions(COLD)) == [(2, COLD + 3)]


@pytest.mark.parametrize(
    "trace",
    [
        convolutions(COLD, later=2),
        convolutions(COLD, launches=False),
        convolutions(900, usual=5),
        convolutions(COLD, usual=600),
    ],
    ids=["few-calls", "no-launches", "short", "always-slow"],
)
def test_what_is_no_first_use(trace: TraceBuilder) -> None:
    assert found(trace) == []


def test_a_later_call_that_is_slow_is_no_first_use() -> None:
    trace = convolutions(30)
    trace.op("aten::cudnn_convolution", 1000, COLD)
    trace.launch_kernel("conv", 1000 + COLD, 10, at=COLD + 980, call_dur=5)
    assert found(trace) == []


def test_a_recording_of_a_first_call_is_start_up() -> None:
    (headline,) = report(convolutions(COLD)).headlines
    assert headline.bound == "start-up"
    assert "all 50 ms of loading and compiling code" in headline.message.text


@pytest.mark.parametrize(
    ("calls", "is_cold"),
    [
        ({0: ("cuModuleLoadData", 3000)}, True),
        ({0: ("cudaFuncGetAttributes", 2000), 5: ("cudaLaunchKernel", 2000)}, True),
        ({0: ("cudaMalloc", 3000)}, True),
        ({0: ("cudaFuncGetAttributes", 20)}, False),
    ],
    ids=["module", "functions", "memory", "warm"],
)
def test_calls_of_the_driver_show_a_cold_pass(calls: dict[int, tuple[str, int]], is_cold: bool) -> None:
    """A pass of twenty unlike layers, each with a kernel of 100 us; nothing in it repeats."""
    trace, at = TraceBuilder(), 0
    for number in range(20):
        name, length = calls.get(number, ("", 0))
        trace.op(f"aten::layer_{number}", at, length + 130)
        if name:
            trace.launch(name, at + 2, length)
        trace.launch_kernel(f"kernel_{number}", at + length + 20, 100, at=at + length + 10, call_dur=5)
        at += length + 135
    trace.launch("cudaDeviceSynchronize", at, 20)
    (headline,) = report(trace).headlines
    assert bool(re.search("start-up|one cold pass", headline.text)) == is_cold
