"""Direct calls of owners: the longest call of each, the event that it waits for, and the calls with most time."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import numpy as np

from traceanalyzer.structure import host_activity
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.mark_forest import mark_rows
from traceanalyzer.structure.owners import owner_index
from traceanalyzer.structure.owners.labels import EVALUATION
from traceanalyzer.structure.sums import count_by, group, sum_by
from traceanalyzer.structure.unrecorded_work import unrecorded_work
from traceanalyzer.trace.distinct import is_among
from traceanalyzer.trace.table import I64, entries
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

PARTS = 3
"""Number of operators and calls listed for each owner, those with most time (own choice)."""


class OwnerCall(msgspec.Struct, frozen=True):
    """One call of an owner."""

    name: str
    """Name of the outermost operator that the owner calls, or of the runtime call."""
    start_ns: int
    """Start in ns since the first event."""
    duration_ns: int
    """Duration in ns."""
    wait: str | None
    """Name of the longest runtime call in it that waits for the device; null if none does."""
    waiting_ns: int
    """Time in ns for which runtime calls in it wait for the device."""
    waits_for: str | None
    """What the longest of these runtime calls waits for: `copy`, `work` (launched before), `unrecorded-work` (no
    recorded event), or `nothing` (the device is already done); null if none waits."""
    event: str | None
    """Name of the copy, or of the last event that ended before the call returned; null without one."""


class OwnerPart(msgspec.Struct, frozen=True):
    """Operators or runtime calls of one name that an owner calls directly."""

    name: str
    """Name of the operator or runtime call."""
    calls: int
    """Number of calls in the steps that count."""
    host_ns: int
    """Their duration in ns within these steps."""


class OwnCalls(msgspec.Struct, frozen=True):
    """Operators and runtime calls that owners on the critical threads call directly, in no particular order."""

    owner: I64
    start_ns: I64
    end_ns: I64
    thread: I64
    name: I64

    def __len__(self) -> int:
        return len(self.owner)


def longest_calls(context: Context) -> dict[int, OwnerCall]:
    """The longest call of each owner, by its number; owners without direct calls have none."""
    own = context.once(own_calls)
    order = np.argsort(own.owner, kind="stable")
    first = np.flatnonzero(np.append(True, np.diff(own.owner[order]) != 0)[: len(order)])
    duration = (own.end_ns - own.start_ns)[order]
    longest = np.maximum.reduceat(duration, first) if len(first) else duration
    most = np.repeat(longest, np.diff(np.append(first, len(order))))
    rows = order[np.flatnonzero(duration == most)]
    rows = rows[np.unique(own.owner[rows], return_index=True)[1]]
    waits = context.once(host_activity.waits)
    return {int(own.owner[row]): _call(context, waits, own, row) for row in rows.tolist()}


def largest_parts(context: Context) -> dict[int, tuple[OwnerPart, ...]]:
    """For each owner by its number, the direct operators and runtime calls that take most of its time."""
    own, names = context.once(own_calls), context.trace.names
    first, groups = group(own.owner, own.name)
    kept = context.once(owner_index).critical.kept
    time = sum_by(groups, kept.within(own.start_ns, own.end_ns), len(first))
    calls = count_by(groups, len(first))
    order = np.lexsort((own.name[first], -time, own.owner[first]))
    found: dict[int, tuple[OwnerPart, ...]] = {}
    owners = own.owner[first][order]
    starts = np.flatnonzero(np.append(True, np.diff(owners) != 0)[: len(order)])
    for low, high in pairwise([*starts.tolist(), len(order)]):
        rows = order[low : min(high, low + PARTS)].tolist()
        found[int(owners[low])] = tuple(
            OwnerPart(_told(names[own.name[first[row]]]), int(calls[row]), int(time[row])) for row in rows
        )
    return found


def release(context: Context) -> None:
    """Free the calls when they are no longer needed."""
    context.release(own_calls, _ends, _by_launch)


def own_calls(context: Context) -> OwnCalls:
    """The outermost operators and runtime calls within each owner, on the critical threads in the steps that count."""
    launches, tree = context.trace.launches, context.host.tree
    index = context.once(owner_index)
    found = index.critical
    threads = [found.main] if found.engine is None else [found.main, found.engine]
    is_operator = context.host.kind != NodeKind.MODULE
    is_operator[is_operator] = host_activity.operator_rows(context)[context.host.row[is_operator]]
    is_operator |= context.host.kind == NodeKind.COLLECTIVE
    is_operator[is_among(context.host.row, mark_rows(context)) & (context.host.kind == NodeKind.OPERATOR)] = False
    around = entries(tree.nearest(is_operator), tree.parent, NO_PARENT)
    nodes = np.flatnonzero(is_operator & is_among(tree.thread, threads) & found.kept.contains(tree.start_ns))
    owner = np.full(len(tree) + 1, NO_PARENT, np.int64)
    owner[nodes] = index.at(tree.thread[nodes], tree.start_ns[nodes])
    nodes = nodes[(owner[nodes] != NO_PARENT) & (owner[around[nodes]] != owner[nodes])]
    calls = np.flatnonzero(is_among(launches.thread, threads) & found.kept.contains(launches.start_ns))
    of_calls = index.of_launches(context, calls)
    own = (of_calls != NO_PARENT) & (owner[context.links.node[calls]] != of_calls)
    calls = calls[own]
    return OwnCalls(
        owner=np.concatenate((owner[nodes], of_calls[own])),
        start_ns=np.concatenate((tree.start_ns[nodes], launches.start_ns[calls])),
        end_ns=np.concatenate((tree.end_ns[nodes], launches.end_ns[calls])),
        thread=np.concatenate((tree.thread[nodes], launches.thread[calls])).astype(np.int64),
        name=np.concatenate((context.host.name[nodes], launches.name[calls])).astype(np.int64),
    )


def _call(context: Context, waits: host_activity.HostWaits, own: OwnCalls, row: int) -> OwnerCall:
    start, end, name = int(own.start_ns[row]), int(own.end_ns[row]), _told(context.trace.names[own.name[row]])
    low, high = np.searchsorted(waits.start_ns, (start, max(end, start + 1)))
    rows = np.arange(low, high)[waits.thread[low:high] == own.thread[row]]
    if not len(rows):
        return OwnerCall(name, start, end - start, None, 0, None, None)
    lengths = np.minimum(waits.end_ns[rows], end) - waits.start_ns[rows]
    longest = int(rows[lengths.argmax()])
    call, begins, ends = int(waits.row[longest]), int(waits.start_ns[longest]), int(waits.end_ns[longest])
    waits_for, event = _awaited(context, call, begins, ends)
    called = context.trace.names[context.trace.launches.name[call]]
    return OwnerCall(name, start, end - start, called, int(lengths.sum()), waits_for, event)


def _told(name: str) -> str:
    """The name of the function that autograd evaluates, without the prefix of evaluations."""
    return name.removeprefix(EVALUATION)


def _awaited(context: Context, call: int, start: int, end: int) -> tuple[str, str | None]:
    """The kind of event for which a call waits, and its name."""
    device, names = context.trace.device, context.trace.names
    own = _launched_by(context, call)
    copies = own[device.category[own] == Category.MEMCPY]
    earlier = unrecorded_work(context).values()
    if any(2 * times.clip(start, end).length > end - start for times in earlier):
        return "unrecorded-work", None
    if len(copies):
        # the call waits for a copy if the copy lasts most of the wait; else for the work before the copy
        first = int(copies[0])
        before = int(device.start_ns[first]) - start
        if 2 * before <= end - start:
            return "copy", names[device.name[first]]
        end = int(device.start_ns[first])
    ended, row = context.once(_ends)
    last = int(np.searchsorted(ended, end, side="right")) - 1
    if last >= 0 and ended[last] > start:
        return "work", names[device.name[row[last]]]
    return "nothing", None


def _launched_by(context: Context, call: int) -> I64:
    """Device events that a call started."""
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
