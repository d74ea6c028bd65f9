"""Questions about changes: what each kind of change becomes, and answers worked out by hand."""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.errors import UsageError
from traceanalyzer.simulation.what_if import ChangeAsked, ask
from traceanalyzer.structure.context import Context


def waiting() -> Context:
    """Three steps of 200: 100 of work are launched at 10, a call waits for it from 20 to 118, 80 of the host follow."""
    trace = TraceBuilder()
    for number in range(3):
        start = 200 * number
        trace.step(number, start, 200)
        trace.op("aten::item", start + 5, 115)
        trace.launch_kernel("kernel", start + 15, 100, at=start + 10, call_dur=5)
        trace.launch("cudaStreamSynchronize", start + 20, 98)
        trace.op("aten::add", start + 120, 80)
    return Context(read_built(trace))


@pytest.mark.parametrize(
    ("change", "saved"),
    [
        (ChangeAsked("speedup", "kernel:kernel", 2), 50),
        (ChangeAsked("speedup", "gpu", 4), 75),
        (ChangeAsked("speedup", "operator:aten::add", 2), 40),
        (ChangeAsked("speedup", "operator:aten::add", 0.5), -80),
        (ChangeAsked("free", "operator:aten::add", 0), 80),
    ],
    ids=lambda value: f"{value.selector}={value.factor}" if isinstance(value, ChangeAsked) else None,
)
def test_savings_are_those_of_the_critical_path(change: ChangeAsked, saved: int) -> None:
    found = ask(waiting(), [change])
    assert found.replay.abstained is False
    assert found.step_ns == pytest.approx(200_000)
    low, point, high = found.saving_ns
    assert point == pytest.approx(saved * 1000, rel=0.02)
    assert low <= point <= high
    assert found.predicted_ns == (found.step_ns - high, found.step_ns - point, found.step_ns - low)
    assert found.helps == ()


def test_an_answer_says_what_each_change_is_about() -> None:
    found = ask(waiting(), [ChangeAsked("no-sync", "*"), ChangeAsked("speedup", "gpu", 2)])
    told = [(change.kind, change.selector, change.factor, change.found) for change in found.edits]
    assert told == [("no-sync", "*", None, "synchronization"), ("speedup", "gpu", 2, "gpu")]
    assert [(change.device_events, change.calls) for change in found.edits] == [(0, 3), (3, 0)]


def test_changes_together_do_not_depend_on_their_order() -> None:
    changes = [ChangeAsked("speedup", "gpu", 2), ChangeAsked("free", "aten::add", 0), ChangeAsked("no-sync", "*")]
    one, other = ask(waiting(), changes), ask(waiting(), changes[::-1])
    assert one.saving_ns == other.saving_ns
    assert one.edits == other.edits[::-1]


def test_without_a_change_it_says_what_helps_the_most_first() -> None:
    helps = ask(waiting()).helps
    free = {row.selector: row.free_ns[1] for row in helps}
    assert free["operator:aten::add"] == pytest.approx(80_000, rel=0.02)
    points = [row.free_ns[1] or 0.0 for row in helps]
    assert points == sorted(points, reverse=True)
    assert all((row.half_ns is None) == (row.kind == "change") for row in helps)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (ChangeAsked("speedup", "gpu", -1.0), "gpu=-1: must be 0"),
        (ChangeAsked("loader", "", float("nan")), "loader=nan: must be 0"),
        (ChangeAsked("overlap"), "no kernels that communicate"),
        (ChangeAsked("speedup", "nothing", 2), "nothing: nothing in the trace has this name"),
    ],
)
def test_what_cannot_be_asked_is_refused(change: ChangeAsked, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        ask(waiting(), [change])
    assert said in str(refused.value)


def test_a_trace_without_steps_cannot_be_asked() -> None:
    trace = TraceBuilder()
    trace.op("aten::add", 0, 0)
    with pytest.raises(UsageError, match="no step longer than 0"):
        ask(Context(read_built(trace)))
