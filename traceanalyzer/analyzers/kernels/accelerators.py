"""What do devices do that write no kernels: MTIA cards, Ascend NPUs, Gaudi?

Their events are of different kinds: work, transfers, communication, waiting and bookkeeping
(`knowledge/accelerators.py`), so a sum over all of them is meaningless. A device is busy while work, a transfer or
communication runs; waiting of a queue does not count.

The legacy profiler measured operators between two marks on the GPU. One is around those inside it, so a task has its
own time. The GPU may wait for the CPU between the marks; it surely works only after the operator has returned.
"""

from __future__ import annotations

from functools import partial

import msgspec
import numpy as np

from traceanalyzer.knowledge.accelerators import BUSY, NAMES, TaskKind, task_kind
from traceanalyzer.report.message import Text
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.sums import group, members, sum_by
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, U8, UNKNOWN, Bool
from traceanalyzer.trace.tables import Vendor
from traceanalyzer.trace.tree import NO_PARENT, Tree

_KINDS = tuple(TaskKind)


class AcceleratorTask(msgspec.Struct, frozen=True):
    """All events of one name and type on one device."""

    name: str
    """Name of the events as recorded."""
    kind: str
    """What the device does: `work`, `communication`, `transfer`, `waiting`, or `control` (bookkeeping)."""
    task: str | None
    """Type of task (NPU) or engine (HPU) as recorded; null if it was not recorded."""
    calls: int
    """Number of events."""
    total_ns: int
    """Sum of the durations in ns within the window, overlap counted twice; of operators (CUDA) without those inside."""
    max_ns: int
    """Longest duration in ns."""


class AcceleratorUse(msgspec.Struct, frozen=True):
    """One device over the window: times are unions, so overlapping queues count once."""

    vendor: str
    """Kind of device: `MTIA`, `NPU`, `HPU`, or `CUDA` in a list of the legacy profiler."""
    device: int | None
    """Number of the device as in the trace; null if it is not recorded."""
    events: int
    """Number of events of the device that lie in the window, waiting included."""
    streams: int
    """Number of streams, queues or engines on which the events ran."""
    span_ns: int
    """Time in ns from the start of the first to the end of the last event of the device, within the window."""
    busy_ns: int
    """Time in ns in which work, a transfer or communication runs on the device."""
    busy_share: float | None
    """Share of the window (0 to 1) in which the device is busy; null without a window."""
    busy_share_of_span: float | None
    """Share of `span_ns` (0 to 1) in which the device is busy (its state before and after is unknown); null if all
    events have no duration."""
    work_ns: int
    """Time in ns in which work runs."""
    communication_ns: int
    """Time in ns in which communication with other devices runs."""
    transfer_ns: int
    """Time in ns in which a transfer runs."""
    waiting_ns: int
    """Time in ns in which a queue waits for another queue or for the host; this is not busy time."""
    only_waiting_ns: int
    """Part of the waiting in ns in which the device is not busy."""
    tasks: tuple[AcceleratorTask, ...]
    """One row per name and type: kinds that keep the device busy first, then by time, the most first."""
    returned_ns: int | None = None
    """Part of `busy_ns` in ns, at least, in which the operator that put the work on the device has returned on the CPU,
    so that the device does not wait for it; null unless the list is one of the legacy profiler."""


class Accelerators(msgspec.Struct, frozen=True):
    """All devices that write no kernels."""

    window_ns: int
    """Length of the window in ns: the chosen steps, else from the first to the last event of the trace."""
    devices: tuple[AcceleratorUse, ...]
    """Every device, the busiest first."""


class AcceleratorDevice(msgspec.Struct, frozen=True):
    """One device and its events."""

    vendor: Vendor
    number: int | None
    """None if the trace does not record it."""
    rows: I64
    """Rows of the table of accelerators' events within the window."""
    kinds: U8
    """Position in `TaskKind` of each of the rows."""


def analyze(context: Context) -> Accelerators:
    """Times of each device in the window, with the events that take most."""
    start, end = _window(context)
    return Accelerators(end - start, tuple(_use(context, device) for device in devices(context)))


def times(context: Context, device: AcceleratorDevice, kinds: tuple[TaskKind, ...]) -> Intervals:
    """When events of some kinds run on a device, within the window."""
    rows = device.rows[np.isin(device.kinds, [_KINDS.index(kind) for kind in kinds])]
    events = context.trace.accelerator
    return Intervals.union(events.start_ns[rows], events.end_ns[rows]).clip(*_window(context))


def _window(context: Context) -> tuple[int, int]:
    return context.scope or (0, context.trace.info.span_ns)


def devices(context: Context) -> tuple[AcceleratorDevice, ...]:
    """The devices with events in the window, the busiest first; empty if there are none."""
    events = context.trace.accelerator
    start, end = _window(context)
    inside: Bool = (events.start_ns < end) & (events.end_ns >= start)
    rows = np.flatnonzero(inside)
    kinds = _kinds(context)[rows]
    _, place = group(events.vendor[rows], events.device[rows])
    found = []
    for _, of_device in members(place):
        event = rows[of_device[0]]
        vendor = Vendor(int(events.vendor[event]))
        number = int(events.device[event])
        found.append(
            AcceleratorDevice(vendor, None if number == UNKNOWN else number, rows[of_device], kinds[of_device])
        )
    busy = partial(times, context, kinds=BUSY)
    return tuple(sorted(found, key=lambda device: (-busy(device).length, device.vendor, device.number or 0)))


def _kinds(context: Context) -> U8:
    """Position in `TaskKind` of each event."""
    events, names = context.trace.accelerator, context.trace.names
    first, groups = group(events.vendor, events.name, events.task)
    columns = (column[first].tolist() for column in (events.vendor, events.name, events.task))
    kinds = [
        _KINDS.index(task_kind(Vendor(vendor), names[name], names[task]))
        for vendor, name, task in zip(*columns, strict=True)
    ]
    return np.array(kinds, np.uint8)[groups]


def _use(context: Context, device: AcceleratorDevice) -> AcceleratorUse:
    events = context.trace.accelerator
    start, end = _window(context)
    first = events.start_ns[device.rows].min()
    last = events.end_ns[device.rows].max()
    span = min(int(last), end) - max(int(first), start)
    busy = times(context, device, BUSY)
    waiting = times(context, device, (TaskKind.WAITING,))
    return AcceleratorUse(
        vendor=NAMES[device.vendor],
        device=device.number,
        events=len(device.rows),
        streams=len(distinct(events.stream[device.rows])),
        span_ns=span,
        busy_ns=busy.length,
        busy_share=busy.length / (end - start) if end > start else None,
        busy_share_of_span=busy.length / span if span else None,
        work_ns=times(context, device, (TaskKind.WORK,)).length,
        communication_ns=times(context, device, (TaskKind.COMMUNICATION,)).length,
        transfer_ns=times(context, device, (TaskKind.TRANSFER,)).length,
        waiting_ns=waiting.length,
        only_waiting_ns=(waiting - busy).length,
        tasks=tuple(sorted(_tasks(context, device), key=_importance)),
        returned_ns=_returned(context, device).length if device.vendor is Vendor.CUDA else None,
    )


def _importance(row: AcceleratorTask) -> tuple[bool, int, str, str]:
    return row.kind not in BUSY, -row.total_ns, row.name, row.task or ""


def _tasks(context: Context, device: AcceleratorDevice) -> list[AcceleratorTask]:
    events = context.trace.accelerator.take(device.rows)
    names = context.trace.names
    start, end = _window(context)
    inside = np.minimum(events.end_ns, end) - np.maximum(events.start_ns, start)
    length = np.maximum(inside, 0)
    if device.vendor is Vendor.CUDA:
        length = _without_inner(np.maximum(events.start_ns, start), length)
    _, groups = group(events.name, events.task)
    return [
        AcceleratorTask(
            name=names[int(events.name[rows[0]])],
            kind=_KINDS[int(device.kinds[rows[0]])],
            task=names[int(events.task[rows[0]])] or None,
            calls=len(rows),
            total_ns=int(length[rows].sum()),
            max_ns=int(events.dur_ns[rows].max()),
        )
        for _, rows in members(groups)
    ]


def _without_inner(start: I64, length: I64) -> I64:
    """The length of each slice without those inside it; they are in the order of their start."""
    tree, row = Tree.build(np.zeros(len(start), np.int32), start, length)
    own = tree.dur_ns
    is_inner = tree.parent != NO_PARENT
    own -= sum_by(tree.parent[is_inner], own[is_inner], len(own))
    found = np.empty_like(own)
    found[row] = own
    return found


def _returned(context: Context, device: AcceleratorDevice) -> Intervals:
    """When operators run on the device that have returned on the CPU, within the window, as far as that is known.

    Both sides have the calls of a name in one order, so where they have as many, those at one place are the same call.
    """
    events, host = context.trace.accelerator, context.trace.host
    calls = dict(members(host.name))
    spans = [(rows, calls.get(name, rows[:0])) for name, rows in members(events.name)]
    pairs = [np.stack((rows, called)) for rows, called in spans if len(rows) == len(called)]
    row, call = np.concatenate(pairs, axis=1) if pairs else np.empty((2, 0), np.int64)
    on_device = np.isin(row, device.rows)
    row, call = row[on_device], call[on_device]
    start = np.maximum(events.start_ns[row], host.end_ns[call])
    return Intervals.union(start, events.end_ns[row]).clip(*_window(context))


_EVENTS = Need(
    Text(
        "skip-no-accelerator", "the trace has no events of devices that write no kernels", note="such as MTIA, NPU, HPU"
    ),
    lambda context: len(context.trace.accelerator) > 0,
)
ANALYSES = (Analysis(80, "accelerators", Accelerators, analyze, needs=(_EVENTS,)),)
