"""Where does the time of the host go, and which parts of the program own it?

Time of the critical thread is assigned to owners: marks, modules and functions of the program, or functions of
libraries, operators and runtime calls if there is no better owner. Each moment of a step that counts belongs to the
innermost owner around it, so that exclusive times add up to the steps, to the nanosecond (docs/metrics/host.md).

Other analyses ask `owner_index` which owner a moment, a call or a launch has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import pairwise

import msgspec
import numpy as np

from traceanalyzer.analyzers.host.costs import idle_in_loader, measured_parts, owner_costs, role_costs, thread_costs
from traceanalyzer.report.message import Text
from traceanalyzer.structure import gaps, host_activity, typical
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import Occurrences, event_set
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.host_waits import outermost_loads
from traceanalyzer.structure.mark_forest import is_mark
from traceanalyzer.structure.owners import EVALUATION, OwnerIndex, owner_index
from traceanalyzer.structure.owners.critical import device_idle
from traceanalyzer.structure.owners.slices import broadcasts
from traceanalyzer.structure.resources import busiest
from traceanalyzer.structure.sums import Columns, count_by, group, members, sum_by
from traceanalyzer.structure.unrecorded_work import unrecorded_work
from traceanalyzer.trace.distinct import is_among
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, take_or
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

ROWS = 200
"""Number of listed owners, those with the most self time (own choice: longer lists are not read)."""

ROWS_OF_OTHERS = 10
"""Number of listed owners of each other thread (own choice)."""


PARTS = 3
"""Number of operators and calls listed for each owner, those with most time (own choice)."""


class OwnerTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Times of owners on the critical thread in the steps that count. Self times are without owners inside."""

    calls: int
    """Number of times that the owner begins in a step that counts, on the critical thread."""
    host_ns: int
    """Time in ns from beginning to end, with owners inside; an owner inside itself counts once."""
    host_self_ns: int
    """Time in ns without owners inside; over all owners it adds up to the steps."""
    idle_ns: int | None
    """Part of the host time in ns in which the device had nothing to do because the host had launched nothing; null
    without device events."""
    idle_self_ns: int | None
    """Part of the time without owners inside in which the device had nothing to do; null without device events."""
    waiting_self_ns: int
    """Part of the time without owners inside in ns in which a call waits for the device."""
    device_ns: int | None
    """Device time in ns of all work launched inside, each event in full, whenever it ran; null if no launch is
    known."""
    device_self_ns: int | None
    """Device time in ns of the work launched inside but not in an inner owner; null if no launch is known."""
    host_ns_per_step: float
    """Host time in ns per step that counts."""
    host_self_ns_per_step: float
    """Host time in ns per step that counts, without owners inside."""
    idle_ns_per_step: float | None
    """Part of the host time in ns per step in which the device had nothing to do; null without device events."""
    idle_self_ns_per_step: float | None
    """`idle_ns_per_step` without owners inside; null without device events."""


class HostOwner(OwnerTimes, frozen=True, kw_only=True):
    """One owner of host time."""

    kind: str
    """`mark`, `module`, `function` (of the program), `library` (a function of one), `backward` (of a module),
    `autograd` (in no recorded function), `operator` or `call`."""
    name: str
    """Name of the mark, class of the module, name of the function, operator or call."""
    role: str | None
    """What the work is for: `preprocessing`, `postprocessing`, `tokenization`, `sampling`, `buffer-broadcast`,
    `garbage-collection`, `guards`, `checkpointing`, `logging`, `sleep`, `loader`, `compilation`; null if no name shows
    it."""
    file: str | None
    """File of the function, or of that of a module's forward pass; null if no stack shows it."""
    line: int | None
    """Line of the function in the file; null if no stack shows it."""
    parts: tuple[OwnerPart, ...]
    """The operators and runtime calls that the owner calls directly and that take most of its time, at most three
    names."""
    longest_call: OwnerCall | None
    """The longest operator or runtime call that the owner calls directly; null without one."""


class RoleTimes(OwnerTimes, frozen=True, kw_only=True):
    """All owners with one role."""

    role: str
    """What the work is for, as in the owners."""
    owner: int
    """Position in the rows of the outermost owner of the role with the most time."""
    idle_in_loader_ns: int | None = None
    """Part of the idle time in ns in which the program waits for its loader, which does this work itself; null without
    device events."""


class OwnerOnThread(msgspec.Struct, frozen=True):
    """One owner on a thread that is not the critical one."""

    kind: str
    """Kind of the owner, as in the rows of the critical thread."""
    name: str
    """Name of the owner, as in the rows of the critical thread."""
    role: str | None
    """What the work is for; null if no name shows it."""
    host_self_ns: int
    """Time in ns without owners inside, in the steps that count."""
    device_self_ns: int
    """Device time in ns of the work that it launched, each event in full."""


class OtherThread(msgspec.Struct, frozen=True):
    """A further thread that launches device work or waits for a loader, in parallel with the critical thread."""

    thread: str
    """Name of the thread."""
    host_ns: int
    """Time in ns of all its owners in the steps that count."""
    device_ns: int
    """Device time in ns of the work that it launched in the steps that count."""
    rows: tuple[OwnerOnThread, ...]
    """Its owners, the most time first, at most ten."""


class HostOwners(msgspec.Struct, frozen=True):
    """Owners of the time of the critical thread in the steps that count."""

    thread: str
    """Name of the program's thread."""
    autograd_thread: str | None
    """Name of autograd's thread, which is the critical one while the program waits for it; null without one."""
    steps: int
    """Number of steps that count."""
    time_ns: int
    """Duration of these steps in ns: the sum of the exclusive times of all owners and of the time without an owner."""
    idle_ns: int | None
    """Time in ns in which the busiest device had nothing to do because the host had launched nothing; null without
    device events."""
    device_ns: int | None
    """Device time in ns of everything that the critical threads launched in these steps; null where no launch is
    known."""
    rows: tuple[HostOwner, ...]
    """Owners, the most self time first, at most 200."""
    hidden: OwnerTimes
    """All other owners together; inclusive times and calls are sums."""
    unowned: OwnerTimes
    """Time without an owner: nothing was recorded on the thread, or only events that name no owner."""
    roles: tuple[RoleTimes, ...]
    """Known purposes of the work, the most time first. Inclusive times include everything inside."""
    other_threads: tuple[OtherThread, ...] = ()
    """Further threads that launch work of a device or wait for a loader, the most work first."""


@event_set
def broadcasts_at(context: Context, *, on_host: bool) -> Iterator[Occurrences]:
    """When the busiest device is idle because buffers are broadcast; without a device or on the host, when they are."""
    device, _ = busiest(context, typical.times(context))
    found, idle = context.cached(broadcasts), context.cached(device_idle)
    if device is None or on_host:
        thread = context.trace.host.thread[found.mark].astype(np.int64)
        yield Occurrences("host", "broadcast", thread, found.start_ns, found.end_ns)
    elif idle is not None:
        times = Intervals.union(found.start_ns, found.end_ns) & idle
        yield Occurrences.idle("broadcast", device, times.start, times.end)


@event_set
def roles_at(
    context: Context, roles: Collection[str], *, in_loader: bool, name: str = "inputs"
) -> Iterator[Occurrences]:
    """When owners with some roles work and no device does, on critical threads.

    Args:
        context: The trace.
        roles: The roles.
        in_loader: Whether work within waits for a loader counts.
        name: What they are called.
    """
    index, tree = context.cached(owner_index), context.host.tree
    slices = index.nested.tree
    wanted = np.array([own.role in roles for own in index.owners], np.bool_)
    rows = np.flatnonzero(take_or(wanted, index.owner, missing=False))
    loads = outermost_loads(context)[: 0 if in_loader else None]
    others = gaps.any_busy(context) | Intervals.union(tree.start_ns[loads], tree.end_ns[loads])
    critical = [each for each in (index.critical.main, index.critical.engine) if each is not None]
    for thread, own in members(slices.thread[rows]):
        if thread in critical:
            times = Intervals.union(slices.start_ns[rows[own]], slices.end_ns[rows[own]]) - others
            yield Occurrences("host", name, np.full(len(times), thread), times.start, times.end)


def analyze(context: Context) -> HostOwners:
    """The owners of the critical thread's time."""
    index = context.cached(owner_index)
    found = context.cached(owner_costs)
    costs = (found.host_self, found.host, found.calls, found.device)
    occurs = np.flatnonzero(np.any([column[:-1] > 0 for column in costs], axis=0))
    own, total = found.host_self.tolist(), found.host.tolist()
    order = sorted(occurs.tolist(), key=lambda number: (-own[number], -total[number], index.owners[number].name))
    shown = order[:ROWS]
    longest, parts = longest_calls(context), largest_parts(context)
    threads, engine = context.trace.threads, index.critical.engine
    result = HostOwners(
        thread=threads[index.critical.main].tid,
        autograd_thread=None if engine is None else threads[engine].tid,
        steps=index.critical.steps,
        time_ns=index.critical.kept.length,
        idle_ns=found.idle_total,
        device_ns=found.device_total,
        rows=tuple(
            HostOwner(
                **msgspec.structs.asdict(index.owners[number]),
                parts=parts.get(number, ()),
                longest_call=longest.get(number),
                **found.times([number]),
            )
            for number in shown
        ),
        hidden=OwnerTimes(**found.times(order[ROWS:])),
        unowned=OwnerTimes(**found.times([NO_PARENT])),
        roles=_roles(context, index, shown),
        other_threads=tuple(_other(context, index, thread) for thread in index.critical.others),
    )
    context.release(own_calls, _ends, _by_launch, measured_parts)
    return result


def _other(context: Context, index: OwnerIndex, thread: int) -> OtherThread:
    host, device = thread_costs(context, thread)
    occurs = np.flatnonzero((host > 0) | (device[:-1] > 0))
    order = occurs[np.lexsort((occurs, -device[occurs], -host[occurs]))][:ROWS_OF_OTHERS].tolist()
    rows = (
        OwnerOnThread(own.kind, own.name, own.role, int(host[number]), int(device[number]))
        for number, own in ((number, index.owners[number]) for number in order)
    )
    return OtherThread(context.trace.threads[thread].tid, int(host.sum()), int(device.sum()), tuple(rows))


def _roles(context: Context, index: OwnerIndex, shown: list[int]) -> tuple[RoleTimes, ...]:
    """The roles with their costs, and the owner with the most time of each."""
    roles = sorted({own.role for own in index.owners if own.role})
    number = np.array([roles.index(own.role) if own.role else NO_PARENT for own in index.owners], np.int64)
    found, single = role_costs(context, number, len(roles)), context.cached(owner_costs)
    in_loader = idle_in_loader(context, number, len(roles))
    rows = []
    for role, name in enumerate(roles):
        members = [row for row, owner in enumerate(shown) if number[owner] == role]
        if members and (found.host[role] or found.calls[role]):
            most = max(members, key=lambda row: int(single.host[shown[row]]))
            inside = None if in_loader is None else int(in_loader[role])
            rows.append(RoleTimes(role=name, owner=most, idle_in_loader_ns=inside, **found.times([role])))
    return tuple(sorted(rows, key=lambda row: (-row.host_ns, row.role)))


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
    """The longest call of each owner, by its number; owners without direct calls have none."""
    own = context.cached(own_calls)
    order = np.argsort(own.owner, kind="stable")
    first = np.flatnonzero(np.append(True, np.diff(own.owner[order]) != 0)[: len(order)])
    duration = (own.end_ns - own.start_ns)[order]
    longest = np.maximum.reduceat(duration, first) if len(first) else duration
    most = np.repeat(longest, np.diff(np.append(first, len(order))))
    rows = order[np.flatnonzero(duration == most)]
    rows = rows[np.unique(own.owner[rows], return_index=True)[1]]
    waits = context.cached(host_activity.waits)
    return {int(own.owner[row]): _call(context, waits, own, row) for row in rows.tolist()}


def largest_parts(context: Context) -> dict[int, tuple[OwnerPart, ...]]:
    """For each owner by its number, the direct operators and runtime calls that take most of its time."""
    own, names = context.cached(own_calls), context.trace.names
    first, groups = group(own.owner, own.name)
    kept = context.cached(owner_index).critical.kept
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


def own_calls(context: Context) -> OwnCalls:
    """The outermost operators and runtime calls within each owner, on the critical threads in the steps that count."""
    launches, tree = context.trace.launches, context.host.tree
    index = context.cached(owner_index)
    found = index.critical
    threads = [found.main] if found.engine is None else [found.main, found.engine]
    is_operator = context.host.kind != NodeKind.MODULE
    is_operator[is_operator] = host_activity.operator_rows(context)[context.host.row[is_operator]]
    is_operator |= context.host.kind == NodeKind.COLLECTIVE
    plain = context.host.kind == NodeKind.OPERATOR
    is_operator[plain] &= ~is_mark(context)[context.host.row[plain]]
    around = take_or(tree.nearest(is_operator), tree.parent, NO_PARENT)
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


HOST_TIME = Need(
    Text("skip-no-host-time", "the trace has no events of host threads in its steps"),
    lambda context: bool(context.cached(owner_index).critical.kept),
)
ANALYSES = (Analysis(40, "host_owners", HostOwners, analyze, needs=(HOST_TIME,)),)
