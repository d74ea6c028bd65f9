"""Every slice of some times: nothing is lost, and blocks say what they hold."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path

import msgspec
import numpy as np
import pytest

from tests.builders import TraceBuilder
from tests.corpus_files import trace_of
from tests.reading import read_built
from traceanalyzer.analyzers.steps import slices
from traceanalyzer.analyzers.steps.slice_rows import SliceLane, SliceRows, columns, fitting, rows_of
from traceanalyzer.analyzers.steps.slices import OF_EVENTS, RecordedSlices, SliceTime
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.recording import shown_step
from traceanalyzer.trace.model import Trace


def training(steps: int = 3, work: int = 4) -> TraceBuilder:
    """Steps of 1 ms, in which operators launch kernels one after another."""
    trace = TraceBuilder()
    for number in range(steps):
        trace.step(number, number * 1000, 1000)
        for part in range(work):
            start = number * 1000 + 50 + part * 900 // work
            trace.op("aten::mm", start, 600 // work)
            trace.launch_kernel("gemm", start + 200 // work, 500 // work, at=start + 1, call_dur=2)
    return trace


def slices_of(trace: TraceBuilder | Trace) -> RecordedSlices:
    return slices.analyze(Context(trace if isinstance(trace, Trace) else read_built(trace)))


def lane(found: SliceTime, kind: str) -> SliceLane:
    return next(one for one in found.lanes if one.kind == kind)


def events(lanes: tuple[SliceLane, ...]) -> int:
    return sum(sum(one.count) if one.count else len(one.start) for one in lanes if one.kind in OF_EVENTS)


def check_nothing_is_lost(trace: Trace, found: RecordedSlices) -> None:
    """Counts sum to the events that run in each time, and those of the whole recording to all events."""
    context = Context(trace)
    tables = (context.host.tree, trace.launches, trace.device, trace.accelerator)
    every = sum(len(table.start_ns) for table in tables)
    for time in found.times:
        assert events(time.lanes) + time.hidden_events == time.events
        assert time.events == every if time.kind == "recording" else time.events <= every
        start, end = time.start_ns, time.start_ns + time.duration_ns
        inside = sum(int(((t.end_ns > start) & (t.start_ns < end) & (t.end_ns > t.start_ns)).sum()) for t in tables)
        assert time.events >= inside
        for one in time.lanes:
            starts = np.array(list(accumulate(one.start)))
            assert (starts >= 0).all()
            assert (starts + one.duration <= time.duration_ns).all()


def test_the_slices_of_a_step_are_those_of_the_recording() -> None:
    found = slices_of(training())
    assert [time.kind for time in found.times] == ["typical", "recording"]
    typical = found.times[0]
    kernels = lane(typical, "device")
    assert list(accumulate(kernels.start)) == [100_000, 325_000, 550_000, 775_000]
    assert kernels.duration == (125_000,) * 4
    assert [found.names[name] for name in kernels.name] == ["gemm"] * 4
    assert kernels.count == ()
    assert lane(typical, "host").role == "main"


def test_a_kernel_knows_its_launch() -> None:
    found = slices_of(training())
    typical = found.times[0]
    assert list(accumulate(lane(typical, "device").launch)) == [0, 1, 2, 3]
    calls = lane(typical, "launches")
    assert list(accumulate(calls.start)) == [51_000, 276_000, 501_000, 726_000]


def test_the_slowest_and_the_first_step_are_there_once() -> None:
    trace = TraceBuilder()
    for number, dur in enumerate((700, 430, 900, 400, 440, 422)):
        trace.step(number, number * 1000, dur)
        trace.op("aten::relu", number * 1000 + 10, 50)
    times = slices_of(trace).times
    assert [(time.kind, time.name) for time in times if time.kind in ("typical", "slowest", "first")] == [
        ("typical", "5"),
        ("slowest", "2"),
        ("first", "0"),
    ]


def test_idle_times_have_causes_and_sum_to_what_is_idle() -> None:
    found = slices_of(training())
    typical = found.times[0]
    assert sum(typical.idle_duration) == 500_000
    assert {found.causes[cause] for cause in typical.idle_cause} <= set(found.causes)
    starts = list(accumulate(typical.idle_start))
    assert starts == sorted(starts)


def test_many_slices_become_blocks_that_say_how_many_and_which_is_the_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "MOST", 40)
    trace = read_built(training(work=100))
    typical = slices_of(trace).times[0]
    assert typical.resolution_ns > 0
    assert sum(len(one.start) for one in typical.lanes if one.kind in OF_EVENTS) <= 40
    assert any(count > 1 for one in typical.lanes for count in one.count)
    check_nothing_is_lost(trace, slices_of(trace))


def rows(*given: tuple[int, int, int]) -> SliceRows:
    """Slices of one lane by start, end and name."""
    start, end, name = np.array(given).T
    zeros, none = np.zeros(len(given), np.int64), np.full(len(given), -1)
    return SliceRows(zeros, zeros, start, end, name, zeros + 1, none, none)


def test_events_that_are_joined_in_parts_are_all_there(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = read_built(training(steps=40, work=20))
    monkeypatch.setattr(slices, "MOST", 100)
    monkeypatch.setattr(slices, "_FEW", 60)
    whole = slices_of(trace).times[-1]
    monkeypatch.setattr(slices, "_AT_ONCE", 250)
    found = slices_of(trace)
    check_nothing_is_lost(trace, found)
    parts = found.times[-1]
    assert (parts.kind, parts.events) == ("recording", 40 * (1 + 3 * 20))
    assert [(one.kind, one.label) for one in parts.lanes] == [(one.kind, one.label) for one in whole.lanes]
    assert all(len(one.start) <= 60 for one in parts.lanes)


def test_a_block_has_the_name_of_its_longest_slice_and_spans_all() -> None:
    given = rows((0, 1, 7), (2, 5, 8), (6, 7, 9), (500, 900, 3), (901, 902, 4), (903, 904, 5))
    found, cell = fitting(given, 3, 1000)
    assert cell > 4
    assert list(zip(*(c.tolist() for c in (found.start_ns, found.end_ns, found.name, found.count)), strict=True)) == [
        (0, 7, 8, 3),
        (500, 900, 3, 1),
        (901, 904, 4, 2),
    ]


def test_columns_are_read_back() -> None:
    typical = slices_of(training()).times[0]
    assert tuple(columns(rows_of(typical.lanes), typical.lanes)) == typical.lanes


def test_the_shown_step_is_near_in_duration_and_in_its_largest_idle_time() -> None:
    trace = TraceBuilder()
    for number, (work, rest) in enumerate(((200, 300), (380, 120), (300, 210), (300, 190))):
        start = number * 1000
        trace.step(number, start, work + rest)
        trace.op("aten::mm", start, work + rest - 1)
        trace.launch_kernel("gemm", start + rest, work, at=start + rest - 10, call_dur=5)
    # All steps take 500 us or so; the mean has 205 us of idle time.
    assert shown_step(Context(read_built(trace))) == 2


def test_a_result_is_small_and_reads_back() -> None:
    found = slices_of(training())
    assert msgspec.json.decode(msgspec.json.encode(found), type=RecordedSlices) == found


@pytest.mark.corpus
def test_nothing_is_lost_in_any_trace_of_the_corpus(corpus: Path, corpus_name: str) -> None:
    trace = trace_of(corpus / "corpus" / f"{corpus_name}.json.gz")
    check_nothing_is_lost(trace, slices_of(trace))
