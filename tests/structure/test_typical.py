"""What the typical steps have in scope, and the time for which their busiest stream does nothing; numbers by hand."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers import ANALYSES, operators
from traceanalyzer.structure import typical
from traceanalyzer.structure.context import Context

US = 1000


def uneven() -> Context:
    """Four steps of 100, of which the second is twice as long and makes two calls; a call after the last one."""
    trace, start = TraceBuilder(), 0
    for number, length in enumerate((100, 200, 100, 100)):
        trace.step(number, start, length)
        for call in range(length // 100):
            trace.op("aten::add", start + 10 + 40 * call, 30)
            trace.launch_kernel("kernel", start + 40 + 40 * call, 20, at=start + 15 + 40 * call, call_dur=5)
        start += length
    trace.op("aten::add", 700, 30)
    return Context(read_built(trace))


def test_a_table_has_its_rows_for_all_and_for_the_typical_steps() -> None:
    context = uneven()
    assert typical.count(context) == 3
    found = operators.by_name(context)
    assert [row.calls for row in found.rows] == [6]
    assert found.in_steps is not None
    assert [row.calls for row in found.in_steps] == [3]


def test_rows_are_not_repeated_where_everything_lies_in_typical_steps() -> None:
    trace = TraceBuilder()
    for number in range(4):
        trace.step(number, 100 * number, 100)
        trace.op("aten::add", 100 * number + 10, 30)
    assert operators.by_name(Context(read_built(trace))).in_steps is None


@pytest.mark.parametrize("analysis", [each for each in ANALYSES if each.is_of_steps], ids=lambda each: each.key)
def test_what_is_shared_with_the_whole_trace_does_not_depend_on_the_scope(analysis: object) -> None:
    """After everything was analyzed for the whole trace, the steps give what they give by themselves."""
    context, alone = uneven(), uneven()
    for each in ANALYSES:
        if each.missing(context) is None:
            each.analyze(context)
    if analysis.missing(alone) is not None:  # type: ignore[attr-defined]
        assert analysis.missing(context) == analysis.missing(alone)  # type: ignore[attr-defined]
        return
    assert msgspec.json.encode(analysis.run(context)) == msgspec.json.encode(analysis.run(alone))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("second", "room"),
    [((50, 20), 60), ((10, 20), 80)],
    ids=["streams that take turns are one lane", "streams at the same time are two"],
)
def test_the_room_is_what_the_busiest_stream_leaves(second: tuple[int, int], room: int) -> None:
    """Steps of 100: a kernel of 20 on one stream, and one of 20 on another, after it or at the same time."""
    trace = TraceBuilder()
    for number in range(3):
        start = 100 * number
        trace.step(number, start, 100)
        trace.launch_kernel("one", start + 10, 20, at=start + 2, call_dur=2, stream=7)
        trace.launch_kernel("other", start + second[0], second[1], at=start + 5, call_dur=2, stream=8)
    found = typical.room_ns(Context(read_built(trace)))
    assert found == pytest.approx(room * US)


def test_without_a_device_there_is_no_room() -> None:
    trace = TraceBuilder(devices=())
    trace.op("aten::add", 0, 30)
    assert typical.room_ns(Context(read_built(trace))) is None


def test_times_are_those_of_the_typical_steps() -> None:
    times = typical.times(uneven())
    assert np.array_equal(times.start, np.array([0, 300]) * US)
    assert np.array_equal(times.end, np.array([100, 500]) * US)


def test_operators_of_a_host_that_runs_ahead_are_of_the_step_that_they_make() -> None:
    """Three of four steps count. They begin when the device has done earlier work, and the host is done by then."""
    trace = TraceBuilder()
    trace.op("aten::forward", 0, 20)
    trace.launch_kernel("forward", 10, 990, at=5)
    for number in range(4):
        at = 100 * (number + 1)
        trace.annotation("Optimizer.step#SGD.step", at, 20)
        trace.op("aten::update", at + 2, 10)
        trace.launch_kernel("update", 1_000 + 1_000 * number, 100, at=at + 4)
        trace.op("aten::forward", at + 40, 20)
        trace.launch_kernel("forward", 1_100 + 1_000 * number, 900, at=at + 45)
    found = operators.by_name(Context(read_built(trace))).in_steps
    assert found is not None
    assert {row.name: row.calls for row in found} == {"aten::update": 3, "aten::forward": 3}
