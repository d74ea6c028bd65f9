"""Compiled regions of the typical steps, and the graph breaks between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import numpy as np

from traceanalyzer.analyzers.compilation.logged import LogSummary, place_of
from traceanalyzer.knowledge import compiled_code, marks
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import Occurrences, event_set
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.structure.steps import Steps
from traceanalyzer.structure.sums import group, sum_by
from traceanalyzer.trace.table import I32, I64, Bool, take_or
from traceanalyzer.trace.tree import NO_PARENT, Tree

Wanted = Callable[[str], bool]


class CompiledRegion(msgspec.Struct, frozen=True):
    """All calls of one compiled region in typical steps."""

    compilation: str | None
    """Number of the function and of its compilation, both counted by torch from 0: 0/1 is the second compilation of the
    first function; null for versions of torch that do not record it."""
    function: str | None
    """Name of the function, from the log; null without a log."""
    file: str | None
    """File of the function, from the log; null without a log."""
    line: int | None
    """First line of the function, from the log; null without a log."""
    calls: int
    """Calls of the region."""
    host_ns: int
    """Host time in ns, without regions inside it."""


class GraphBreak(msgspec.Struct, frozen=True):
    """All graph breaks between the same two regions in typical steps."""

    before: str | None
    """Compilation of the region in which the graph broke; null for versions of torch that do not record it."""
    behind: str | None
    """Compilation of the region that continues after the break; null for versions of torch that do not record it."""
    calls: int
    """How often the break was executed."""
    between_ns: int
    """Host time in ns from the last event before the break to the start of the region after it."""
    file: str | None
    """File of the line that could not be traced, from the log or from Python stacks; null without both."""
    line: int | None
    """The line that could not be traced; null without log and stacks."""
    reason: str | None
    """The reason that torch gives, from the log; null without a log."""
    hint: str | None
    """The hint that torch gives, from the log; null without a log."""


class _Regions(msgspec.Struct, frozen=True):
    """Calls of compiled regions in typical steps, in the order of the tree."""

    code: I64
    """Name of each region."""
    own_ns: I64
    outer: I64
    """For each region, the position of the region after whose graph break it continues, or -1."""
    thread: I32
    start_ns: I64
    gap_ns: I64
    """Time between the last event before each region and its start; only meaningful within another region."""
    resumed: I64
    """For each region, the name of its Python frame that continues after a graph break, or -1."""
    entering_ns: I64
    """Time in each region before its first and after its last operator."""


def rows_of(context: Context, wanted: Wanted) -> I64:
    """Host rows whose names satisfy a condition."""
    return np.flatnonzero(context.trace.names.where(wanted)[context.trace.host.name])


def analyze(
    context: Context, steps: Steps, logs: LogSummary
) -> tuple[tuple[CompiledRegion, ...], tuple[GraphBreak, ...], tuple[int, int]]:
    """Find the compiled regions of some steps.

    Returns:
        Regions and graph breaks with their log entries; and host time in ns of starting and leaving regions, of all in
        the steps and of those after graph breaks: the time from the start of a region to its first operator, and from
        its last operator to its end.
    """
    regions = _find(context, steps)
    time = regions.entering_ns
    entering = int(time.sum()), int(time[regions.outer != NO_PARENT].sum())
    return _regions(context, regions, logs), _breaks(context, regions, logs), entering


def _find(context: Context, steps: Steps) -> _Regions:
    host = context.trace.host
    rows = rows_of(context, compiled_code.is_region)
    rows = rows[steps.at(host.start_ns[rows]) >= 0] if len(steps) else rows[:0]
    tree, order = Tree.build(host.thread[rows], host.start_ns[rows], host.dur_ns[rows])
    rows = rows[order]
    duration = tree.end_ns - tree.start_ns
    node = _nodes(context, rows)
    start = host.start_ns[rows]
    return _Regions(
        code=host.name[rows].astype(np.int64),
        own_ns=duration - tree.child_sums(duration),
        outer=np.where(_is_behind_break(context, node), tree.parent.astype(np.int64), NO_PARENT),
        thread=host.thread[rows],
        start_ns=start,
        gap_ns=start - _last_end(context, node, tree),
        resumed=_resumed(context, tree),
        entering_ns=_entering(context, node, duration),
    )


@event_set
def breaks_at(context: Context) -> Iterator[Occurrences]:
    """The time between the regions before and after graph breaks, in typical steps."""
    found = _find(context, program_steps(context).typical)
    behind = np.flatnonzero((found.outer != NO_PARENT) & (found.gap_ns > 0))
    start = found.start_ns[behind]
    thread = found.thread[behind].astype(np.int64)
    yield Occurrences("host", "graph breaks", thread, start - found.gap_ns[behind], start)


def _entering(context: Context, node: I64, duration: I64) -> I64:
    """Time of each region before its first and after its last operator or region; its whole time if it has none."""
    host, tree, names = context.host, context.host.tree, context.trace.names
    is_work = names.where(lambda name: compiled_code.is_region(name) or not marks.is_mark_among_operators(name))
    works = np.flatnonzero((host.kind == NodeKind.OPERATOR) & is_work[host.name])
    first = np.searchsorted(works, node + 1)
    behind = np.searchsorted(works, tree.after[node])
    entering = duration.copy()
    rows = np.flatnonzero(behind > first)
    if len(rows):
        ends = np.append(tree.end_ns[works], 0)  # one more, because the last range may end with the last operator
        ranges = np.column_stack((first[rows], behind[rows])).ravel()  # every other one is between two regions
        last = np.maximum.reduceat(ends, ranges)[::2]
        entering[rows] -= last - tree.start_ns[works[first[rows]]]
    return entering


def _nodes(context: Context, rows: I64) -> I64:
    """Positions of host rows in the tree of host nodes."""
    host = context.host
    plain = host.kind != NodeKind.MODULE
    node_of_row = np.full(len(context.trace.host), NO_PARENT, np.int64)
    node_of_row[host.row[plain]] = np.flatnonzero(plain)
    return node_of_row[rows]


def _is_behind_break(context: Context, node: I64) -> Bool:
    """Which regions run directly within another one; an operator between them called compiled code of its own."""
    host = context.host
    parent = host.without_modules(take_or(host.tree.parent, node, NO_PARENT))
    is_region = context.trace.names.where(compiled_code.is_region)[host.name]
    return take_or(is_region, parent, missing=False)


def _last_end(context: Context, node: I64, tree: Tree) -> I64:
    """For each region, the end of the last operator before it, or the start of the region around it."""
    host = context.host
    guards = context.trace.names.where(compiled_code.is_guards)[host.name]
    before = _previous_sibling(host.tree, ~guards)
    previous = take_or(before, node, NO_PARENT)
    start = take_or(tree.start_ns, tree.parent, 0)
    ended = take_or(host.tree.end_ns, previous, 0)
    return np.maximum(ended, start)


def _previous_sibling(tree: Tree, wanted: Bool) -> I64:
    """For each node, the last wanted node before it under the same parent, or -1."""
    parent = tree.parent.astype(np.int64)
    own = np.arange(len(tree))
    order = np.lexsort((own, parent))
    last = np.maximum.accumulate(np.where(wanted[order], np.arange(len(order)), -1))
    previous = np.concatenate(([-1], last[:-1])) if len(last) else last
    sibling = take_or(order, previous, NO_PARENT)
    same = take_or(parent, sibling, NO_PARENT - 1) == parent[order]
    found = np.full(len(tree), NO_PARENT, np.int64)
    found[order] = np.where(same & (previous >= 0), sibling, NO_PARENT)
    return found


def _regions(context: Context, regions: _Regions, logs: LogSummary) -> tuple[CompiledRegion, ...]:
    if not len(regions.code):
        return ()
    first, groups = group(regions.code)
    calls = np.bincount(groups).tolist()
    time = sum_by(groups, regions.own_ns, len(first)).tolist()
    rows = []
    for number, row in enumerate(first.tolist()):
        compilation = compiled_code.region_id(context.trace.names[int(regions.code[row])])
        code = logs.code(compilation)
        function, file, line = place_of(code)
        rows.append(CompiledRegion(compilation, function, file, line, calls[number], time[number]))
    return tuple(sorted(rows, key=lambda row: (-row.host_ns, row.compilation or "")))


def _breaks(context: Context, regions: _Regions, logs: LogSummary) -> tuple[GraphBreak, ...]:
    inner = np.flatnonzero(regions.outer != NO_PARENT)
    if not len(inner):
        return ()
    before = regions.code[regions.outer[inner]]
    behind = regions.code[inner]
    resumed = regions.resumed[inner]
    first, groups = group(before, behind)
    calls = np.bincount(groups)
    time = sum_by(groups, np.maximum(0, regions.gap_ns[inner]), len(first))
    columns = (before[first], behind[first], resumed[first], calls, time)
    rows = [_break(context, logs, *of_break) for of_break in zip(*(column.tolist() for column in columns), strict=True)]
    return tuple(sorted(rows, key=lambda row: (-row.calls, -row.between_ns, row.before or "", row.behind or "")))


def _break(
    context: Context, logs: LogSummary, before_code: int, behind_code: int, resumed: int, calls: int, time: int
) -> GraphBreak:
    """A break from the names of the regions before and behind it and of the frame that continues (-1 for none)."""
    names = context.trace.names
    before = compiled_code.region_id(names[before_code])
    behind = compiled_code.region_id(names[behind_code])
    logged = logs.broken(before, behind)
    at = compiled_code.resumed_at(names[resumed]) if resumed >= 0 else None
    file, line = (at[0], at[1]) if at else (None, None)
    reason = hint = None
    if logged is not None:
        reason = logged.reason or None
        hint = logged.hint or None
        if logged.at is not None:
            file, line = logged.at.file, logged.at.line
    return GraphBreak(before, behind, calls, time, file, line, reason, hint)


def _resumed(context: Context, tree: Tree) -> I64:
    """For each region, the name of the first frame directly in it that continues after a break."""
    frames = context.trace.frames
    rows = np.flatnonzero(
        context.trace.names.where(lambda name: compiled_code.resumed_at(name) is not None)[frames.name]
    )
    region = tree.innermost(frames.thread[rows], frames.start_ns[rows])
    inside = region != NO_PARENT
    found = np.full(len(tree), -1, np.int64)
    found[region[inside][::-1]] = frames.name[rows[inside]][::-1]  # the first of several counts
    return found
