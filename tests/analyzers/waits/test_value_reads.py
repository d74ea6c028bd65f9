"""Runs of readings, and for how long no device works in them; times in microseconds."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.builders import TraceBuilder
from tests.reading import read_built
from tests.rules.judging import report
from traceanalyzer.analyzers.waits import value_reads
from traceanalyzer.analyzers.waits.value_reads import ValueReads
from traceanalyzer.structure.context import Context

US = 1000
READING = [("aten::item", 100), ("aten::item", 120), ("aten::item", 140)]
"""Three values are read one after another, from 100 to 150 of a step."""
PRINTING = [("aten::isfinite", 500), ("aten::masked_select", 520), *(("aten::item", at) for at in (540, 560, 580))]
"""A tensor of three numbers is printed, from 500 to 590 of a step."""

Kernel = tuple[int, int, int, int]
"""Device, stream, start in its step, duration."""


def program(operators: Sequence[tuple[str, int]], kernels: Sequence[Kernel] = (), *, gpu: bool = True) -> TraceBuilder:
    """Three steps of 1000 with operators of 10 and kernels; `gpu`: a kernel runs before the first step."""
    trace = TraceBuilder()
    if gpu:
        trace.launch_kernel("before", 20, 10, at=10)
    for begin in (1000, 2000, 3000):
        trace.step(begin // 1000, begin, 1000)
        for name, start in operators:
            trace.op(name, begin + start, 10)
        for device, stream, start, dur in kernels:
            trace.launch_kernel("kernel", begin + start, dur, at=begin + start - 8, device=device, stream=stream)
    return trace


def analyzed(trace: TraceBuilder) -> ValueReads:
    return value_reads.analyze(Context(read_built(trace)))


def test_where_no_device_works_in_a_run_all_of_it_is_idle() -> None:
    found = analyzed(program(READING, [(0, 7, 300, 500)]))
    assert (found.steps, found.readings, found.time_ns) == (3, 9, 3 * 50 * US)
    assert found.idle_ns == 3 * 50 * US
    assert found.printing_idle_ns == 0, "nothing is printed"


def test_what_a_device_does_within_a_run_is_not_idle() -> None:
    """A kernel ends 5 after the run has begun, one of 8 lies within it, one begins 3 before its end."""
    found = analyzed(program(READING, [(0, 7, 60, 45), (0, 7, 112, 8), (0, 7, 147, 90)]))
    assert found.time_ns == 3 * 50 * US
    assert found.idle_ns == 3 * (50 - 5 - 8 - 3) * US


def test_all_streams_and_devices_count_together() -> None:
    """Three kernels of 10 that overlap run from 110 to 128."""
    found = analyzed(program(READING, [(0, 7, 110, 10), (0, 9, 115, 10), (1, 7, 118, 10)]))
    assert found.idle_ns == 3 * (50 - 18) * US


def test_a_device_that_works_all_the_time_leaves_nothing_idle() -> None:
    found = analyzed(program(READING, [(0, 7, 90, 800)]))
    assert (found.time_ns, found.idle_ns) == (3 * 50 * US, 0)


def test_runs_that_print_are_counted_apart() -> None:
    found = analyzed(program([*READING, *PRINTING], [(0, 7, 130, 5), (0, 7, 510, 20), (0, 7, 700, 50)]))
    assert (found.time_ns, found.idle_ns) == (3 * 50 * US, 3 * 45 * US)
    assert (found.prints, found.printing_ns, found.printing_idle_ns) == (3, 3 * 90 * US, 3 * 70 * US)


def test_without_a_device_it_is_unknown() -> None:
    found = analyzed(program([*READING, *PRINTING], gpu=False))
    assert (found.time_ns, found.printing_ns) == (3 * 50 * US, 3 * 90 * US)
    assert (found.idle_ns, found.printing_idle_ns) == (None, None)


def test_the_line_of_a_run_is_the_one_that_takes_most_of_it() -> None:
    """A run begins with the loss, read at the end of one function, and goes on in another for 40 of its 50."""
    trace = program(READING)
    for begin in (1000, 2000, 3000):
        trace.python_function("train.py(15): train_step", begin + 50, 60)
        trace.python_function("train.py(40): log_norms", begin + 110, 60)
    assert [(line.name, line.time_ns) for line in analyzed(trace).lines] == [("train.py(40): log_norms", 3 * 50 * US)]


def copied(samples: int, *, size: int = 8, waits: bool = True, pause: int = 20, name: str = "aten::to") -> TraceBuilder:
    """Three steps of 20,000 in which results of samples are copied to the CPU, each chosen by an operator of 10."""
    trace = TraceBuilder()
    for begin in (20_000, 40_000, 60_000):
        trace.step(begin // 20_000, begin, 20_000)
        trace.op("aten::linear", begin + 5, 20)
        trace.launch_kernel("gemm", begin + 20, 900, at=begin + 10, call_dur=5)
        at = begin + 1_000
        for _ in range(samples):
            trace.op("aten::argmax", at, 10)
            trace.op(name, at + 12, 40)
            trace.memcpy("DtoH", size, at + 25, 2, at=at + 14, call_dur=5)
            if waits:
                trace.launch("cudaStreamSynchronize", at + 20, 30)
            at += 52 + pause
    return trace


@pytest.mark.parametrize(
    ("trace", "readings"),
    [
        (copied(20), 60),
        (copied(20, size=4096), 0),
        (copied(20, waits=False), 0),
        (copied(20, name="aten::nonzero"), 0),
        (copied(20, pause=600), 60),
        (copied(8, pause=600), 0),
        (copied(12, pause=1200), 0),
    ],
    ids=["values", "tensors", "no wait", "size", "loop", "few", "other work"],
)
def test_copies_of_a_few_bytes_are_readings(trace: TraceBuilder, readings: int) -> None:
    """As `t.cpu()` makes; between those of a loop over samples the program may do something else for longer."""
    assert analyzed(trace).readings == readings


def test_python_between_the_turns_of_a_loop_is_not_reading() -> None:
    """Twenty times 52, of which the pauses of 600 are none."""
    assert analyzed(copied(20, pause=600)).time_ns == 3 * 20 * 52 * US


def test_copies_of_values_are_told_without_any_item() -> None:
    found = report(copied(96)).findings
    (finding,) = (each for each in found if each.rule == "sync-item-frequent")
    assert "96 values per step" in finding.summary.text
    assert not [each for each in report(copied(96, size=4096)).findings if each.rule == "sync-item-frequent"]
