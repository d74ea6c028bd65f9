"""The longest single call of each owner, and what it waits for."""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.analyzers import host_activity
from traceanalyzer.analyzers.context import Context
from traceanalyzer.analyzers.host_owners.critical import contains
from traceanalyzer.analyzers.host_owners.owner_index import OwnerIndex, owner_index
from traceanalyzer.analyzers.unrecorded_work import unrecorded_work
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT


class OwnerCall(msgspec.Struct, frozen=True):
    """One call of an owner."""

    name: str
    """Name of the outermost operator of the owner's own, or of the runtime call."""
    start_ns: int
    """Start in ns since the first event."""
    duration_ns: int
    """Duration in ns."""
    wait: str | None
    """Name of the longest runtime call in it that waits for the device; null if none does."""
    waiting_ns: int
    """Time in ns for which runtime calls in it wait for the device."""
    waits_for: str | None
    """What the longest of them waits for: `copy`, `work` (that was launched before), `unrecorded-work` (nothing that
    was recorded), or `nothing` (the device is done already); null if none waits."""
    event: str | None
    """Name of the copy, or of the last event that ended before the call returned; null where there is none."""


def longest_calls(context: Context) -> dict[int, OwnerCall]:
    """The longest call of each owner by its number; owners without operators and runtime calls have none."""
    index = context.once(owner_index)
    start, end, thread, name = _calls(context, index)
    owner = index.at(thread, start)
    known = np.flatnonzero(owner != NO_PARENT)
    order = known[np.lexsort((start[known], start[known] - end[known], owner[known]))]
    firsts = order[np.append(True, np.diff(owner[order]) != 0)[: len(order)]]
    waits = context.once(host_activity.waits)
    return {
        int(owner[row]): _call(context, waits, int(start[row]), int(end[row]), int(thread[row]), int(name[row]))
        for row in firsts.tolist()
    }


def _calls(context: Context, index: OwnerIndex) -> tuple[I64, I64, I64, I64]:
    """Start, end, thread and code of the name of operators and runtime calls on the critical threads in the steps.

    Those inside an operator of the same owner are shorter than that, so that they need not be left out.
    """
    host, launches, found = context.trace.host, context.trace.launches, index.critical
    threads = [found.main] if found.engine is None else [found.main, found.engine]
    plain = host_activity.operator_rows(context)
    parts = []
    for table, wanted in ((host, plain), (launches, np.ones(len(launches), np.bool_))):
        rows = np.flatnonzero(wanted & np.isin(table.thread, threads) & contains(found.kept, table.start_ns))
        parts.append((table.start_ns[rows], table.end_ns[rows], table.thread[rows], table.name[rows]))
    columns = [np.concatenate(column).astype(np.int64) for column in zip(*parts, strict=True)]
    return columns[0], columns[1], columns[2], columns[3]


def _call(context: Context, waits: host_activity.HostWaits, start: int, end: int, thread: int, name: int) -> OwnerCall:
    low, high = np.searchsorted(waits.start_ns, (start, max(end, start + 1)))
    rows = np.arange(low, high)[waits.thread[low:high] == thread]
    names = context.trace.names
    if not len(rows):
        return OwnerCall(names[name], start, end - start, None, 0, None, None)
    lengths = np.minimum(waits.end_ns[rows], end) - waits.start_ns[rows]
    longest = int(rows[lengths.argmax()])
    waits_for, event = _awaited(
        context, int(waits.row[longest]), int(waits.start_ns[longest]), int(waits.end_ns[longest])
    )
    call = names[context.trace.launches.name[waits.row[longest]]]
    return OwnerCall(names[name], start, end - start, call, int(lengths.sum()), waits_for, event)


def _awaited(context: Context, call: int, start: int, end: int) -> tuple[str, str | None]:
    """What a call waits for, and the name of the event."""
    device, names = context.trace.device, context.trace.names
    own = _launched_by(context, call)
    copies = own[device.category[own] == Category.MEMCPY]
    if any(times.within(np.array([start]), np.array([end]))[0] * 2 > end - start for times in _unrecorded(context)):
        return "unrecorded-work", None
    if len(copies):
        # a copy that lasts most of the wait is what it waits for; else it is the work before the copy
        first = int(copies[0])
        before = int(device.start_ns[first]) - start
        if 2 * before <= end - start:
            return "copy", names[device.name[first]]
        end = int(device.start_ns[first])
    last = int(np.searchsorted(context.once(_ends)[0], end, side="right")) - 1
    ended = context.once(_ends)
    if last >= 0 and ended[0][last] > start:
        return "work", names[device.name[ended[1][last]]]
    return "nothing", None


def _unrecorded(context: Context) -> list[Intervals]:
    return [*unrecorded_work(context).values()]


def _launched_by(context: Context, call: int) -> I64:
    """Device events that a call put on a device."""
    order, launch = context.once(_by_launch)
    low, high = np.searchsorted(launch, (call, call + 1))
    return order[low:high]


def _by_launch(context: Context) -> tuple[I64, I64]:
    order = np.argsort(context.links.launch, kind="stable")
    return order, context.links.launch[order]


def _ends(context: Context) -> tuple[I64, I64]:
    """Ends of device events, ascending, and their rows."""
    end = context.trace.device.end_ns
    order = np.argsort(end, kind="stable")
    return end[order], order
