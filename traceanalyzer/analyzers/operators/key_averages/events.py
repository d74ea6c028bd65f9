"""Which events of a trace torch makes rows of, in which order, and to which operator each belongs: by ids alone."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

import msgspec
import numpy as np

from traceanalyzer.knowledge import marks
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.strings import Answers, StringPool
from traceanalyzer.trace.table import I32, I64, U8, UNKNOWN, Array, Bool, take_or
from traceanalyzer.trace.tables import (
    Category,
    DeviceEvents,
    Frames,
    GpuAnnotations,
    HostEvents,
    Launches,
    Overheads,
    Syncs,
)
from traceanalyzer.trace.tree import NO_PARENT

MEMORY = "[memory]"

_LEFT_OUT = frozenset(
    (
        MEMORY,
        "[OutOfMemory]",
        "profiler::_record_function_enter",
        "profiler::_record_function_enter_new",
        "profiler::_record_function_exit",
        "aten::is_leaf",
        "aten::output_nr",
        "aten::_version",
    )
)
"""Utilities that torch leaves out (`_filter_name` in torch/autograd/profiler_util.py)."""
Columns = dict[str, Array]
Slices = HostEvents | Frames | Launches | Overheads | DeviceEvents | Syncs | GpuAnnotations


class EventKind(IntEnum):
    """Kinds of events; those up to MEMORY run on the CPU."""

    OPERATOR = 0
    ANNOTATION = 1
    FRAME = 2
    CALL = 3
    """A call of the device's runtime or driver."""
    OVERHEAD = 4
    MEMORY = 5
    """An allocation or free outside of all other events."""
    DEVICE = 6
    DEVICE_ANNOTATION = 7


class AveragedEvents(msgspec.Struct, frozen=True):
    """The events in torch's order: by start, longest first."""

    start_ns: I64
    end_ns: I64
    name: I32
    """Row in `names`."""
    kind: U8
    thread: I32
    """Thread that an event on the CPU counts for; calls count for the thread of their operator."""
    ident: I64
    """Id by which calls and device events refer to the event; 0 for none."""
    linked: I64
    """Id of the operator that a call or device event belongs to; 0 for none."""
    shapes: I32
    """Code of the input shapes in the trace's pool."""
    row: I32
    """Row in the trace's table of the event's kind."""
    names: tuple[str, ...]
    """Names as torch prints them."""

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def on_device(self) -> Bool:
        """Which events ran on the device."""
        return self.kind >= EventKind.DEVICE

    @property
    def is_user_annotation(self) -> Bool:
        """Which events are ranges that the user named, on the CPU or on the device."""
        annotation: Bool = (self.kind == EventKind.ANNOTATION) | (self.kind == EventKind.DEVICE_ANNOTATION)
        return annotation


def collect(context: Context) -> AveragedEvents:
    """The events of a trace that become rows."""
    trace = context.trace
    pool: StringPool[str] = StringPool(MEMORY)
    codes = pool.codes(map(_as_printed, trace.names), len(trace.names))
    left_out = trace.names.where(_LEFT_OUT.__contains__)
    parts = [_kept(part, left_out, codes) for part in _slices(context)]
    on_cpu = [part for part in parts if part["kind"].size and part["kind"][0] < EventKind.DEVICE]
    parts.append(_memory(trace, on_cpu))
    columns = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    order = np.lexsort((-columns["end_ns"], columns["start_ns"]))
    columns = {key: values[order] for key, values in columns.items()}
    _follow_operators(columns)
    return AveragedEvents(**columns, names=tuple(pool.values()))


def _as_printed(name: str) -> str:
    return "ProfilerStep*" if name.startswith("ProfilerStep#") else name


def _slices(context: Context) -> Iterable[Columns]:
    """The columns of every table whose events are rows; names are still the trace's."""
    trace = context.trace
    host, launches, device = trace.host, trace.launches, trace.device
    stopped = _stopping_thread(trace)
    linked = linked_ids(context)
    named = host.category == Category.ANNOTATION
    yield _columns(
        host,
        np.where(named, EventKind.ANNOTATION, EventKind.OPERATOR),
        thread=host.thread,
        ident=np.maximum(host.external_id, 0),
        shapes=host.shapes,
    )
    yield _columns(trace.frames, EventKind.FRAME, thread=trace.frames.thread)
    yield _columns(
        launches,
        EventKind.CALL,
        thread=np.where(linked.launches > 0, launches.thread, stopped),
        ident=np.where(linked.launches > 0, 0, np.maximum(launches.correlation, 0)),
        linked=linked.launches,
    )
    yield _columns(trace.overheads, EventKind.OVERHEAD, thread=np.full(len(trace.overheads), stopped))
    yield _columns(device, EventKind.DEVICE, linked=linked.device)
    yield _columns(trace.syncs, EventKind.DEVICE, linked=linked.syncs)
    yield _columns(trace.gpu_annotations, EventKind.DEVICE_ANNOTATION)


def _columns(table: Slices, kind: Array | EventKind, **known: Array) -> Columns:
    size = len(table.start_ns)
    columns: Columns = {
        "start_ns": table.start_ns,
        "end_ns": table.end_ns,
        "name": table.name,
        "kind": np.broadcast_to(np.asarray(kind, np.uint8), size),
        "row": np.arange(size, dtype=np.int32),
    }
    for key, dtype in (("thread", np.int32), ("ident", np.int64), ("linked", np.int64), ("shapes", np.int32)):
        columns[key] = known[key].astype(dtype, copy=False) if key in known else np.zeros(size, dtype)
    return columns


def _kept(part: Columns, left_out: Answers, codes: I32) -> Columns:
    kept = ~left_out[part["name"]]
    part = part if kept.all() else {key: values[kept] for key, values in part.items()}
    return part | {"name": codes[part["name"]]}


def _memory(trace: Trace, on_cpu: list[Columns]) -> Columns:
    """Records of memory during which nothing ran on the CPU: events without length, of code 0."""
    started = trace.memory.start_ns
    change = np.zeros(len(started) + 1, np.int64)
    if len(started):
        for part in on_cpu:
            np.add.at(change, np.searchsorted(started, part["start_ns"], side="left"), 1)
            np.add.at(change, np.searchsorted(started, part["end_ns"], side="right"), -1)
    rows = np.flatnonzero(np.cumsum(change[:-1]) == 0)
    alone = trace.memory.take(rows)
    nothing = np.zeros(len(rows), np.int64)
    return {
        "start_ns": alone.start_ns,
        "end_ns": alone.start_ns,
        "name": nothing.astype(np.int32),
        "kind": np.full(len(rows), EventKind.MEMORY, np.uint8),
        "row": rows.astype(np.int32),
        "thread": alone.thread,
        "ident": nothing,
        "linked": nothing,
        "shapes": nothing.astype(np.int32),
    }


def _stopping_thread(trace: Trace) -> int:
    """The thread that ended the profile, to which torch counts calls and overheads that no operator made."""
    host = trace.host
    steps = np.flatnonzero(trace.names.where(marks.is_step)[host.name])
    if len(steps):
        return int(host.thread[steps[0]])
    main = [row for row, thread in enumerate(trace.threads) if thread.pid == thread.tid]
    used = np.concatenate((host.thread, trace.frames.thread, trace.launches.thread))
    return next((row for row in main if (used == row).any()), int(used[0]) if len(used) else 0)


def _follow_operators(columns: Columns) -> None:
    """Assign calls to the thread of the operator that they belong to."""
    calls = np.flatnonzero((columns["kind"] == EventKind.CALL) & (columns["linked"] > 0))
    if len(calls):
        owner = EventOwners(columns["ident"]).last(columns["linked"][calls])
        columns["thread"][calls[owner >= 0]] = columns["thread"][owner[owner >= 0]]


class EventOwners:
    """Finds events by their id; several may share one."""

    def __init__(self, ident: I64) -> None:
        """The ids of all events, 0 for events without an id."""
        known = np.flatnonzero(ident > 0)
        self._events = known[np.argsort(ident[known], kind="stable")]
        self._ids = ident[self._events]

    def last(self, ids: I64) -> I64:
        """For each id the last event that has it, or -1."""
        first, end = self._range(ids)
        found = take_or(self._events, end - 1, NO_PARENT)
        return np.where(end > first, found, NO_PARENT)

    def all(self, ids: I64) -> tuple[I64, I64]:
        """All pairs of a position in `ids` and an event with that id."""
        first, end = self._range(ids)
        count = end - first
        position = np.repeat(np.arange(len(ids)), count)
        nth = np.arange(len(position)) - np.repeat(np.cumsum(count) - count, count)
        return position, self._events[first[position] + nth]

    def _range(self, ids: I64) -> tuple[I64, I64]:
        return np.searchsorted(self._ids, ids, side="left"), np.searchsorted(self._ids, ids, side="right")


class Linked(msgspec.Struct, frozen=True):
    """Id of the operator of every event of three tables; 0 for none."""

    launches: I64
    device: I64
    syncs: I64


def linked_ids(context: Context) -> Linked:
    """The recorded ids; if the trace has correlations in their place, the correct ids."""
    trace = context.trace
    launches = _by_containment(context) if _confused(trace) else _as_written(trace)
    calls = EventOwners(np.maximum(trace.launches.correlation, 0))
    of_call = np.append(launches, 0)
    written = np.maximum(trace.device.external_id, 0)
    doubtful = (written == trace.device.correlation) & (written > 0)
    device = np.where(doubtful, of_call[calls.last(trace.device.correlation)], written)
    return Linked(launches, device, of_call[calls.last(trace.syncs.correlation)])


def _confused(trace: Trace) -> bool:
    """Whether the writer put the correlation where the operator's id belongs, as from 2022 to 2023."""
    launches = trace.launches
    known = (launches.external_id > 0) & (launches.correlation > 0)
    same = launches.external_id[known] == launches.correlation[known]
    return bool(len(same) and same.mean() > 0.5)


def _by_containment(context: Context) -> I64:
    """Take the id of the innermost operator around the launch."""
    host = context.host
    row = np.where(host.kind == NodeKind.MODULE, UNKNOWN, host.row)  # rows of modules are of another table
    ids = take_or(np.maximum(context.trace.host.external_id, 0), row, 0)
    return take_or(ids, context.links.node, 0)


def _as_written(trace: Trace) -> I64:
    """Take the ids as written, except where a call without an operator has its correlation for an id (until 2024)."""
    host, launches = trace.host, trace.launches
    ids = np.maximum(launches.external_id, 0)
    doubtful = np.flatnonzero((ids == launches.correlation) & (ids > 0))
    if len(doubtful) and len(host):
        owner = EventOwners(np.maximum(host.external_id, 0)).last(ids[doubtful])
        start = host.start_ns[owner]
        end = host.start_ns[owner] + host.dur_ns[owner]
        at = launches.start_ns[doubtful]
        around = (owner != NO_PARENT) & (host.thread[owner] == launches.thread[doubtful]) & (start <= at) & (at < end)
        ids[doubtful[~around]] = 0
    return ids
