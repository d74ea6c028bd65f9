"""Applies edits to a graph: selects their points and events, and changes durations and causes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from traceanalyzer.analyzers.context import Context
from traceanalyzer.analyzers.sums import members, sum_by
from traceanalyzer.simulation import stand_ins
from traceanalyzer.simulation.edits import (
    BandwidthEdit,
    DropEdit,
    Edits,
    Gathered,
    HostEdit,
    HostTimes,
    LoaderEdit,
    OverlapEdit,
    RelaunchEdit,
    ScaleEdit,
)
from traceanalyzer.simulation.graph import NOTHING, DeviceChain, Graph, HostPoints, shifted
from traceanalyzer.trace.distinct import ascending, distinct
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import F64, I64, Bool
from traceanalyzer.trace.tree import NO_PARENT

_DIGITS = 9
"""Digits of a share of time; with so few, products in floating point do not depend on the order of edits."""
_NO_TIMES = np.empty(0, np.int64)


def apply(context: Context, marks_ns: I64, graph: Graph, edits: Edits) -> tuple[Graph, I64 | None]:
    """The graph with all edits applied together.

    Args:
        context: The trace.
        marks_ns: Starts of the marks of the judged steps, ascending.
        graph: The graph.
        edits: The edits, in any order.

    Returns:
        The changed graph, and the new position of each device event, or None if the order of events is unchanged.
    """
    if not edits:
        return graph, None
    gathered = Gathered(len(graph.host), len(graph.device))
    for edit in edits:
        _gather(context, marks_ns, graph, edit, gathered)
    _shrunk(graph.host, gathered)
    return _changed(graph, gathered)


def _gather(context: Context, marks_ns: I64, graph: Graph, edit: object, gathered: Gathered) -> None:
    """Add one edit to `gathered`."""
    host = graph.host
    match edit:
        case LoaderEdit(floor, factor):
            known = [each for each in (floor, gathered.loader_floor_ns) if each is not None]
            gathered.loader_floor_ns = min(known, default=None)
            gathered.loader_factor *= factor
        case ScaleEdit(rows, factor, floor):
            gathered.device_factor[_events(context, graph.device, rows)] *= factor
            if isinstance(floor, np.ndarray) or floor:
                floors = np.zeros(len(context.trace.device), np.int64)
                floors[rows] = floor
                gathered.device_floor_ns = np.maximum(gathered.device_floor_ns, floors[graph.device.row])
        case BandwidthEdit(rows, factor):
            gathered.device_factor[_events(context, graph.device, rows)] *= factor
        case OverlapEdit(rows):
            gathered.overlapped |= _events(context, graph.device, rows)
        case HostEdit(thread, start, end, factor):
            gathered.host_times.append((*stand_ins.of_times(context, host.thread, thread, start, end), factor))
        case RelaunchEdit(rows, cost):
            _relaunch(context, marks_ns, graph, rows, cost, gathered)
        case DropEdit(rows):
            _drop(context, graph, rows, gathered)
        case _:
            gathered.unblocked |= _ends(context, host, edit.rows)  # type: ignore[attr-defined]


def _events(context: Context, device: DeviceChain, rows: I64) -> Bool:
    """Mask of the judged device events among some rows of the device table."""
    marked = np.zeros(len(context.trace.device), np.bool_)
    marked[rows] = True
    found: Bool = marked[device.row] & device.is_judged
    return found


def _is_in(values: I64, wanted: I64, size: int) -> Bool:
    """Mask of the values that are among some rows of a table; negative values are not."""
    marked = np.zeros(size + 1, np.bool_)
    marked[wanted] = True
    marked[size] = False
    return marked[np.where(values < 0, size, values)]


def _ends(context: Context, host: HostPoints, rows: I64) -> Bool:
    """Mask of the judged points that are ends of calls, given by rows of the launch table."""
    found: Bool = host.is_end & host.is_judged & _is_in(host.call, rows, len(context.trace.launches))
    return found


def _shrunk(host: HostPoints, gathered: Gathered) -> None:
    """Multiply host time by the factors of all intervals that contain it."""
    for _, own in members(host.chain) if gathered.host_times else ():
        edges, factor = _pieces(gathered.host_times, int(host.thread[own[0]]))
        if not len(edges):
            continue
        left = np.append(0.0, np.cumsum(np.diff(edges) * factor[:-1]))
        time, judged = host.time_ns[own], host.is_judged[own]
        begin = np.append(time[0] - host.cost_ns[own[0]], time[:-1])
        remaining = _remaining(edges, factor, left, np.append(begin[:1], time))
        gathered.host_factor[own] = np.where(judged, _shares(np.diff(remaining), time - begin), 1.0)
        handed = np.flatnonzero(judged & (host.held_by_point[own] != NOTHING))
        if len(handed):
            since = host.time_ns[host.held_by_point[own[handed]]]
            remains = remaining[handed + 1] - _remaining(edges, factor, left, since)
            gathered.delay_factor[own[handed]] = _shares(remains, time[handed] - since)


def _shares(remains: F64, length: I64) -> F64:
    """The remaining share of some times; 1 for those of length 0."""
    found: F64 = np.where(length > 0, np.round(remains / np.maximum(length, 1), _DIGITS), 1.0)
    return found


def _pieces(times: list[HostTimes], thread: int) -> tuple[I64, F64]:
    """Times at which the factor of a thread changes, ascending, and the factor from each to the next."""
    parts = []
    for threads, start, end, factor in times:
        rows = np.flatnonzero(threads == thread)
        if len(rows):
            parts.append((Intervals.union(start[rows], end[rows]), factor))
    edges = ascending(np.concatenate([bound for part, _ in parts for bound in (part.start, part.end)] or [_NO_TIMES]))
    factors = np.ones(len(edges))
    for part, factor in parts:
        change = np.zeros(len(edges) + 1, np.int64)
        change[np.searchsorted(edges, part.start)] += 1  # no time is both a start and an end, or twice one
        change[np.searchsorted(edges, part.end)] -= 1
        factors[np.cumsum(change)[:-1] > 0] *= factor
    return edges, factors


def _remaining(edges: I64, factor: F64, left: F64, times: I64) -> F64:
    """Remaining time from the first edge to each time; negative before the first edge."""
    piece = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, len(edges) - 1)
    passed = times - edges[piece]
    remains: F64 = left[piece] + np.where(passed > 0, passed * factor[piece], passed)
    return remains


def _drop(context: Context, graph: Graph, rows: I64, gathered: Gathered) -> None:
    """Remove device events; calls and operators that launch nothing else take no time."""
    events = _events(context, graph.device, rows)
    gathered.dropped |= events
    launches, links = context.trace.launches, context.links
    every = np.bincount(links.launch[links.launch != NO_PARENT], minlength=len(launches))
    gone = links.launch[graph.device.row[events]]
    gone = np.bincount(gone[gone != NO_PARENT], minlength=len(launches))
    calls = np.flatnonzero((gone > 0) & (gone == every))
    start, end, thread = launches.start_ns[calls], launches.end_ns[calls], launches.thread[calls]
    gathered.host_times.append((thread.astype(np.int64), start, end, 0.0))
    gathered.unblocked |= _ends(context, graph.host, calls)
    nodes = links.node[calls]
    size = len(context.host.tree)
    own = np.flatnonzero((every > 0) & (links.node != NO_PARENT))
    whole = np.bincount(links.node[own], minlength=size)
    left = np.bincount(nodes[nodes != NO_PARENT], minlength=size)
    empty = np.flatnonzero((left > 0) & (left == whole))
    tree = context.host.tree
    around, within = tree.start_ns[empty], tree.end_ns[empty]
    threads = tree.thread[empty].astype(np.int64)
    gathered.host_times.append((*stand_ins.of_times(context, graph.host.thread, threads, around, within), 0.0))


def _relaunch(context: Context, marks_ns: I64, graph: Graph, rows: I64, cost: int, gathered: Gathered) -> None:
    """Replace host time between the first and last launch of each step and thread by the cost of one launch."""
    host = graph.host
    launches = context.trace.launches
    calls = distinct(context.links.launch[rows])
    marked = np.flatnonzero(_is_in(host.call, calls[calls != NO_PARENT], len(launches)) & host.is_judged)
    if not len(marked):
        return
    step = np.searchsorted(marks_ns, host.time_ns[marked], side="right")
    key = host.chain[marked] * (len(marks_ns) + 1) + step
    firsts, lasts = np.array([(points[0], points[-1]) for _, points in _grouped(key, marked)]).T
    thread, start, end = host.thread[firsts], host.time_ns[firsts], host.time_ns[lasts]
    gathered.host_times.append((thread, start, end, 0.0))
    passed = np.append(0, np.cumsum(host.cost_ns))
    # the launches in between take no time, so that the cost comes after all of them
    removed = passed[lasts + 1] - passed[firsts + 1]
    gathered.added_ns[lasts] = np.maximum(gathered.added_ns[lasts], np.minimum(cost, removed))


def _grouped(key: I64, values: I64) -> Iterator[tuple[int, I64]]:
    """Yield each key with its values in ascending order."""
    for number, rows in members(key):
        yield number, values[rows]


def _changed(graph: Graph, gathered: Gathered) -> tuple[Graph, I64 | None]:
    """The graph with all gathered edits."""
    changed = Graph(_changed_host(graph.host, gathered), _changed_device(graph.device, gathered), graph.inputs)
    return _with_own_streams(changed, gathered.overlapped) if gathered.overlapped.any() else (changed, None)


def _changed_host(host: HostPoints, gathered: Gathered) -> HostPoints:
    cost = np.where(gathered.unblocked, np.minimum(host.cost_ns, host.unblocked_ns), host.cost_ns)
    factor = gathered.host_factor
    if gathered.loader_floor_ns is not None or gathered.loader_factor != 1:
        factor = factor * _loader_factor(host, gathered)
    cost = np.where(host.is_first, cost, _times(cost, factor)) + gathered.added_ns
    delay = np.where(host.held_by_point != NOTHING, _times(host.delay_ns, gathered.delay_factor), host.delay_ns)
    return replace(host, cost_ns=cost, delay_ns=delay, held_by=np.where(gathered.unblocked, NOTHING, host.held_by))


def _loader_factor(host: HostPoints, gathered: Gathered) -> F64:
    """Factor of each wait for the loader that limits its host time to the floor."""
    wait, length = loader_waits(host)
    factor = np.full(len(length), gathered.loader_factor)
    if gathered.loader_floor_ns is not None:
        factor = np.minimum(factor, gathered.loader_floor_ns / np.maximum(length, 1))
    factor[0] = 1.0
    each: F64 = factor[wait]
    return each


def loader_waits(host: HostPoints) -> tuple[I64, I64]:
    """For each point the number of the judged wait for the loader that it is in, 0 for none; and the time of each wait.

    Returns:
        Shape (points,); and host time in ns by number, shape (1 + waits,), of number 0 nothing.
    """
    inside = host.in_loader & host.is_judged
    wait = np.cumsum(inside & ~np.append(False, inside)[: len(inside)]) * inside
    length = sum_by(wait, np.where(inside, host.cost_ns, 0), int(wait.max(initial=0)) + 1)
    return wait, length


def _changed_device(device: DeviceChain, gathered: Gathered) -> DeviceChain:
    shorter = np.maximum(_times(device.dur_ns, gathered.device_factor), gathered.device_floor_ns)
    # a floor limits shortening, but lengthens no event
    dur = np.where(gathered.device_factor < 1, np.minimum(shorter, device.dur_ns), shorter)
    dropped = gathered.dropped
    return replace(
        device,
        dur_ns=np.where(dropped, 0, dur),
        gap_ns=np.where(dropped, np.minimum(device.gap_ns, 0), device.gap_ns),
        launch=np.where(dropped, NOTHING, device.launch),
    )


def _times(values: I64, factor: F64) -> I64:
    """Values times factors, rounded down so that a factor below 1 never lengthens; negative values are kept.

    Products that miss an integer only by the last digits of the factor are rounded to it.
    """
    if (factor == 1).all():
        return values
    missing = 10.0**-_DIGITS * np.maximum(values, 0) + 10.0**-_DIGITS
    products = np.minimum(np.floor(values * factor + missing), np.maximum(values, values * factor))
    return np.where((factor == 1) | (values < 0), values, products.astype(np.int64))


def _with_own_streams(graph: Graph, moved: Bool) -> tuple[Graph, I64]:
    """Move events to separate streams: they wait for their predecessor on the old one, and no stream waits for them."""
    device = graph.device
    size = int(device.stream.max()) + 1
    stream = np.where(moved, device.stream + size, device.stream)
    previous = np.where(device.is_first, NOTHING, np.arange(len(device)) - 1)
    leaves = moved & (previous != NOTHING) & ~np.append(moved, False)[previous]
    waits = np.where(leaves, previous, device.waits_for)
    delay = np.where(leaves | ~moved & (device.waits_for == NOTHING), device.gap_ns, device.wait_ns)
    cut = ~moved & np.append(moved, False)[waits]
    orphan = ~moved & (previous != NOTHING) & np.append(moved, False)[previous] & (device.launch == NOTHING)
    waits = np.where(cut, NOTHING, waits)
    waits = np.where(orphan & (waits == NOTHING), previous, waits)
    order = np.lexsort((np.arange(len(device)), stream))
    place = np.full(len(device) + 1, NOTHING)
    place[order] = np.arange(len(order))
    between = np.where(moved, _left_out(device, ~moved), _left_out(device, moved))
    device = replace(device, gap_ns=device.gap_ns + np.minimum(between, 0))
    names = ("row", "start_ns", "dur_ns", "gap_ns", "launch", "latency_ns", "is_judged")
    columns = {name: getattr(device, name)[order] for name in names}
    chain = DeviceChain(**columns, stream=stream[order], waits_for=place[waits][order], wait_ns=delay[order])
    return replace(graph, host=replace(graph.host, held_by=place[graph.host.held_by]), device=chain), place[:-1]


def _left_out(device: DeviceChain, moved: Bool) -> I64:
    """For each remaining event, the gaps and durations of the moved events directly before it on its stream.

    Negative where these overlap with remaining events: their successor must not start later because they have moved.
    """
    passed = np.cumsum(device.gap_ns + device.dur_ns)
    position = np.arange(len(device))
    stays = np.maximum.accumulate(np.where(~moved | device.is_first, position, 0))
    before = shifted(stays, 0)
    left: I64 = np.where(device.is_first, 0, shifted(passed, 0) - passed[before])
    return left
