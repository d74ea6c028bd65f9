"""Silence in first calls of operators, in which code is loaded although nothing is recorded of that; microseconds."""

from __future__ import annotations

import re

import pytest

from tests.builders import TraceBuilder
from tests.reading import read_built
from tests.rules.judging import report
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.first_uses import cold_calls, first_uses
from traceanalyzer.structure.recording import analyze

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


def scripted(silences: tuple[int, ...], *, name: str = "forward", layers: int = 6) -> TraceBuilder:
    """Calls of a method: silence before its first operator, then some layers of 1 ms on the device, and a wait."""
    trace, at = TraceBuilder(), 0
    for silent in silences:
        trace.op(name, at, silent + 20 * layers + 10)
        begin, done = at + silent, at + silent
        for layer in range(layers):
            trace.op(f"aten::layer_{layer}", begin + 20 * layer, 15)
            done = max(done, begin + 20 * layer + 10)
            trace.launch_kernel(f"layer_{layer}", done, 1000, at=begin + 20 * layer + 2, call_dur=5)
            done += 1000
        trace.launch("cudaDeviceSynchronize", begin + 20 * layers + 10, done - begin - 20 * layers)
        at = done + 20
    return trace


@pytest.mark.parametrize(
    ("silences", "lengths"),
    [
        ((200_000, 900_000, 30), [200_000, 900_000]),
        ((30, 900_000, 30), [900_000]),
        ((200_000, 30), [200_000]),
        ((30, 30, 900_000, 30, 30), []),
        ((200_000, 3000, 3000), []),
        ((900, 900, 2), []),
    ],
    ids=["both", "second", "first", "later", "always-slow", "short"],
)
def test_the_first_two_calls_of_a_method_compile_it(silences: tuple[int, ...], lengths: list[int]) -> None:
    uses = first_uses(Context(read_built(scripted(silences))))
    assert (uses.dur_ns // 1000).tolist() == lengths


def test_no_operator_of_a_library_is_a_method() -> None:
    assert len(first_uses(Context(read_built(scripted((200_000, 900_000, 30), name="aten::layers"))))) == 0


def test_two_calls_that_compile_are_start_up_and_the_last_one_is_judged() -> None:
    found = report(scripted((200_000, 900_000, 30), layers=30))
    (headline,) = found.headlines
    assert headline.bound == "start-up"
    assert "is in `forward`, which most likely compiles code in its first calls" in headline.text
    assert not any(finding.rule.startswith("launch") for finding in found.findings)


def test_steps_that_compile_do_not_count_though_they_are_most() -> None:
    recording = analyze(Context(read_built(scripted((200_000, 900_000, 30), layers=30))))
    assert [step.reason for step in recording.steps] == ["loading", "loading", None]
    assert recording.typical_step_ns is not None
    assert recording.typical_step_ns < 31_000_000


def test_a_few_long_steps_without_a_sign_of_loading_count() -> None:
    recording = analyze(Context(read_built(scripted((200_000, 900_000, 30), name="aten::layers"))))
    assert "loading" not in [step.reason for step in recording.steps]
