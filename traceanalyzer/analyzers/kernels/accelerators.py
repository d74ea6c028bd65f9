"""What do devices do that write no kernels: MTIA cards, Ascend NPUs, Gaudi?

Their events are of different kinds: work, transfers, communication, waiting and bookkeeping
(`knowledge/accelerators.py`), so a sum over all of them is meaningless. A device is busy while work, a transfer or
communication runs; waiting of a queue does not count.
"""

from __future__ import annotations

from functools import partial

import msgspec
import numpy as np

from traceanalyzer.knowledge.accelerators import BUSY, NAMES, TaskKind, task_kind
from traceanalyzer.report.message import Text
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.sums import group, members
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, U8, UNKNOWN, Bool
from traceanalyzer.trace.tables import Vendor

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
    """Sum of the durations in ns within the window, overlap counted twice."""
    max_ns: int
    """Longest duration in ns."""


class AcceleratorUse(msgspec.Struct, frozen=True):
    """One device over the window: times are unions, so overlapping queues count once."""

    vendor: str
    """Kind of device: `MTIA`, `NPU` or `HPU`."""
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
    )


def _importance(row: AcceleratorTask) -> tuple[bool, int, str, str]:
    return row.kind not in BUSY, -row.total_ns, row.name, row.task or ""


def _tasks(context: Context, device: AcceleratorDevice) -> list[AcceleratorTask]:
    events = context.trace.accelerator.take(device.rows)
    names = context.trace.names
    start, end = _window(context)
    inside = np.minimum(events.end_ns, end) - np.maximum(events.start_ns, start)
    length = np.maximum(inside, 0)
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


_EVENTS = Need(
    Text(
        "skip-no-accelerator", "the trace has no events of accelerators other than GPUs", note="such as MTIA, NPU, HPU"
    ),
    lambda context: len(context.trace.accelerator) > 0,
)
ANALYSES = (Analysis(80, "accelerators", Accelerators, analyze, needs=(_EVENTS,)),)
