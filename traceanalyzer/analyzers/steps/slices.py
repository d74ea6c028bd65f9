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
)
from traceanalyzer.knowledge import accelerators
from traceanalyzer.structure import gaps, host_activity, idle_times, recording, typical
from traceanalyzer.structure.analysis import STEPS, Analysis
from traceanalyzer.structure.autograd import engines
from traceanalyzer.structure.context import Context, cached
from traceanalyzer.structure.gap_causes import CAUSES
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.mark_forest import forest
from traceanalyzer.structure.owners import OwnerTimeline, owner_index, place
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.structure.resources import waits_of_host
from traceanalyzer.structure.sums import group, sum_by
from traceanalyzer.trace.distinct import ascending, narrow
from traceanalyzer.trace.intervals import Intervals
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
    wait_start: tuple[int, ...] = ()
    """Starts of the times in which the host only waits for the device: synchronizations, copies that block, full
    queues; each as ns from the start of the one before. The longest; empty in reports of old versions."""
    wait_duration: tuple[int, ...] = ()
    """Their durations in ns."""


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
    device = typical.device(context)
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
    slowest = int((steps.end_ns - steps.start_ns).argmax())
    rows = {"typical": recording.shown_step(context), "slowest": slowest, "first": 0}
    shown: dict[int, _Chosen] = {}
    for kind, row in rows.items():
        if row not in shown:
            shown[row] = _Chosen(kind, steps.names[row], int(steps.start_ns[row]), int(steps.end_ns[row]), MOST)
    yield from shown.values()
    outside = recorded(context).outside
    longest = sorted(outside, key=lambda part: -part.duration_ns)[:_OUTSIDE]
    for part in sorted(longest, key=lambda part: part.start_ns):
        start = part.start_ns
        end = start + part.duration_ns
        if not any(step.start_ns <= start and end <= step.end_ns for step in shown.values()):
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
        from_ns, to_ns, lane, depth = self._cut(rows, chosen)
        order = np.lexsort((narrow(depth), narrow(lane)))  # rows of a lane are in the order of time
        rows = rows[order]
        to_ns = to_ns[order]
        cell = coarse_cell(chosen.most, chosen.end_ns - chosen.start_ns)
        begins, longest = blocks(lane[order], depth[order], from_ns[order], to_ns, cell)
        joined = self._rows(rows[begins], from_ns[order[begins]], np.maximum.reduceat(to_ns, begins))
        count = np.diff(np.append(begins, len(rows)))
        return replace(
            joined,
            name=self.codes[self.name[rows[longest]]],
            count=count,
            row=np.where(count == 1, joined.row, -1),
            launch=np.where(count == 1, joined.launch, -1),
        )

    def _cut(self, rows: I64, chosen: _Chosen) -> tuple[I64, I64, Array, Array]:
        """Start and end of some slices within a time, from its start on, their lanes and their depths."""
        start, end = chosen.start_ns, chosen.end_ns
        from_ns, to_ns = self._times
        first = int(rows[0])
        behind = int(rows[-1]) + 1
        taken = slice(first, behind) if behind - first == len(rows) else rows  # neighbours need not be gathered
        return (
            np.maximum(from_ns[taken], start) - start,
            np.minimum(to_ns[taken], end) - start,
            self.lane[taken],
            np.zeros(len(rows), np.int16) if self.depth is None else self.depth[taken],
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
    trace, host = context.trace, context.host
    codes = np.array([names.encode(name) for name in trace.names], np.int64)
    threads = [f"{thread.pid}/{thread.tid}" for thread in trace.threads]
    thread = threads.__getitem__
    marks = context.cached(forest)
    index = context.cached(owner_index)
    owners = np.array([names.encode(place(owner) or owner.name) for owner in index.owners], np.int64)
    calls = trace.launches
    yield _Table("marks", marks.tree, marks.tree.thread, marks.name[marks.place], thread, codes, depth=marks.tree.depth)
    yield _Table("owners", *_owned(index.timeline), thread, owners)
    yield _Table("host", host.tree, host.tree.thread, host.name, thread, codes, depth=host.tree.depth)
    yield _Table("launches", calls, calls.thread, calls.name, thread, codes)
    yield _of_gpus(context, codes)
    yield _of_accelerators(context, codes)


def _of_gpus(context: Context, codes: I64) -> _Table:
    """Events of GPUs, a lane for each stream."""
    events = context.trace.device
    first, lane = gaps.streams(context)
    streams = zip(events.device[first].tolist(), events.stream[first].tolist(), strict=True)
    labels = [f"{device}/{stream}" for device, stream in streams]
    return _Table("device", events, lane, events.name, labels.__getitem__, codes, launch=context.links.launch)


def _of_accelerators(context: Context, codes: I64) -> _Table:
    """Events of other accelerators, a lane for each stream."""
    events = context.trace.accelerator
    keys = (events.vendor, events.device, events.stream)
    first, lane = group(*keys)
    streams = zip(*(key[first].tolist() for key in keys), strict=True)
    labels = [f"{accelerators.NAMES[Vendor(vendor)]} {device}/{stream}" for vendor, device, stream in streams]
    return _Table("accelerator", events, lane, events.name, labels.__getitem__, codes)


def _owned(parts: OwnerTimeline) -> tuple[OwnerTimeline, I64, I64]:
    """The part of the program that the critical thread is in, by thread and owner; neighbours of one owner are one."""
    known = np.flatnonzero(parts.owner >= 0)
    thread = parts.thread[known]
    start = parts.start_ns[known]
    end = parts.end_ns[known]
    owner = parts.owner[known]
    begins = np.ones(len(known), np.bool_)
    begins[1:] = (owner[1:] != owner[:-1]) | (thread[1:] != thread[:-1]) | (start[1:] != end[:-1])
    first = np.flatnonzero(begins)
    last = np.flatnonzero(np.append(begins[1:], True)[: len(known)])
    joined = OwnerTimeline(start[first], end[last], thread[first], owner[first], parts.slice[known[first]])
    return joined, joined.thread, joined.owner


@cached
def _roles(context: Context) -> dict[str, str]:
    """What threads are for, by their labels, as far as that is known."""
    host, threads = context.trace.host, context.trace.threads
    autograd = context.cached(engines)
    loading = sum_by(host.thread, np.where(context.kind == NodeKind.DATALOADER, host.dur_ns, 0), len(threads))
    working = sum_by(host.thread, np.where(host.category == Category.OPERATOR, host.dur_ns, 0), len(threads))
    busiest = np.argsort(-working, kind="stable").tolist()
    launching = [thread for thread in host_activity.launching_threads(context) if thread not in autograd]
    others = [thread for thread in busiest if working[thread] and thread not in autograd]
    roles = dict.fromkeys(np.flatnonzero(loading > working).tolist(), "loader")
    roles |= dict.fromkeys(autograd, "autograd")
    roles |= dict.fromkeys((launching or others)[:1], "main")
    return {f"{threads[thread].pid}/{threads[thread].tid}": role for thread, role in roles.items()}


class _Lanes(msgspec.Struct):
    """The lanes of a time with their slices, those of all tables so far."""

    places: list[LanePlace] = []
    details: list[SliceRows] = msgspec.field(default_factory=lambda: [SliceRows.none()])
    """Slices of marks and owners."""
    events: list[SliceRows] = msgspec.field(default_factory=lambda: [SliceRows.none()])
    total: int = 0
    """Number of all events."""
    hidden: int = 0
    """Number of events of lanes that are not shown."""
    hidden_lanes: int = 0

    def add(self, table: _Table, rows: SliceRows, roles: dict[str, str]) -> None:
        """Add the busiest lanes of a table."""
        order = _busiest(rows)
        shown = rows.take(np.isin(rows.lane, order[:_LANES])).renumbered(order, len(self.places))
        for label in map(table.label, order[:_LANES].tolist()):
            self.places.append(LanePlace(table.kind, label, roles.get(label)))
        if table.kind not in OF_EVENTS:
            self.details.append(shown)
            return
        self.events.append(shown)
        count = int(rows.count.sum())
        self.total += count
        self.hidden += count - int(shown.count.sum())
        self.hidden_lanes += len(order[_LANES:])


def _time(context: Context, tables: list[_Table], device: int | None, chosen: _Chosen) -> SliceTime:
    duration = chosen.end_ns - chosen.start_ns
    lanes = _Lanes()
    for table in tables:
        lanes.add(table, table.within(chosen), _roles(context) if table.kind in _OF_THREADS else {})
    details, _ = fitting(SliceRows.of(lanes.details), _FEW, duration)
    events, cell = fitting(SliceRows.of(lanes.events), chosen.most, duration)
    frame = (chosen.kind, chosen.name, chosen.start_ns, duration, cell)
    shown = tuple(columns(SliceRows.of((details, events)), lanes.places))
    idle = _idle(context, device, chosen.start_ns, chosen.end_ns)
    waits = _waits(context, chosen.start_ns, chosen.end_ns)
    return SliceTime(*frame, lanes.total, lanes.hidden_lanes, lanes.hidden, shown, *idle, *waits)


def _busiest(rows: SliceRows) -> I64:
    """The lanes, those with most time in their outermost slices first."""
    lanes, lane = np.unique(rows.lane, return_inverse=True)
    outermost = np.where(rows.depth == 0, rows.end_ns - rows.start_ns, 0)
    time = sum_by(lane, outermost, len(lanes))
    return lanes[np.lexsort((lanes, -time))]


def _idle(
    context: Context, device: int | None, start: int, end: int
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int, int]:
    """Starts, durations and causes of the idle times of a device; how many are left out, and their time."""
    if device is None:
        return (), (), (), 0, 0
    steps = program_steps(context)
    divided = steps.every if idle_times.are_disjoint(steps.every) else steps.typical
    from_ns, to_ns, cause = idle_times.divide(context, device, divided).pieces
    rows = np.flatnonzero((to_ns > start) & (from_ns < end))
    from_ns = np.maximum(from_ns[rows], start) - start
    to_ns = np.minimum(to_ns[rows], end) - start
    cause = cause[rows]
    length = to_ns - from_ns
    longest = _longest(length, _FEW)
    return (
        differences(from_ns[longest]),
        tuple(length[longest].tolist()),
        tuple(cause[longest].tolist()),
        len(rows) - len(longest),
        int(length.sum() - length[longest].sum()),
    )


def _waits(context: Context, start: int, end: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Starts and durations of the times in which the host only waits for the device."""
    found = context.cached(_waits_of_host)
    rows = np.flatnonzero((found.end > start) & (found.start < end))
    from_ns = np.maximum(found.start[rows], start) - start
    length = np.minimum(found.end[rows], end) - start - from_ns
    longest = _longest(length, _FEW)
    return differences(from_ns[longest]), tuple(length[longest].tolist())


def _waits_of_host(context: Context) -> Intervals:
    return waits_of_host(context, None)


def _longest(length: I64, most: int) -> I64:
    """Rows of the longest, at most so many, ascending; of equally long ones the first."""
    if len(length) <= most:
        return np.arange(len(length))
    least = np.partition(length, len(length) - most)[len(length) - most]
    longer = np.flatnonzero(length > least)
    return ascending(np.append(longer, np.flatnonzero(length == least)[: most - len(longer)]))


ANALYSES = (Analysis(135, "slices", RecordedSlices, analyze, needs=(STEPS,), is_for_files=True),)
