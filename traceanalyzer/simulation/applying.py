"""Applies edits to a graph: changes durations and causes of its points and events."""

from __future__ import annotations

import numpy as np
from msgspec.structs import asdict, replace

from traceanalyzer.simulation.edits import Edits
from traceanalyzer.simulation.gathering import Gathered, gather, scaled
from traceanalyzer.simulation.graph import NOTHING, DeviceChain, Graph, HostPoints, shifted
from traceanalyzer.simulation.longest_path import NEVER
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.sums import sum_by
from traceanalyzer.trace.table import F64, I64, Bool


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
    gathered = gather(context, marks_ns, graph, edits)
    changed = Graph(_changed_host(graph.host, gathered), _changed_device(graph.device, gathered), graph.inputs)
    return _with_own_streams(changed, gathered.overlapped) if gathered.overlapped.any() else (changed, None)


def _changed_host(host: HostPoints, gathered: Gathered) -> HostPoints:
    cost = np.where(gathered.unblocked, np.minimum(host.cost_ns, host.unblocked_ns), host.cost_ns)
    factor = gathered.host_factor
    if gathered.loader_floor_ns is not None or gathered.loader_factor != 1:
        factor = factor * _loader_factor(host, gathered)
    cost = np.where(host.is_first, cost, scaled(cost, factor)) + gathered.added_ns
    delay = scaled(host.delay_ns, gathered.delay_factor)
    return replace(host, cost_ns=cost, delay_ns=delay, held_by=np.where(gathered.unblocked, NOTHING, host.held_by))


def _loader_factor(host: HostPoints, gathered: Gathered) -> F64:
    """Factor of each wait for the loader that limits its host time to the floor."""
    wait, length = loader_waits(host)
    factor = np.full(len(length), gathered.loader_factor)
    if gathered.loader_floor_ns is not None:
        factor = np.minimum(factor, gathered.loader_floor_ns / np.maximum(length, 1))
    factor[0] = 1.0
    return factor[wait]


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
    floor = np.minimum(gathered.device_floor_ns, gathered.device_most_ns)
    shorter = np.maximum(scaled(device.dur_ns, gathered.device_factor), floor)
    # a floor limits shortening, but lengthens no event
    dur = np.where(gathered.device_factor <= 1, np.minimum(shorter, device.dur_ns), shorter)
    dropped = gathered.dropped
    return _in_order(
        replace(
            device,
            dur_ns=np.where(dropped, 0, dur),
            gap_ns=np.where(dropped, np.minimum(device.gap_ns, 0), device.gap_ns),
            launch=np.where(dropped, NOTHING, device.launch),
        )
    )


def _in_order(device: DeviceChain) -> DeviceChain:
    """Let no event overlap more of the one before it on its stream than that still takes: it starts after it."""
    return replace(
        device, gap_ns=np.maximum(device.gap_ns, np.where(device.is_first, NEVER, -shifted(device.dur_ns, 0)))
    )


def _with_own_streams(graph: Graph, moved: Bool) -> tuple[Graph, I64]:
    """Move events to separate streams: they wait for their predecessor on the old one, and no stream waits for them."""
    device = graph.device
    size = int(device.stream.max()) + 1
    stream = np.where(moved, device.stream + size, device.stream)
    previous = np.where(device.is_first, NOTHING, np.arange(len(device)) - 1)
    leaves = moved & (previous != NOTHING) & ~np.append(moved, False)[previous]
    waits = np.where(leaves, previous, device.waits_for)
    waits = np.where(~moved & np.append(moved, False)[waits], NOTHING, waits)
    orphan = ~moved & (previous != NOTHING) & np.append(moved, False)[previous] & (device.launch == NOTHING)
    orphan &= waits == NOTHING
    waits = np.where(orphan, previous, waits)
    delay = np.where(leaves | orphan, device.gap_ns, device.wait_ns)
    order = np.lexsort((np.arange(len(device)), stream))
    place = np.full(len(device) + 1, NOTHING)
    place[order] = np.arange(len(order))
    between = np.where(moved, _left_out(device, ~moved), _left_out(device, moved))
    device = replace(device, gap_ns=device.gap_ns + np.minimum(between, 0))
    columns = {name: values[order] for name, values in asdict(device).items()}
    columns |= {"stream": stream[order], "waits_for": place[waits][order], "wait_ns": delay[order]}
    chain = DeviceChain(**columns)
    host = replace(graph.host, held_by=place[graph.host.held_by])
    return replace(graph, host=host, device=_in_order(chain)), place[:-1]


def _left_out(device: DeviceChain, moved: Bool) -> I64:
    """For each remaining event, the gaps and durations of the moved events directly before it on its stream.

    Negative where these overlap with remaining events: their successor must not start later because they have moved.
    """
    passed = np.cumsum(device.gap_ns + device.dur_ns)
    position = np.arange(len(device))
    stays = np.maximum.accumulate(np.where(~moved | device.is_first, position, 0))
    before = shifted(stays, 0)
    return np.where(device.is_first, 0, shifted(passed, 0) - passed[before])
