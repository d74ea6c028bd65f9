"""What does each wait of the host cost on the device?"""

from __future__ import annotations

import numpy as np

from traceanalyzer.structure import busy_times, gap_causes, host_activity
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_activity import HostWaits
from traceanalyzer.structure.sums import members
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, UNKNOWN, Bool, entries
from traceanalyzer.trace.tree import NO_PARENT

AVOIDABLE = 4
"""Column of `costs` with the time that is saved without the wait."""


def costs(context: Context) -> I64 | None:
    """What each wait of the trace costs on its device; None where no device activity was recorded.

    Columns, in ns: the device's idle time during the wait; 1 if the device has nothing to do after it, else 0; for how
    long; the part of that without another reason; and the time that is saved without the wait, which is never longer
    than the wait itself.
    """
    if not (context.trace.device.device != UNKNOWN).any():
        return None
    waits = context.once(host_activity.waits)
    idle, drained = np.zeros(len(waits.row), np.int64), np.zeros(len(waits.row), np.int64)
    where = _devices(context, waits)
    for number in distinct(where).tolist():
        rows = np.flatnonzero(where == number)
        busy = busy_times.of_device(context, number)
        start, end = waits.start_ns[rows], waits.end_ns[rows]
        worked = busy.within(start, end)
        idle[rows] = end - start - worked
        drained[rows] = _until_next(busy, end, worked > 0)
    timeline = gap_causes.timelines(context)[gap_causes.EVERY_THREAD]
    explained = timeline.within(waits.end_ns, waits.end_ns + drained, gap_causes.EXPLICIT)
    unexplained = drained - sum(explained)
    avoidable = np.minimum(waits.end_ns - waits.start_ns, unexplained)
    return np.column_stack((idle, drained > 0, drained, unexplained, avoidable))


def _until_next(busy: Intervals, end: I64, worked: Bool) -> I64:
    """From each end of a wait to the next activity, if the device worked during the wait and is idle at its end.

    Where several waits end in the same gap, each has the time until the next one ends.
    """
    following = np.searchsorted(busy.start, end, side="right")
    reach = entries(busy.end, following - 1, 0)
    drains = np.flatnonzero(worked & (following < len(busy)) & (reach <= end))
    gap = following[drains]
    until = busy.start[gap]
    order = np.lexsort((end[drains], gap))
    same_gap = gap[order][1:] == gap[order][:-1]
    until[order[:-1][same_gap]] = end[drains][order[1:][same_gap]]
    drained = np.zeros(len(end), np.int64)
    drained[drains] = until - end[drains]
    return drained


def _devices(context: Context, waits: HostWaits) -> I64:
    """The device that each wait is for: that of the thread's last launch before it, else of its next one.

    A thread that launched nothing waits for the device that ran most.
    """
    device, launch = context.trace.device, context.links.launch
    numbers, counts = np.unique(device.device[device.device != UNKNOWN], return_counts=True)
    where = np.full(len(waits.row), int(numbers[counts.argmax()]), np.int64)
    if len(numbers) == 1:
        return where
    linked = np.flatnonzero((launch != NO_PARENT) & (device.device != UNKNOWN))
    by_launch = linked[np.argsort(launch[linked], kind="stable")]
    calls = launch[by_launch]
    launched = {thread: by_launch[rows] for thread, rows in members(context.trace.launches.thread[calls])}
    for thread, rows in members(waits.thread):
        own = launched.get(thread)
        if own is not None:
            before = np.searchsorted(launch[own], waits.row[rows], side="right") - 1
            where[rows] = device.device[own[np.maximum(before, 0)]]
    return where
