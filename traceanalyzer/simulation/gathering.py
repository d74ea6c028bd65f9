"""Combines edits: what becomes of each point and each device event of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from traceanalyzer.simulation.edits import (
    BandwidthEdit,
    DropEdit,
    Edit,
    Edits,
    HostEdit,
    LoaderEdit,
    OverlapEdit,
    RelaunchEdit,
    ScaleEdit,
    StartEdit,
    ThreadTimes,
    UnblockEdit,
)
from traceanalyzer.simulation.graph import NOTHING, DeviceChain, Graph, HostPoints, shifted
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_activity import is_allocation
from traceanalyzer.structure.owners import owner_index
from traceanalyzer.structure.sums import group, members
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import F64, I64, Bool
from traceanalyzer.trace.tree import NO_PARENT

# Replaces autograd's thread by the thread that waits for it, where the model does not follow autograd's thread.
#
# The model follows threads that launch device work. Without a device that is only the thread of the steps, which waits
# while autograd works on a separate thread, so that time on autograd's thread counts as time of the step.


def stand_in_times(context: Context, followed: I64, thread: I64, start_ns: I64, end_ns: I64) -> tuple[I64, I64, I64]:
    """Intervals of threads for a `HostEdit`, with those of autograd's thread moved to the thread that waits for it.

    Args:
        context: The trace.
        followed: Threads that the model follows.
        thread: Thread of each interval.
        start_ns: Start of each interval.
        end_ns: End of each interval.
    """
    engine = _engine(context, followed, thread)
    if engine is None:
        return thread, start_ns, end_ns
    critical = context.cached(owner_index).critical
    is_engine = thread == engine
    is_other = ~is_engine
    moved = Intervals.union(start_ns[is_engine], end_ns[is_engine]) & critical.handed
    return (
        np.concatenate((thread[is_other], np.full(len(moved), critical.main))),
        np.concatenate((start_ns[is_other], moved.start)),
        np.concatenate((end_ns[is_other], moved.end)),
    )


def _engine(context: Context, followed: I64, thread: I64) -> int | None:
    """Autograd's thread if it is among the threads and the model follows only the thread that waits for it, or None."""
    critical = context.cached(owner_index).critical
    if critical.engine is None or not (thread == critical.engine).any():
        return None
    follows_main = (followed == critical.main).any()
    follows_engine = (followed == critical.engine).any()
    return critical.engine if follows_main and not follows_engine else None


SHARE_DIGITS = 9
"""Digits of a share of time; with so few, products in floating point do not depend on the order of edits."""
_AT_ONCE = 1 << 14
"""Points whose host time is shortened together; it limits memory and does not change any figure."""

HostTimes = tuple[ThreadTimes, float]
"""Host intervals, and their common factor."""


@dataclass
class Gathered:
    """All edits of a replay combined, by point and by device event of its graph."""

    points: int
    events: int
    event_of_row: I64
    """By row of the device table: the judged device event, or `NOTHING`."""
    loader_floor_ns: int | None = None
    """Longest wait for the loader in ns; None for no limit."""
    loader_factor: float = 1.0
    """Factor of each wait for the loader."""
    relaunched: list[RelaunchEdit] = field(default_factory=list)
    """What is launched at once."""
    host_times: list[HostTimes] = field(default_factory=list)
    """Host intervals with their factors."""
    host_factor: F64 = field(init=False)
    """Factor of the host time before each point."""
    delay_factor: F64 = field(init=False)
    """Factor of the host time between each point and the cause from outside its thread that it continues after."""
    added_ns: I64 = field(init=False)
    """Additional host time before each point, in place of removed time."""
    unblocked: Bool = field(init=False)
    """Mask of the points that no longer wait for a device event."""
    device_factor: F64 = field(init=False)
    device_floor_ns: I64 = field(init=False)
    """The highest floor of each device event."""
    device_most_ns: I64 = field(init=False)
    """What the edit that shortens a device event most leaves of it alone: edits together leave no more."""
    earlier_ns: I64 = field(init=False)
    """By how much each device event starts sooner after its causes."""
    dropped: Bool = field(init=False)
    """Mask of the device events to remove."""
    overlapped: Bool = field(init=False)
    """Mask of the device events to move to separate streams."""

    def __post_init__(self) -> None:
        self.host_factor = np.ones(self.points)
        self.delay_factor = np.ones(self.points)
        self.added_ns = np.zeros(self.points, np.int64)
        self.unblocked = np.zeros(self.points, np.bool_)
        self.device_factor = np.ones(self.events)
        self.device_floor_ns = np.zeros(self.events, np.int64)
        self.device_most_ns = np.full(self.events, np.iinfo(np.int64).max)
        self.earlier_ns = np.zeros(self.events, np.int64)
        self.dropped = np.zeros(self.events, np.bool_)
        self.overlapped = np.zeros(self.events, np.bool_)


def gather(context: Context, marks_ns: I64, graph: Graph, edits: Edits) -> Gathered:
    """Combine edits of a graph.

    Args:
        context: The trace.
        marks_ns: Starts of the marks of the judged steps, ascending.
        graph: The graph.
        edits: The edits, in any order.
    """
    judged = np.flatnonzero(graph.device.is_judged)
    event_of_row = np.full(len(context.trace.device), NOTHING)
    event_of_row[graph.device.row[judged]] = judged
    gathered = Gathered(len(graph.host), len(graph.device), event_of_row)
    for edit in edits:
        _add(context, graph, edit, gathered)
    _shrunk(context, graph, gathered)
    for relaunched in gathered.relaunched:  # when it is known which waits, and how much host time, are left
        _relaunch(context, marks_ns, graph, relaunched, gathered)
    if gathered.relaunched:
        _shrunk(context, graph, gathered)
    return gathered


def _add(context: Context, graph: Graph, edit: Edit, gathered: Gathered) -> None:
    """Add one edit to `gathered`."""
    host = graph.host
    match edit:
        case LoaderEdit(floor, factor):
            known = [each for each in (floor, gathered.loader_floor_ns) if each is not None]
            gathered.loader_floor_ns = min(known, default=None)
            gathered.loader_factor *= factor
        case ScaleEdit(rows, factor, floor):
            _scale(graph.device, rows, factor, floor, gathered)
        case BandwidthEdit(rows, factor):
            _scale(graph.device, rows, factor, 0, gathered)
        case StartEdit(rows, earlier):
            events = gathered.event_of_row[rows]
            np.maximum.at(gathered.earlier_ns, _judged(events), earlier[events != NOTHING])
        case OverlapEdit(rows):
            gathered.overlapped[_judged(gathered.event_of_row[rows])] = True
        case HostEdit(thread, start, end, factor):
            moved = stand_in_times(context, host.thread, thread, start, end)
            gathered.host_times.append((edit.times if moved[0] is thread else ThreadTimes(*moved), factor))
        case RelaunchEdit():
            gathered.relaunched.append(edit)
        case DropEdit(rows):
            _drop(context, graph, rows, gathered)
        case UnblockEdit(rows):
            gathered.unblocked |= _ends(context, host, rows)


def _scale(device: DeviceChain, rows: I64, factor: float, floor: I64 | int, gathered: Gathered) -> None:
    """Multiply durations of device events, some of them down to a floor."""
    events = gathered.event_of_row[rows]
    known = np.flatnonzero(events != NOTHING)
    events, floor_ns = events[known], np.broadcast_to(floor, len(rows))[known]
    gathered.device_factor[events] *= factor
    gathered.device_floor_ns[events] = np.maximum(gathered.device_floor_ns[events], floor_ns)
    if factor < 1:
        alone = np.maximum(scaled(device.dur_ns[events], np.full(len(events), factor)), floor_ns)
        gathered.device_most_ns[events] = np.minimum(gathered.device_most_ns[events], alone)


def _judged(events: I64) -> I64:
    judged: I64 = events[np.flatnonzero(events != NOTHING)]
    return judged


def scaled(values: I64, factor: F64) -> I64:
    """Values times factors, rounded down so that a factor below 1 never lengthens; negative values are kept.

    Products that miss an integer only by the last digits of the factor are rounded to it.
    """
    if (factor == 1).all():
        return values
    missing = 10.0**-SHARE_DIGITS * np.maximum(values, 0) + 10.0**-SHARE_DIGITS
    rounded = np.floor(values * factor + missing)
    most = np.maximum(values, values * factor)
    products = np.minimum(rounded, most).astype(np.int64)
    is_kept = (factor == 1) | (values < 0)
    return np.where(is_kept, values, products)


def _is_in(values: I64, wanted: I64, size: int) -> Bool:
    """Mask of the values that are among some rows of a table; negative values are not."""
    marked = np.zeros(size + 1, np.bool_)
    marked[wanted] = True
    marked[size] = False
    return marked[np.where(values < 0, size, values)]


def _ends(context: Context, host: HostPoints, rows: I64) -> Bool:
    """Mask of the judged points that are ends of calls, given by rows of the launch table."""
    return host.is_end & host.is_judged & _is_in(host.call, rows, len(context.trace.launches))


def works_after(context: Context, host: HostPoints) -> Bool:
    """Mask of the ends of calls that wait for the device, and then do work of the host: they take or free memory."""
    works = np.zeros(len(host), np.bool_)
    points = np.flatnonzero(host.is_end & (host.held_by != NOTHING) & (host.call >= 0))
    works[points] = context.trace.names.where(is_allocation)[context.trace.launches.name[host.call[points]]]
    return works


def _shrunk(context: Context, graph: Graph, gathered: Gathered) -> None:
    """Multiply host time by the factors of all intervals that contain it."""
    if not gathered.host_times:
        return
    host = graph.host
    # the time before the first point of a thread is never shortened
    since = np.where(host.is_first, host.time_ns, shifted(host.time_ns, 0))
    released, is_released = _releases(context, graph)
    for _, chain in members(host.chain):
        for first in range(0, len(chain), _AT_ONCE):
            points = chain[first : first + _AT_ONCE]
            handed = points[host.is_judged[points] & is_released[points]]
            _shrink(host, points, since[points], (handed, released[handed]), gathered)


def _releases(context: Context, graph: Graph) -> tuple[I64, Bool]:
    """When each point was released by another thread, or by a device before it does work of the host; and a mask.

    The times of other points mean nothing; the mask tells those that were released.
    """
    host, device = graph.host, graph.device
    after_device = works_after(context, host)
    ended = np.append(device.start_ns + device.dur_ns, 0)[host.held_by]
    passed = np.append(host.time_ns, 0)[host.held_by_point]
    return np.where(after_device, ended, passed), after_device | (host.held_by_point != NOTHING)


def _shrink(host: HostPoints, points: I64, since: I64, handed: tuple[I64, I64], gathered: Gathered) -> None:
    """Set what remains of the host time of consecutive points of a thread.

    Args:
        host: The points.
        points: Some consecutive ones of one chain.
        since: Time of the point before each of them.
        handed: Those of them that continue after a cause from outside their thread, and when each was released.
        gathered: The factors of time before points and after causes; they are set.
    """
    time = host.time_ns[points]
    handed_points, released = handed
    window = int(released.min(initial=since[0])), int(time[-1])
    left = _Remaining.of(gathered.host_times, int(host.thread[points[0]]), window)
    if left is None:
        return
    until = left.at(np.append(since[:1], time))
    is_judged = host.is_judged[points]
    gathered.host_factor[points] = np.where(is_judged, _shares(np.diff(until), time - since), 1.0)
    number = handed_points - points[0]
    delay = until[number + 1] - left.at(released)
    gathered.delay_factor[handed_points] = _shares(delay, time[number] - released)


def _shares(remains: F64, length: I64) -> F64:
    """The remaining share of some times; 1 for those of length 0."""
    return np.where(length > 0, np.round(remains / np.maximum(length, 1), SHARE_DIGITS), 1.0)


class _Remaining(NamedTuple):
    """How much of the time of a thread remains: the factor of each piece of time, and the sum up to it."""

    edges: I64
    """Times at which the factor changes, ascending."""
    factor: F64
    """The factor from each of them to the next."""
    passed_ns: F64
    """Remaining time from the first edge to each edge."""

    @classmethod
    def of(cls, times: Sequence[HostTimes], thread: int, window: tuple[int, int]) -> _Remaining | None:
        """What remains of a thread's time; None if no interval is near.

        Args:
            times: Host intervals with their factors.
            thread: Row of the thread.
            window: Intervals outside of it are left out.
        """
        near = [(of_thread.of(thread).around(*window), factor) for of_thread, factor in times]
        parts = [(part, factor) for part, factor in near if part]
        if not parts:
            return None
        edges, factor = _product(parts)
        passed = np.append(0.0, np.cumsum(np.diff(edges) * factor[:-1]))
        return cls(edges, factor, passed)

    def at(self, times: I64) -> F64:
        """Remaining time from the first edge to each time; negative before the first edge."""
        piece = np.clip(np.searchsorted(self.edges, times, side="right") - 1, 0, len(self.edges) - 1)
        since = times - self.edges[piece]
        return self.passed_ns[piece] + np.where(since > 0, since * self.factor[piece], since)


def _product(parts: Sequence[tuple[Intervals, float]]) -> tuple[I64, F64]:
    """Times at which the product of the factors of all intervals changes, and the product from each to the next."""
    if len(parts) == 1:
        ((part, factor),) = parts
        return np.column_stack((part.start, part.end)).ravel(), np.tile((factor, 1.0), len(part))
    edges = np.concatenate([*(part.start for part, _ in parts), *(part.end for part, _ in parts)])
    order = np.argsort(edges, kind="stable")
    of_interval = np.repeat([factor for _, factor in parts], [len(part) for part, _ in parts])
    # the logarithms are added where an interval starts and taken away where it ends; removed time is counted instead
    logs = np.log(np.where(of_interval > 0, of_interval, 1.0))
    product = np.exp(np.cumsum(np.append(logs, -logs)[order]))
    removes = (of_interval == 0).astype(np.int8)
    product[np.cumsum(np.append(removes, -removes)[order], dtype=np.int32) > 0] = 0.0
    return edges[order], product


def _drop(context: Context, graph: Graph, rows: I64, gathered: Gathered) -> None:
    """Remove device events; calls and operators that launch nothing else take no time."""
    events = distinct(_judged(gathered.event_of_row[rows]))
    gathered.dropped[events] = True

    launches, links = context.trace.launches, context.links
    calls = _emptied(links.launch, links.launch[graph.device.row[events]], len(launches))
    times = ThreadTimes(launches.thread[calls], launches.start_ns[calls], launches.end_ns[calls])
    gathered.host_times.append((times, 0.0))
    gathered.unblocked |= _ends(context, graph.host, calls)

    tree = context.host.tree
    launching = distinct(links.launch[links.launch != NO_PARENT])
    nodes = _emptied(links.node[launching], links.node[calls], len(tree))
    thread = tree.thread[nodes].astype(np.int64)
    moved = stand_in_times(context, graph.host.thread, thread, tree.start_ns[nodes], tree.end_ns[nodes])
    gathered.host_times.append((ThreadTimes(*moved), 0.0))


def _emptied(group_of_all: I64, group_of_gone: I64, groups: int) -> I64:
    """The groups whose members are all gone; a member of no group has `NO_PARENT`."""
    every = np.bincount(group_of_all[group_of_all != NO_PARENT], minlength=groups)
    gone = np.bincount(group_of_gone[group_of_gone != NO_PARENT], minlength=groups)
    return np.flatnonzero((gone > 0) & (gone == every))


def _relaunch(context: Context, marks_ns: I64, graph: Graph, edit: RelaunchEdit, gathered: Gathered) -> None:
    """Replace host time between the first and last launch of each step and thread by the cost of one launch."""
    host = graph.host
    ranges = _launch_ranges(context, marks_ns, host, edit, gathered)
    if ranges is None:
        return
    first, last = ranges
    times = ThreadTimes(host.thread[first], host.time_ns[first], host.time_ns[last])
    gathered.host_times.append((times, 0.0))
    cost = np.where(gathered.unblocked, np.minimum(host.cost_ns, host.unblocked_ns), host.cost_ns)
    passed = np.append(0, np.cumsum(scaled(cost, gathered.host_factor)))
    # the launches in between take no time, so that the cost comes after all of them
    removed = passed[last + 1] - passed[first + 1]
    gathered.added_ns[last] = np.maximum(gathered.added_ns[last], np.minimum(edit.cost_ns, removed))


def _launch_ranges(
    context: Context, marks_ns: I64, host: HostPoints, edit: RelaunchEdit, gathered: Gathered
) -> tuple[I64, I64] | None:
    """The first and the last point of the launches of each graph; None without launches.

    A graph contains neither waits for the loader nor for the device: each begins another graph.
    """
    calls = distinct(context.links.launch[edit.rows])
    launching = _is_in(host.call, calls[calls != NO_PARENT], len(context.trace.launches))
    points = np.flatnonzero(launching & host.is_judged)
    if not len(points):
        return None
    is_wait = host.in_loader | ((host.held_by != NOTHING) & ~gathered.unblocked & ~launching)
    step = np.searchsorted(marks_ns, host.time_ns[points], side="right")
    _, graph = group(host.chain[points], step, np.cumsum(is_wait)[points])
    ranges = [(points[rows[0]], points[rows[-1]]) for _, rows in members(graph)]
    first, last = np.array(ranges).T
    return first, last
