"""Runs of kernels that another process on the GPU makes longer, and those that are longer for other reasons."""

from __future__ import annotations

from collections.abc import Callable

from tests.builders import TraceBuilder
from tests.reading import read_built
from tests.rules.judging import findings, said
from traceanalyzer.analyzers.kernels.stretched_kernels import ANALYSES, StretchedKernel, analyze
from traceanalyzer.structure.context import Context

NAMES = ("gemm", "relu", "softmax", "layer_norm", "add", "gelu")


def sliced(is_longer: Callable[[int, int], bool], steps: int = 6, rounds: int = 10) -> TraceBuilder:
    """Steps of kernels of 100 us; some runs, by their number and that of their name, take 2 ms more."""
    trace, at, number = TraceBuilder(), 0, 0
    for step in range(steps):
        begin = at
        for _ in range(rounds):
            for kind, name in enumerate(NAMES):
                length = 2100 if is_longer(number, kind) else 100
                trace.launch_kernel(name, at + 10, length, at=at, call_dur=5)
                at += length + 10
                number += 1
        trace.step(step, begin, at - begin)
    return trace


def in_turns(number: int, _: int) -> bool:
    """Every seventh run, whichever kernel it is."""
    return number % 7 == 3


def one_kernel(number: int, kind: int) -> bool:
    """One kernel that sometimes has more to do."""
    return kind == 2 and number % 5 == 2


def test_the_time_beyond_the_median_of_the_same_kernel_is_added_up() -> None:
    found = analyze(Context(read_built(sliced(in_turns))))
    assert (found.judged, found.stretched, found.names, found.parts) == (354, 50, 6, 10)
    assert (found.beyond_ns, found.median_beyond_ns) == (50 * 2_000_000, 2_000_000)
    assert found.longest[0] == StretchedKernel("add", 3_110_000, 2_100_000, 100_000)


def test_many_kernels_that_take_longer_now_and_then_are_another_process() -> None:
    (found,) = findings(sliced(in_turns), "gpu-shared")
    assert found.severity == "critical"
    assert "50 runs of 6 different kernels take 2.0 ms longer than the same kernels" in found.summary.text
    assert (
        "Most likely another process uses this GPU for 17 of the 24 ms: 50 runs of 6 kernels take 2.0 ms longer "
        "than elsewhere."
    ) in said(sliced(in_turns))


def test_one_kernel_with_other_data_and_a_warm_up_are_none() -> None:
    assert findings(sliced(one_kernel), "gpu-shared") == []
    assert findings(sliced(lambda number, _: number < 60 and number % 3 == 1), "gpu-shared") == []


def test_kernels_of_the_same_length_are_not_listed() -> None:
    reason = ANALYSES[0].missing(Context(read_built(sliced(lambda *_: False))))
    assert reason is not None
    assert reason.id == "skip-no-stretched-kernels"
