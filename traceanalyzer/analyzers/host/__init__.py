"""Where does the time of the host go, and which parts of the program own it?

Time of the critical thread is assigned to owners: marks, modules and functions of the program, or functions of
libraries, operators and runtime calls if there is no better owner. Each moment of a step that counts belongs to the
innermost owner around it, so that exclusive times add up to the steps, to the nanosecond (docs/metrics/host.md).

Other analyses ask `owner_index` which owner a moment, a call or a launch has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec
import numpy as np

from traceanalyzer.analyzers.host.costs import (
    OwnerCosts,
    idle_in_loader,
    measured_parts,
    owner_costs,
    role_costs,
    thread_costs,
)
from traceanalyzer.analyzers.host.owner_calls import INTERMEDIATE, OwnerCall, OwnerPart, largest_parts, longest_calls
from traceanalyzer.report.message import Text
from traceanalyzer.structure import gaps, typical
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import Occurrences, event_set
from traceanalyzer.structure.host_waits import outermost_loads
from traceanalyzer.structure.owners import OwnerIndex, owner_index
from traceanalyzer.structure.owners.critical import device_idle
from traceanalyzer.structure.owners.slices import broadcasts
from traceanalyzer.structure.sums import members
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import take_or
from traceanalyzer.trace.tree import NO_PARENT

ROWS = 200
"""Number of listed owners, those with the most self time (own choice: longer lists are not read)."""

ROWS_OF_OTHERS = 10
"""Number of listed owners of each other thread (own choice)."""


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
    `garbage-collection`, `guards`, `checkpointing`, `logging`, `sleep`, `writing`, `requests`, `preparation`, `loader`,
    `compilation`; null if no name shows it."""
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
    device = typical.device(context)
    found = context.cached(broadcasts)
    idle = context.cached(device_idle)
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
    index = context.cached(owner_index)
    tree = context.host.tree
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
    critical = index.critical
    costs = context.cached(owner_costs)
    order = _by_time(index, costs)
    shown = order[:ROWS]
    threads = context.trace.threads
    result = HostOwners(
        thread=threads[critical.main].tid,
        autograd_thread=None if critical.engine is None else threads[critical.engine].tid,
        steps=critical.steps,
        time_ns=critical.kept.length,
        idle_ns=costs.idle_total,
        device_ns=costs.device_total,
        rows=tuple(_rows(context, index, costs, shown)),
        hidden=OwnerTimes(**costs.times(order[ROWS:])),
        unowned=OwnerTimes(**costs.times([NO_PARENT])),
        roles=_roles(context, index, shown),
        other_threads=tuple(_other(context, index, thread) for thread in critical.others),
    )
    context.release(*INTERMEDIATE, measured_parts)
    return result


def _by_time(index: OwnerIndex, costs: OwnerCosts) -> list[int]:
    """The owners with any call or time, the one with the most time of its own first."""
    columns = (costs.host_self, costs.host, costs.calls, costs.device)
    occurs = np.flatnonzero(np.any([column[:-1] > 0 for column in columns], axis=0))
    own = costs.host_self.tolist()
    total = costs.host.tolist()
    return sorted(occurs.tolist(), key=lambda number: (-own[number], -total[number], index.owners[number].name))


def _rows(context: Context, index: OwnerIndex, costs: OwnerCosts, shown: list[int]) -> Iterator[HostOwner]:
    longest = longest_calls(context)
    parts = largest_parts(context)
    for number in shown:
        yield HostOwner(
            **msgspec.structs.asdict(index.owners[number]),
            parts=parts.get(number, ()),
            longest_call=longest.get(number),
            **costs.times([number]),
        )


def _other(context: Context, index: OwnerIndex, thread: int) -> OtherThread:
    host, device = thread_costs(context, thread)
    occurs = np.flatnonzero((host > 0) | (device[:-1] > 0))
    order = occurs[np.lexsort((occurs, -device[occurs], -host[occurs]))]
    rows = []
    for number in order[:ROWS_OF_OTHERS].tolist():
        owner = index.owners[number]
        rows.append(OwnerOnThread(owner.kind, owner.name, owner.role, int(host[number]), int(device[number])))
    return OtherThread(context.trace.threads[thread].tid, int(host.sum()), int(device.sum()), tuple(rows))


def _roles(context: Context, index: OwnerIndex, shown: list[int]) -> tuple[RoleTimes, ...]:
    """The roles with their costs, and the owner with the most time of each."""
    roles = sorted({owner.role for owner in index.owners if owner.role})
    role_of = np.array([roles.index(owner.role) if owner.role else NO_PARENT for owner in index.owners], np.int64)
    costs = role_costs(context, role_of, len(roles))
    of_owners = context.cached(owner_costs)
    in_loader = idle_in_loader(context, role_of, len(roles))
    rows = []
    for role, name in enumerate(roles):
        owners = [row for row, owner in enumerate(shown) if role_of[owner] == role]
        if owners and (costs.host[role] or costs.calls[role]):
            most = max(owners, key=lambda row: int(of_owners.host[shown[row]]))
            inside = None if in_loader is None else int(in_loader[role])
            rows.append(RoleTimes(role=name, owner=most, idle_in_loader_ns=inside, **costs.times([role])))
    return tuple(sorted(rows, key=lambda row: (-row.host_ns, row.role)))


HOST_TIME = Need(
    Text("skip-no-host-time", "the trace has no events of CPU threads in its steps"),
    lambda context: bool(context.cached(owner_index).critical.kept),
)
ANALYSES = (Analysis(40, "host_owners", HostOwners, analyze, needs=(HOST_TIME,)),)
