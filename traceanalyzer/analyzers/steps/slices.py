"""Which events run at which time? All slices of some times, as columns that the timeline of a page is drawn from.

Up to `MOST` slices of a time are there one by one. Of more, the shortest that are neighbours of one depth are joined to
blocks, which say how many events they hold and which of them is the longest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property

import msgspec
import numpy as np
from msgspec.structs import replace

from traceanalyzer.analyzers.steps.outside import recorded
from traceanalyzer.analyzers.steps.slice_rows import (
    LanePlace,
    SliceLane,
    SliceRows,
    are_few,
    blocks,
    coarse,
    coarse_cell,
    columns,
    differences,
    fitting,
    in_order,
)
from traceanalyzer.knowledge import accelerators
from traceanalyzer.structure import host_activity, idle_times, recording, typical
from traceanalyzer.structure.analysis import STEPS, Analysis
from traceanalyzer.structure.autograd import engines
from traceanalyzer.structure.context import Context, cached
from traceanalyzer.structure.gap_causes import CAUSES
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.mark_forest import forest
from traceanalyzer.structure.owners import OwnerTimeline, owner_index, place
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.structure.resources import busiest
from traceanalyzer.structure.sums import group, sum_by
from traceanalyzer.trace.distinct import ascending
from traceanalyzer.trace.strings import StringPool
from traceanalyzer.trace.table import I64, Array, SliceTable
from traceanalyzer.trace.tables import Category, Vendor
from traceanalyzer.trace.tree import Tree

MOST = 20_000
"""Most slices of a time, apart from marks and owners (own choice: a page has room for some such times)."""
_FEW = 5_000
"""Most slices of the whole recording and of times outside of steps, and most idle times."""
_AT_ONCE = 100_000
"""Events that are joined at once, where there are far more than `MOST` (own choice: 10 MB)."""
_BLOCK = 1 << 10
"""Rows that are looked at together (own choice: a tenth of a step of ten thousand events)."""
_LANES = 24
"""Most lanes of a kind (own choice: more fit no screen)."""
_OUTSIDE = 3
"""Most times outside of the steps."""
_PHASES = 3
"""Levels of nested marks."""
OF_EVENTS = ("host", "launches", "device", "accelerator")
"""Kinds of lanes whose counts sum to the events of a time; the others are about the same events."""
_OF_THREADS = ("marks", "owners", "host", "launches")


class SliceTime(msgspec.Struct, frozen=True):
    """A time of which the slices are known."""

    kind: str
    """`typical`, `slowest`, `first` (steps), `outside` (of the typical steps), or `recording` (all of it)."""
    name: str | None
    """Number of the step or the framework's mark; of a time outside of the steps why, as in the analysis `recording`;
    null for the whole recording."""
    start_ns: int
    """Start in ns since the first event."""
    duration_ns: int
    """Duration in ns."""
    resolution_ns: int
    """Slices shorter than this may be joined to blocks; 0 if there are no blocks."""
    events: int
    """Number of events that run in it: host events, runtime calls, and work of devices."""
    hidden_lanes: int
    """Number of threads and streams with less to show that are left out."""
    hidden_events: int
    """Number of their events."""
    lanes: tuple[SliceLane, ...]
    """Marks, owners, threads, runtime calls, streams; of each kind the busiest first."""
    idle_start: tuple[int, ...]
    """Starts of the times in which the busiest device is idle for one cause, each as ns from the start of the one
    before; within steps, as far as causes are known."""
    idle_duration: tuple[int, ...]
    """Their durations in ns."""
    idle_cause: tuple[int, ...]
    """Their causes, by position in `causes`."""
    idle_omitted: int
    """Number of the shortest such times that are left out."""
    idle_omitted_ns: int
    """Duration of these in ns."""


class RecordedSlices(msgspec.Struct, frozen=True):
    """The slices of some times of the recording."""

    names: tuple[str, ...]
    """Names of events and owners, which slices refer to by position."""
    causes: tuple[str, ...]
    """Ids of causes of idle time, as in the analysis `idle`."""
    device: int | None
    """Number of the device whose idle times are listed; null without a device."""
    frames: int
    """Number of recorded calls of Python functions, which are in no lane, except for those of modules."""
    times: tuple[SliceTime, ...]
    """The typical step that is shown, the slowest and the first step, the longest times outside of the typical steps,
    the whole recording; each only once."""


def analyze(context: Context) -> RecordedSlices:
    """The slices of the times that a page shows."""
    names: StringPool[str] = StringPool()
    tables = list(_tables(context, names))
    device, _ = busiest(context, typical.times(context))
    times = [_time(context, tables, device, chosen) for chosen in _chosen(context)]
    frames = len(context.trace.frames) - int((context.host.kind == NodeKind.MODULE).sum())
    return RecordedSlices(tuple(names.values()), CAUSES, device, frames, tuple(times))


class _Chosen(msgspec.Struct, frozen=True):
    """A time that is shown, with the number of slices that it may have."""

    kind: str
    name: str | None
    start_ns: int
    end_ns: int
    most: int


def _chosen(context: Context) -> Iterator[_Chosen]:
    steps = program_steps(context)
    rows = {"typical": recording.shown_step(context)}
    rows |= {"slowest": int((steps.end_ns - steps.start_ns).argmax()), "first": 0}
    for kind, row in rows.items():
        if next(other for other, same in rows.items() if same == row) == kind:
            yield _Chosen(kind, steps.names[row], int(steps.start_ns[row]), int(steps.end_ns[row]), MOST)
    shown = [(int(steps.start_ns[row]), int(steps.end_ns[row])) for row in rows.values()]
    outside = recorded(context).outside
    longest = sorted(outside, key=lambda part: -part.duration_ns)[:_OUTSIDE]
    for part in sorted(longest, key=lambda part: part.start_ns):
        start, end = part.start_ns, part.start_ns + part.duration_ns
        if not any(first <= start and end <= last for first, last in shown):
            yield _Chosen("outside", part.kind, start, end, _FEW)
    if len(steps) > 1 or outside:
        yield _Chosen("recording", None, 0, context.trace.info.span_ns, _FEW)


class _Table(msgspec.Struct, frozen=True, dict=True):
    """All slices of a kind, and what their lanes are called."""

    kind: str
    slices: SliceTable | Tree | OwnerTimeline
    lane: Array
    name: Array
    """Code of each name."""
    label: Callable[[int], str]
    codes: I64
    """Position in the result of each code."""
    depth: Array | None = None
    launch: I64 | None = None

    def within(self, chosen: _Chosen) -> SliceRows:
        """The slices that run in a time, from its start on and cut to it; too many are joined at once."""
        start, end = chosen.start_ns, chosen.end_ns
        from_ns, to_ns = self._times
        if chosen.kind == "recording":  # what takes no time at the very end belongs to it
            rows = np.arange(len(from_ns))
        else:
            rows = self._near(start, end)
            rows = rows[(from_ns[rows] < end) & ((to_ns[rows] > start) | (from_ns[rows] >= start))]
        if self.kind == "marks" and self.depth is not None:
            rows = rows[self.depth[rows] < _PHASES]
        if are_few(len(rows), chosen.most):
            return self._rows(rows, np.maximum(from_ns[rows], start) - start, np.minimum(to_ns[rows], end) - start)
        parts = np.array_split(rows, max(1, len(rows) // _AT_ONCE))
        return coarse(SliceRows.of([self._joined(part, chosen) for part in parts]), chosen.most, end - start)

    @cached_property
    def _times(self) -> tuple[I64, I64]:
        return self.slices.start_ns, self.slices.end_ns

    def _near(self, start: int, end: int) -> I64:
        """Rows among which are all that run in a time, ascending: those of blocks that have some before and after."""
        low, high = self._bounds
        blocks = np.flatnonzero((low < end) & (high >= start))
        rows = (blocks[:, None] * _BLOCK + np.arange(_BLOCK)).ravel()
        return rows[: np.searchsorted(rows, len(self._times[0]))]

    @cached_property
    def _bounds(self) -> tuple[I64, I64]:
        """The first start and the last end of each block of rows."""
        from_ns, to_ns = self._times
        first = np.arange(0, len(from_ns), _BLOCK)
        return np.minimum.reduceat(from_ns, first), np.maximum.reduceat(to_ns, first)

    def _joined(self, rows: I64, chosen: _Chosen) -> SliceRows:
        """Some slices, cut to a time and joined."""
        start, end, first, last = chosen.start_ns, chosen.end_ns, int(rows[0]), int(rows[-1])
        own = slice(first, last + 1) if last - first + 1 == len(rows) else rows  # neighbours need not be gathered
        from_ns, to_ns = np.maximum(self._times[0][own], start) - start, np.minimum(self._times[1][own], end) - start
        lane, depth = self.lane[own], np.zeros(len(rows), np.int16) if self.depth is None else self.depth[own]
        order = in_order(lane, depth, from_ns)
        rows, to_ns = rows[order], to_ns[order]
        cell = coarse_cell(chosen.most, end - start)
        begins, longest = blocks(lane[order], depth[order], from_ns[order], to_ns, cell)
        found = self._rows(rows[begins], from_ns[order[begins]], np.maximum.reduceat(to_ns, begins))
        count = np.diff(np.append(begins, len(rows)))
        return replace(
            found,
            name=self.codes[self.name[rows[longest]]],
            count=count,
            row=np.where(count == 1, found.row, -1),
            launch=np.where(count == 1, found.launch, -1),
        )

    def _rows(self, rows: I64, start_ns: I64, end_ns: I64) -> SliceRows:
        """Some slices with the given times."""
        none = np.full(len(rows), -1)
        return SliceRows(
            self.lane[rows].astype(np.int64),
            np.zeros(len(rows), np.int64) if self.depth is None else self.depth[rows].astype(np.int64),
            start_ns,
            end_ns,
            self.codes[self.name[rows]],
            np.ones(len(rows), np.int64),
            rows if self.kind == "launches" else none,
            none if self.launch is None else self.launch[rows],
        )


def _tables(context: Context, names: StringPool[str]) -> Iterator[_Table]:
    """The tables of all events, and those of marks and owners, which are about the same events."""
    trace, tree, calls, device, other = (
        context.trace,
        context.host.tree,
        context.trace.launches,
        context.trace.device,
        context.trace.accelerator,
    )
    codes = np.array([names.encode(name) for name in trace.names], np.int64)
    threads, marks = [f"{thread.pid}/{thread.tid}" for thread in trace.threads], context.cached(forest)
    yield _Table(
        "marks", marks.tree, marks.tree.thread, marks.name[marks.place], threads.__getitem__, codes, marks.tree.depth
    )
    index = context.cached(owner_index)
    owners = np.array([names.encode(place(own) or own.name) for own in index.owners], np.int64)
    yield _Table("owners", *_owned(index.timeline), threads.__getitem__, owners)
    yield _Table("host", tree, tree.thread, context.host.name, threads.__getitem__, codes, tree.depth)
    yield _Table("launches", calls, calls.thread, calls.name, threads.__getitem__, codes)
    first, lane = group(device.device, device.stream)
    labels = [f"{d}/{s}" for d, s in zip(device.device[first].tolist(), device.stream[first].tolist(), strict=True)]
    yield _Table("device", device, lane, device.name, labels.__getitem__, codes, launch=context.links.launch)
    first, lane = group(other.vendor, other.device, other.stream)
    keys = zip(*(key[first].tolist() for key in (other.vendor, other.device, other.stream)), strict=True)
    labels = [f"{accelerators.NAMES[Vendor(v)]} {d}/{s}" for v, d, s in keys]
    yield _Table("accelerator", other, lane, other.name, labels.__getitem__, codes)


def _owned(parts: OwnerTimeline) -> tuple[OwnerTimeline, I64, I64]:
    """The part of the program that the critical thread is in, by thread and owner; neighbours of one owner are one."""
    known = np.flatnonzero(parts.owner >= 0)
    thread, start, end, owner = (column[known] for column in (parts.thread, parts.start_ns, parts.end_ns, parts.owner))
    begins = np.ones(len(known), np.bool_)
    begins[1:] = (owner[1:] != owner[:-1]) | (thread[1:] != thread[:-1]) | (start[1:] != end[:-1])
    first, last = np.flatnonzero(begins), np.flatnonzero(np.append(begins[1:], True)[: len(known)])
    found = OwnerTimeline(start[first], end[last], thread[first], owner[first])
    return found, found.thread, found.owner


@cached
def _roles(context: Context) -> dict[str, str]:
    """What threads are for, by their labels, as far as that is known."""
    host, threads, own = context.trace.host, context.trace.threads, context.cached(engines)
    loading, working = (
        sum_by(host.thread, np.where(of, host.dur_ns, 0), len(threads))
        for of in (context.kind == NodeKind.DATALOADER, host.category == Category.OPERATOR)
    )
    launching = [thread for thread in host_activity.launching_threads(context) if thread not in own]
    others = [
        thread for thread in np.argsort(-working, kind="stable").tolist() if working[thread] and thread not in own
    ]
    found = dict.fromkeys(np.flatnonzero(loading > working).tolist(), "loader")
    found |= dict.fromkeys(own, "autograd") | dict.fromkeys((launching or others)[:1], "main")
    return {f"{threads[thread].pid}/{threads[thread].tid}": role for thread, role in found.items()}


def _time(context: Context, tables: list[_Table], device: int | None, chosen: _Chosen) -> SliceTime:
    duration = chosen.end_ns - chosen.start_ns
    places: list[LanePlace] = []
    details, events = [SliceRows.none()], [SliceRows.none()]
    total = hidden = hidden_lanes = 0
    for table in tables:
        rows, known = table.within(chosen), _roles(context) if table.kind in _OF_THREADS else {}
        order = _busiest(rows)
        shown = rows.take(np.isin(rows.lane, order[:_LANES])).renumbered(order, len(places))
        places += [
            LanePlace(table.kind, label, known.get(label)) for label in map(table.label, order[:_LANES].tolist())
        ]
        if table.kind not in OF_EVENTS:
            details.append(shown)
            continue
        events.append(shown)
        hidden_lanes += len(order[_LANES:])
        total, hidden = total + int(rows.count.sum()), hidden + int(rows.count.sum() - shown.count.sum())
    fewer, _ = fitting(SliceRows.of(details), _FEW, duration)
    kept, cell = fitting(SliceRows.of(events), chosen.most, duration)
    lanes = tuple(columns(SliceRows.of((fewer, kept)), places))
    frame = (chosen.kind, chosen.name, chosen.start_ns, duration, cell)
    idle = _idle(context, device, chosen.start_ns, chosen.end_ns)
    return SliceTime(*frame, total, hidden_lanes, hidden, lanes, *idle)


def _busiest(rows: SliceRows) -> I64:
    """The lanes, those with most time in their outermost slices first."""
    lanes, own = np.unique(rows.lane, return_inverse=True)
    time = sum_by(own, np.where(rows.depth == 0, rows.end_ns - rows.start_ns, 0), len(lanes))
    return lanes[np.lexsort((lanes, -time))]


def _idle(
    context: Context, device: int | None, start: int, end: int
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int, int]:
    """Starts, durations and causes of the idle times of a device; how many are left out, and their time."""
    if device is None:
        return (), (), (), 0, 0
    steps = program_steps(context)
    every = idle_times.divide(context, device, steps.every if idle_times.are_disjoint(steps.every) else steps.typical)
    from_ns, to_ns, cause = every.pieces
    rows = np.flatnonzero((to_ns > start) & (from_ns < end))
    from_ns, to_ns, cause = np.maximum(from_ns[rows], start) - start, np.minimum(to_ns[rows], end) - start, cause[rows]
    length = to_ns - from_ns
    longest = _longest(length, _FEW)
    return (
        differences(from_ns[longest]),
        tuple(length[longest].tolist()),
        tuple(cause[longest].tolist()),
        len(rows) - len(longest),
        int(length.sum() - length[longest].sum()),
    )


def _longest(length: I64, most: int) -> I64:
    """Rows of the longest, at most so many, ascending; of equally long ones the first."""
    if len(length) <= most:
        return np.arange(len(length))
    least = np.partition(length, len(length) - most)[len(length) - most]
    longer = np.flatnonzero(length > least)
    return ascending(np.append(longer, np.flatnonzero(length == least)[: most - len(longer)]))


ANALYSES = (Analysis(135, "slices", RecordedSlices, analyze, needs=(STEPS,)),)
