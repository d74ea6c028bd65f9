"""The costs of owners: time of the critical thread, idle time of the device, device time of launched work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from traceanalyzer.knowledge.host_roles import LOADER
from traceanalyzer.structure import host_activity
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.module_calls import device_time
from traceanalyzer.structure.owners import OwnerIndex, launch_owners, owner_index
from traceanalyzer.structure.owners.critical import device_idle
from traceanalyzer.structure.owners.slices import ROLE_IDS
from traceanalyzer.structure.sums import count_by, members, rows_by, sum_by
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, Bool, take_or
from traceanalyzer.trace.tree import NO_PARENT

Measure = Callable[[I64, I64], I64]
"""How much of something each of some intervals has, given their starts and ends in ns."""


class OwnerCosts(msgspec.Struct, frozen=True):
    """Costs by owner number, with a last entry for time without an owner. Times are in ns, 0 if unknown."""

    calls: I64
    host: I64
    host_self: I64
    idle: I64
    idle_self: I64
    waiting_self: I64
    device: I64
    device_self: I64
    steps: int
    idle_total: int | None
    device_total: int | None

    def times(self, numbers: Sequence[int]) -> dict[str, Any]:
        """The fields of `OwnerTimes` for some entries together."""
        rows = np.array(numbers, np.int64)
        host, host_self, idle, idle_self = (
            int(column[rows].sum()) for column in (self.host, self.host_self, self.idle, self.idle_self)
        )
        has_idle = self.idle_total is not None
        has_device = self.device_total is not None
        return {
            "calls": int(self.calls[rows].sum()),
            "host_ns": host,
            "host_self_ns": host_self,
            "idle_ns": idle if has_idle else None,
            "idle_self_ns": idle_self if has_idle else None,
            "waiting_self_ns": int(self.waiting_self[rows].sum()),
            "device_ns": int(self.device[rows].sum()) if has_device else None,
            "device_self_ns": int(self.device_self[rows].sum()) if has_device else None,
            "host_ns_per_step": host / self.steps,
            "host_self_ns_per_step": host_self / self.steps,
            "idle_ns_per_step": idle / self.steps if has_idle else None,
            "idle_self_ns_per_step": idle_self / self.steps if has_idle else None,
        }


class _Parts(msgspec.Struct, frozen=True):
    """Data with which costs are measured."""

    index: OwnerIndex
    idle: Intervals | None
    launch_start: tuple[I64, I64]
    """Starts of the launches of the program's thread and of autograd's in the steps that count."""
    launch_device: tuple[I64, I64]
    """Device time in ns of the work of each launch."""
    segment_idle: I64
    segment_waiting: I64
    launch_owner: tuple[I64, I64]


def owner_costs(context: Context) -> OwnerCosts:
    """Costs of every owner."""
    index = context.cached(owner_index)
    return _costs(context, index.owner, len(index.owners), np.arange(len(index.owners)))


def role_costs(context: Context, role: I64, count: int) -> OwnerCosts:
    """Costs of owners together.

    Args:
        context: The trace.
        role: For each owner the number of its role, -1 for none.
        count: Number of roles.
    """
    index = context.cached(owner_index)
    return _costs(context, role[index.owner], count, role)


def idle_in_loader(context: Context, role: I64, count: int) -> I64 | None:
    """Idle time of each role in ns that passes inside the program's loader; None without device events.

    Args:
        context: The trace.
        role: For each owner the number of its role, -1 for none.
        count: Number of roles.
    """
    index = context.cached(owner_index)
    parts = context.cached(measured_parts)
    if parts.idle is None:
        return None
    nested, segments = index.nested, index.timeline
    loader = nested.tree.nearest(nested.role == ROLE_IDS.index(LOADER))
    inside = take_or(loader, segments.slice, NO_PARENT) != NO_PARENT
    number = np.append(role, NO_PARENT)[segments.owner] % (count + 1)
    return sum_by(number[inside], parts.segment_idle[inside], count + 1)[:count]


def _costs(context: Context, of_slice: I64, count: int, of_owner: I64) -> OwnerCosts:
    parts = context.cached(measured_parts)
    critical = parts.index.critical
    own = _own_costs(parts, np.append(of_owner, NO_PARENT), count)
    spans = _Spans.of(parts.index, of_slice, count)
    idle = parts.idle or Intervals.none()
    host = spans.total(critical.kept.within, (critical.kept & critical.handed).within)
    idle_inside = spans.total(idle.within, (idle & critical.handed).within)
    device_total = int(own.device.sum()) if (context.links.launch != NO_PARENT).any() else None
    return OwnerCosts(
        calls=spans.calls,
        host=_with_rest(host, own.host),
        host_self=own.host,
        idle=_with_rest(idle_inside, own.idle),
        idle_self=own.idle,
        waiting_self=own.waiting,
        device=_with_rest(spans.launched(parts), own.device),
        device_self=own.device,
        steps=max(1, critical.steps),
        idle_total=None if parts.idle is None else parts.idle.length,
        device_total=device_total,
    )


class _OwnCosts(NamedTuple):
    """Times of each owner without those inside it; the last entry is the time without an owner."""

    host: I64
    idle: I64
    waiting: I64
    device: I64


def _own_costs(parts: _Parts, by_owner: I64, count: int) -> _OwnCosts:
    """Sum up segments of the timeline, and launches, by the number that each owner has (-1 for none)."""
    segments = parts.index.timeline
    number = by_owner[segments.owner] % (count + 1)
    device = np.zeros(count + 1, np.int64)
    for owner, launched in zip(parts.launch_owner, parts.launch_device, strict=True):
        device += sum_by(by_owner[owner] % (count + 1), launched, count + 1)
    return _OwnCosts(
        host=sum_by(number, segments.end_ns - segments.start_ns, count + 1),
        idle=sum_by(number, parts.segment_idle, count + 1),
        waiting=sum_by(number, parts.segment_waiting, count + 1),
        device=device,
    )


def _with_rest(inclusive: I64, exclusive: I64) -> I64:
    """Time without an owner has no owners inside."""
    return np.append(inclusive, exclusive[-1])


class _Spans(msgspec.Struct, frozen=True):
    """When each of some owners is open: on the program's thread, and on that or on autograd's."""

    count: int
    calls: I64
    main: tuple[I64, I64, I64]
    """Owner, start and end of disjoint spans."""
    both: tuple[I64, I64, I64]

    @classmethod
    def of(cls, index: OwnerIndex, of_slice: I64, count: int) -> _Spans:
        """The spans of all owners; slices of number -1 have none."""
        tree, critical = index.nested.tree, index.critical
        main = (tree.thread == critical.main) & (of_slice >= 0)
        engine = (tree.thread == (-1 if critical.engine is None else critical.engine)) & (of_slice >= 0)
        begins = main & critical.kept.contains(tree.start_ns)
        begins |= engine & (critical.kept & critical.episodes).contains(tree.start_ns)
        calls = count_by(of_slice[begins], count)

        def spans(rows: Bool) -> tuple[I64, I64, I64]:
            return _unions(of_slice[rows], tree.start_ns[rows], tree.end_ns[rows])

        return cls(count, np.append(calls, 0), spans(main), spans(main | engine))

    def total(self, every: Measure, handed: Measure) -> I64:
        """For each owner the measure of its spans; those on autograd's thread count only while it is critical."""
        return self._sum(self.main, every) + self._sum(self.both, handed) - self._sum(self.main, handed)

    def launched(self, parts: _Parts) -> I64:
        """For each owner the device time of the work launched in its spans."""
        measures = [_in_points(*pair) for pair in zip(parts.launch_start, parts.launch_device, strict=True)]
        return self._sum(self.main, measures[0]) + self._sum(self.both, measures[1])

    def _sum(self, spans: tuple[I64, I64, I64], measure: Measure) -> I64:
        return sum_by(spans[0], measure(spans[1], spans[2]), self.count)


def _in_points(times: I64, values: I64) -> Measure:
    """Measures intervals by the sum of the values at points in time, which ascend."""
    passed = np.append(0, np.cumsum(values))

    def measure(start: I64, end: I64) -> I64:
        between: I64 = passed[np.searchsorted(times, end)] - passed[np.searchsorted(times, start)]
        return between

    return measure


def _unions(group: I64, start: I64, end: I64) -> tuple[I64, I64, I64]:
    """The union of the intervals of each group: group, start and end of each part."""
    moments, rank = np.unique(np.concatenate((start, end)), return_inverse=True)
    room = len(moments) + 1  # one more, so that intervals of neighbouring groups do not touch
    base = group * room
    joined = Intervals.union(base + rank[: len(start)], base + rank[len(start) :])
    return joined.start // room, moments[joined.start % room], moments[joined.end % room]


def measured_parts(context: Context) -> _Parts:
    """What costs are measured with; it takes much memory."""
    index = context.cached(owner_index)
    critical = index.critical
    launches = context.trace.launches
    idle = device_idle(context)
    device, owner = context.cached(device_time), context.cached(launch_owners)
    rows = np.flatnonzero((device > 0) & critical.kept.contains(launches.start_ns))
    thread = launches.thread[rows]
    of_main = rows[thread == critical.main]
    of_engine = rows[thread == (NO_PARENT if critical.engine is None else critical.engine)]
    return _Parts(
        index=index,
        idle=idle,
        launch_start=(launches.start_ns[of_main], launches.start_ns[of_engine]),
        launch_device=(device[of_main], device[of_engine]),
        segment_idle=(idle or Intervals.none()).within(index.timeline.start_ns, index.timeline.end_ns),
        segment_waiting=_waiting(context, index),
        launch_owner=(owner[of_main], owner[of_engine]),
    )


def thread_costs(context: Context, thread: int) -> tuple[I64, I64]:
    """The costs of each owner on one thread in the steps that count.

    Returns:
        Time in ns without owners inside, shape (owners,), and device time in ns of the work launched, shape
        (owners + 1,), of which the last entry is that of launches without an owner.
    """
    index = context.cached(owner_index)
    launches = context.trace.launches
    tree, kept = index.nested.tree, index.critical.kept
    count = len(index.owners)
    part = tree.threads.get(thread, slice(0, 0))
    time = kept.within(tree.start_ns, tree.end_ns)
    own = (time - tree.child_sums(time))[part]
    device = context.cached(device_time)
    rows = np.flatnonzero((launches.thread == thread) & (device > 0) & kept.contains(launches.start_ns))
    owner = index.of_launches(context, rows) % (count + 1)
    return sum_by(index.owner[part], own, count), sum_by(owner, device[rows], count + 1)


def _waiting(context: Context, index: OwnerIndex) -> I64:
    """Time of each segment of the timeline in which its thread waits for the device."""
    segments = index.timeline
    waits = context.cached(host_activity.waits)
    waiting = np.zeros(len(segments.owner), np.int64)
    waits_of = rows_by(waits.thread)
    for thread, rows in members(segments.thread):
        own = waits_of(thread)
        times = Intervals.union(waits.start_ns[own], waits.end_ns[own])
        waiting[rows] = times.within(segments.start_ns[rows], segments.end_ns[rows])
    return waiting
