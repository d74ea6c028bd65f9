"""Flame graphs of a report: small, and nothing is lost."""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers.host import flame_frames, flame_graphs
from traceanalyzer.structure.context import Context


def a_trace() -> Context:
    trace = TraceBuilder()
    trace.step(0, 0, 100)
    trace.annotation("## forward ##", 10, 60)
    for number in range(5):
        trace.op(f"aten::op{number}", 12 + 10 * number, 1 + number)
    return Context(read_built(trace))


def test_rows_are_depth_first_with_the_time_of_everything_inside() -> None:
    found = flame_frames.analyze(a_trace())
    host = found.graphs[0]
    names = [found.frames[frame].name for frame in host.frame]
    inside = names.index("## forward ##")
    assert names[inside + 1 : inside + 6] == [f"aten::op{number}" for number in range(5)]
    assert (host.depth[inside], set(host.depth[inside + 1 : inside + 6])) == (0, {1})
    assert host.ns[inside] == 60_000
    assert host.ns[inside + 1 : inside + 6] == (1000, 2000, 3000, 4000, 5000)
    assert sum(ns for ns, depth in zip(host.ns, host.depth, strict=True) if depth == 0) == 100_000


def test_frames_that_are_left_out_are_one_row_that_counts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = flame_frames.analyze(a_trace()).graphs[0]
    monkeypatch.setattr(flame_frames, "FRAMES", 4)  # the mark, what is unknown, and the two longest operators
    host = flame_frames.analyze(a_trace()).graphs[0]
    left = host.frame.index(-1)
    assert (host.count[left], host.ns[left], host.depth[left]) == (3, 6000, 1)
    assert sum(host.count) == sum(whole.count)


def test_times_are_those_of_the_flame_graphs_of_files() -> None:
    context = a_trace()
    drawn = flame_graphs.of_steps(context).of(flame_graphs.HOST)
    host = flame_frames.analyze(context).graphs[0]
    assert drawn is not None
    assert sum(ns for ns, depth in zip(host.ns, host.depth, strict=True) if depth == 0) == drawn.total_ns


def test_of_a_long_recording_the_first_typical_steps_stand_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = TraceBuilder()
    for step in range(4):
        trace.step(step, 100 * step, 100)
        trace.op("aten::mm", 100 * step + 10, 50 + step)
    context = Context(read_built(trace))
    assert total(context) == (4, 4, 400_000)
    monkeypatch.setattr(flame_frames, "EVENTS", 5)  # a step has two
    assert total(context) == (2, 4, 200_000)
    monkeypatch.setattr(flame_frames, "EVENTS", 1)
    assert total(context) == (1, 4, 100_000)


def total(context: Context) -> tuple[int | None, int | None, int]:
    """Steps that are added, typical steps, and the host time of all stacks."""
    found = flame_frames.analyze(context)
    host = found.graphs[0]
    depths = zip(host.ns, host.depth, strict=True)
    return found.steps, found.typical_steps, sum(ns for ns, depth in depths if depth == 0)


def test_deep_stacks_take_a_frame_for_each_call() -> None:
    """A stack for each call, each deeper than the one before it: frames of all stacks would be a million."""
    trace = TraceBuilder()
    calls = 1000
    for number in range(calls):
        trace.op(f"aten::op{number % 7}", number, 2 * (calls - number))
    host = flame_graphs.of_steps(Context(read_built(trace))).graphs[0]
    assert len(host.nodes) >= calls
    assert len(host.tree.frame) <= calls + 10
