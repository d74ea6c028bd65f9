"""Traces with more of one thing than programs have: what is left out is counted, the rest is right."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers import modules, waits
from traceanalyzer.analyzers import steps as timeline
from traceanalyzer.analyzers.copies import host_tensors
from traceanalyzer.analyzers.loader import analyze
from traceanalyzer.analyzers.modules import Paths
from traceanalyzer.analyzers.steps import trace_doubts
from traceanalyzer.structure import host_waits
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import _started_before
from traceanalyzer.structure.sums import members
from traceanalyzer.trace.tree import Tree

LEVELS = 300


def doubts(context: Context) -> dict[str, int]:
    return {doubt.id: doubt.count for doubt in trace_doubts.analyze(context)}


def nested(trace: TraceBuilder, level: int) -> tuple[int, int]:
    """Start and duration of a level, inside of all before it."""
    del trace
    return 2 * level, 4 * (LEVELS - level)


def test_a_wait_within_waits_for_a_loader_is_part_of_the_outermost() -> None:
    trace = TraceBuilder()
    for level in range(LEVELS):
        trace.annotation("enumerate(DataPipe)#a", *nested(trace, level))
    (loader,) = analyze(Context(read_built(trace))).loaders
    assert (loader.calls, loader.total_ns) == (1, 4 * LEVELS * 1000)


def test_the_loaders_waited_for_longest_are_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_waits, "LOADERS", 2)
    trace = TraceBuilder()
    for number, dur in enumerate((5, 9, 7, 7)):
        trace.annotation(f"enumerate(DataPipe)#{number}", 20 * number, dur)
    context = Context(read_built(trace))
    assert [row.name[-1] for row in analyze(context).loaders] == ["1", "2"]
    assert doubts(context)["q-many-loaders"] == 4


def test_waits_are_told_apart_by_the_innermost_operators() -> None:
    trace, kept = TraceBuilder(), host_waits.OPERATORS
    for level in range(LEVELS):
        trace.op(f"op{level}", *nested(trace, level))
    trace.launch("cudaDeviceSynchronize", 2 * LEVELS, 1)
    trace.launch("cudaDeviceSynchronize", 2 * (kept - 1) + 1, 1)
    context = Context(read_built(trace))
    rows = waits.analyze(context).rows
    assert {row.operators for row in rows} == {
        tuple(f"op{level}" for level in range(kept)),
        tuple(f"op{level}" for level in range(LEVELS - kept, LEVELS)),
    }
    assert doubts(context)["q-deep-waits"] == 1


def test_modules_nest_as_deep_as_they_are() -> None:
    trace = TraceBuilder()
    parent = None
    for level in range(LEVELS):
        parent = trace.module(f"Block_{level}", *nested(trace, level), module=level, parent=parent)
    tree = modules.analyze(Context(read_built(trace))).tree
    assert [(place.depth, place.parent) for place in tree] == [
        (level, level - 1 if level else None) for level in range(LEVELS)
    ]
    assert [place.host_self_ns for place in tree] == [4000] * LEVELS


def test_steps_within_steps_are_no_steps() -> None:
    trace = TraceBuilder()
    for level in range(40):
        trace.step(level, *nested(trace, level))
        trace.launch_kernel("k", 2 * LEVELS + 10 * level, 5, at=2 * level + 1, call_dur=1)
    context = Context(read_built(trace))
    assert len(context.steps) + context.steps.cut == 1, "what begins within a step is the step of another profiler"


def test_a_tensor_is_found_however_deep_its_move_lies() -> None:
    trace = TraceBuilder()
    shapes = {"shapes": [[4]], "types": ["float"]}
    trace.op("aten::zeros", 0, 10)
    trace.op("aten::zero_", 1, 5, **shapes)  # type: ignore[arg-type]
    for level in range(60):
        trace.op("aten::to", 20 + level, 200 - 2 * level, **shapes)  # type: ignore[arg-type]
    trace.op("aten::copy_", 100, 5, **shapes)  # type: ignore[arg-type]
    context = Context(read_built(trace))
    search = host_tensors._Search(context)
    copy = int(np.flatnonzero(context.host.name == context.trace.names.code("aten::copy_"))[0])
    outermost = int(search.outermost[copy])
    assert context.host.tree.depth[outermost] == 0
    assert search._maker(outermost, search._shape(copy)) == 0


@given(st.lists(st.tuples(st.sampled_from([0, 1, 9]), st.integers(0, 20), st.integers(0, 9)), max_size=20))
def test_siblings_before(slices: list[tuple[int, int, int]]) -> None:
    slices.sort(key=lambda s: s[1])
    thread, start, dur = (np.array([s[i] for s in slices], np.int64) for i in range(3))
    tree, _ = Tree.build(thread.astype(np.int32), start, dur)
    expected = [
        max((other for other in range(node) if tree.parent[other] == tree.parent[node]), default=-1)
        for node in range(len(tree))
    ]
    assert host_tensors._siblings_before(tree).tolist() == expected


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), min_size=1), st.lists(st.integers(-1, 10)))
def test_the_last_launch_of_an_id_that_started_by_then(launches: list[tuple[int, int]], times: list[int]) -> None:
    launches.sort()
    ids, start = (np.array([launch[i] for launch in launches], np.int64) for i in range(2))
    for ident in set(ids.tolist()):
        first = np.full(len(times), int(np.searchsorted(ids, ident)), np.int64)
        expected = [sum(i < ident or (i == ident and s <= time) for i, s in launches) for time in times]
        assert _started_before(first, np.array(times, np.int64), ids, start).tolist() == expected


@given(st.lists(st.integers(-2, 5)))
def test_members_are_the_rows_of_each_group(groups: list[int]) -> None:
    found = {group: rows.tolist() for group, rows in members(np.array(groups, np.int64))}
    assert found == {group: [r for r, g in enumerate(groups) if g == group] for group in sorted(set(groups))}
    assert [*found] == sorted(found)


@given(st.lists(st.integers(0, 3), max_size=12))
def test_sums_of_subtrees_of_modules(steps: list[int]) -> None:
    depth: list[int] = []
    for step in steps:  # each place lies at most one deeper than the one before it
        depth.append(min(step, depth[-1] + 1) if depth else 0)
    parent = [max((p for p in range(i) if depth[p] == d - 1), default=-1) for i, d in enumerate(depth)]
    none = np.empty(0, np.int64)
    paths = Paths(none, none, np.zeros(len(depth), np.int64), none, np.array(parent), np.array(depth, np.int64))
    expected = []
    for place in range(len(depth)):
        total = 0
        for other in range(len(depth)):
            above = other
            while above > place:
                above = parent[above]
            total += (other + 1) * (above == place)
        expected.append(total)
    assert paths.subtree_sums(np.arange(1, len(depth) + 1)).tolist() == expected


def test_the_busiest_of_very_many_lanes_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "_CANDIDATES", 3)
    trace = TraceBuilder()
    for number in range(30):
        trace.op("a", 0, 30 + (number * 7) % 30, tid=100 + number)
    lanes = [lane for lane in timeline.analyze(Context(read_built(trace))).lanes if lane.kind == "host"]
    assert [lane.slices[0].duration_ns for lane in lanes] == [59_000, 58_000, 57_000]
