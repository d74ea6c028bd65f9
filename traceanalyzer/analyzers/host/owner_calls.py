"""What do the owners of host time call directly, and what do these calls wait for?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import msgspec
import numpy as np

from traceanalyzer.structure import host_activity
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.mark_forest import is_mark
from traceanalyzer.structure.owners import EVALUATION, launch_owners, owner_index
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.structure.sums import Columns, count_by, group, members, sum_by
from traceanalyzer.structure.unrecorded_work import unrecorded_work
from traceanalyzer.trace.distinct import is_among
from traceanalyzer.trace.table import I64, Bool, take_or
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

PARTS = 3
"""Number of operators and calls listed for each owner, those with most time (own choice)."""

_SEVERAL = 5
"""Least number of calls of a name that show how long it takes as a rule (own choice)."""
_TIMES = 5
"""A single call is unusual from this many medians on (own choice: batches vary by a factor of two or three)."""

_ALIKE = 1.5
"""A call is one of those that come in every other step at least, if it is no longer than this many of them."""


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


class OwnCalls(Columns, frozen=True):
    """Operators and runtime calls that owners on the critical threads call directly, in no particular order."""

    owner: I64
    start_ns: I64
    end_ns: I64
    thread: I64
    name: I64


def longest_calls(context: Context) -> dict[int, OwnerCall]:
    """The longest call of each owner, by its number; owners without direct calls have none.

    Single calls that a thread without a core makes long do not count.
    """
    own = context.cached(own_calls)
    kept = np.flatnonzero(_as_usual(context, own))
    order = kept[np.argsort(own.owner[kept], kind="stable")]
    first = np.flatnonzero(np.append(True, np.diff(own.owner[order]) != 0)[: len(order)])
    duration = (own.end_ns - own.start_ns)[order]
    longest = np.maximum.reduceat(duration, first) if len(first) else duration
    most = np.repeat(longest, np.diff(np.append(first, len(order))))
    rows = order[np.flatnonzero(duration == most)]
    rows = rows[np.unique(own.owner[rows], return_index=True)[1]]
    waits = context.cached(host_activity.waits)
    return {int(own.owner[row]): _call(context, waits, own, row) for row in rows.tolist()}


def _as_usual(context: Context, own: OwnCalls) -> Bool:
    """Which calls are no single ones that take far longer than others of their name, in a program on the CPU.

    Beside a device, such a call waits, loads or allocates, which is worth telling.
    """
    usual = np.ones(len(own.name), np.bool_)
    duration = own.end_ns - own.start_ns
    if len(context.trace.device) or len(context.trace.launches):
        return usual
    steps = len(program_steps(context).typical)
    for _, rows in members(own.name):
        if len(rows) >= _SEVERAL:
            long = np.sort(duration[rows])[::-1]
            # those that come in each step are no exceptions, however many shorter ones there are
            of_half = int(long[min((steps - 1) // 2, len(rows) - 1)])
            most = _ALIKE * of_half if steps >= _SEVERAL else _TIMES * float(np.median(long))
            usual[rows] = duration[rows] <= most
    return usual


def largest_parts(context: Context) -> dict[int, tuple[OwnerPart, ...]]:
    """For each owner by its number, the direct operators and runtime calls that take most of its time."""
    calls = context.cached(own_calls)
    names = context.trace.names
    first, groups = group(calls.owner, calls.name)
    kept = context.cached(owner_index).critical.kept
    time = sum_by(groups, kept.within(calls.start_ns, calls.end_ns), len(first))
    count = count_by(groups, len(first))
    name = calls.name[first]
    parts: dict[int, tuple[OwnerPart, ...]] = {}
    for owner, rows in _largest(calls.owner[first], time, name):
        parts[owner] = tuple(OwnerPart(_told(names[name[row]]), int(count[row]), int(time[row])) for row in rows)
    return parts


def _largest(owner: I64, time: I64, name: I64) -> Iterator[tuple[int, list[int]]]:
    """For each owner its rows with the most time, at most `PARTS`."""
    order = np.lexsort((name, -time, owner))
    owners = owner[order]
    starts = np.flatnonzero(np.append(True, np.diff(owners) != 0)[: len(order)])
    for low, high in pairwise([*starts.tolist(), len(order)]):
        yield int(owners[low]), order[low : min(high, low + PARTS)].tolist()


def own_calls(context: Context) -> OwnCalls:
    """The outermost operators and runtime calls within each owner, on the critical threads in the steps that count."""
    launches, host = context.trace.launches, context.host
    tree = host.tree
    index = context.cached(owner_index)
    critical = index.critical
    threads = [critical.main] if critical.engine is None else [critical.main, critical.engine]

    is_operator = _are_operators(context)
    nodes = np.flatnonzero(is_operator & is_among(tree.thread, threads) & critical.kept.contains(tree.start_ns))
    owner = np.full(len(tree) + 1, NO_PARENT, np.int64)
    owner[nodes] = index.at(tree.thread[nodes], tree.start_ns[nodes])
    around = take_or(tree.nearest(is_operator), tree.parent, NO_PARENT)
    nodes = nodes[(owner[nodes] != NO_PARENT) & (owner[around[nodes]] != owner[nodes])]

    of_launch = context.cached(launch_owners)
    calls = np.flatnonzero(of_launch != NO_PARENT)
    calls = calls[owner[context.links.node[calls]] != of_launch[calls]]
    return OwnCalls(
        owner=np.concatenate((owner[nodes], of_launch[calls])),
        start_ns=np.concatenate((tree.start_ns[nodes], launches.start_ns[calls])),
        end_ns=np.concatenate((tree.end_ns[nodes], launches.end_ns[calls])),
        thread=np.concatenate((tree.thread[nodes], launches.thread[calls])).astype(np.int64),
        name=np.concatenate((host.name[nodes], launches.name[calls])).astype(np.int64),
    )


def _are_operators(context: Context) -> Bool:
    """Which nodes of the host tree are operators, or communicate; no modules and no marks."""
    host = context.host
    is_operator: Bool = host.kind != NodeKind.MODULE
    is_operator[is_operator] = host_activity.operator_rows(context)[host.row[is_operator]]
    is_operator |= host.kind == NodeKind.COLLECTIVE
    plain = host.kind == NodeKind.OPERATOR
    is_operator[plain] &= ~is_mark(context)[host.row[plain]]
    return is_operator


def _call(context: Context, waits: host_activity.HostWaits, own: OwnCalls, row: int) -> OwnerCall:
    start = int(own.start_ns[row])
    end = int(own.end_ns[row])
    name = _told(context.trace.names[own.name[row]])
    low, high = np.searchsorted(waits.start_ns, (start, max(end, start + 1)))
    rows = np.arange(low, high)[waits.thread[low:high] == own.thread[row]]
    if not len(rows):
        return OwnerCall(name, start, end - start, None, 0, None, None)
    lengths = np.minimum(waits.end_ns[rows], end) - waits.start_ns[rows]
    longest = int(rows[lengths.argmax()])
    call = int(waits.row[longest])
    awaited = _awaited(context, call, int(waits.start_ns[longest]), int(waits.end_ns[longest]))
    called = context.trace.names[context.trace.launches.name[call]]
    return OwnerCall(name, start, end - start, called, int(lengths.sum()), *awaited)


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
    ended, row = context.cached(_ends)
    last = int(np.searchsorted(ended, end, side="right")) - 1
    if last >= 0 and ended[last] > start:
        return "work", names[device.name[row[last]]]
    return "nothing", None


def _launched_by(context: Context, call: int) -> I64:
    """Device events that a call started."""
    order, launch = context.cached(_by_launch)
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


INTERMEDIATE = (own_calls, launch_owners, _ends, _by_launch)
"""Results that take much memory, which nothing needs after the owners of host time."""
