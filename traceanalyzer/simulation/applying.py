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
    host = _changed_host(graph.host, gathered)
    device = _changed_device(graph.device, gathered)
    changed = Graph(host, device, graph.inputs)
    if gathered.overlapped.any():
        return _with_own_streams(changed, gathered.overlapped)
    return changed, None


def _changed_host(host: HostPoints, gathered: Gathered) -> HostPoints:
    factor = gathered.host_factor
    if gathered.loader_floor_ns is not None or gathered.loader_factor != 1:
        factor = factor * _loader_factor(host, gathered)
    cost = np.where(gathered.unblocked, np.minimum(host.cost_ns, host.unblocked_ns), host.cost_ns)
    cost = np.where(host.is_first, cost, scaled(cost, factor))
    return replace(
        host,
        cost_ns=cost + gathered.added_ns,
        delay_ns=scaled(host.delay_ns, gathered.delay_factor),
        held_by=np.where(gathered.unblocked, NOTHING, host.held_by),
    )


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
    begins = inside & ~np.append(False, inside)[: len(inside)]
    wait = np.cumsum(begins) * inside
    waits = int(wait.max(initial=0))
    length = sum_by(wait, np.where(inside, host.cost_ns, 0), waits + 1)
    return wait, length


def _changed_device(device: DeviceChain, gathered: Gathered) -> DeviceChain:
    floor = np.minimum(gathered.device_floor_ns, gathered.device_most_ns)
    shorter = np.maximum(scaled(device.dur_ns, gathered.device_factor), floor)
    # a floor limits shortening, but lengthens no event
    dur = np.where(gathered.device_factor <= 1, np.minimum(shorter, device.dur_ns), shorter)
    dropped = gathered.dropped
    gap, latency, wait = (
        np.where(after >= gathered.earlier_ns, after - gathered.earlier_ns, after)
        for after in (device.gap_ns, device.latency_ns, device.wait_ns)
    )
    changed = replace(
        device,
        dur_ns=np.where(dropped, 0, dur),
        gap_ns=np.where(dropped, np.minimum(gap, 0), gap),
        latency_ns=latency,
        wait_ns=wait,
        launch=np.where(dropped, NOTHING, device.launch),
    )
    return _in_order(changed)


def _in_order(device: DeviceChain) -> DeviceChain:
    """Let no event overlap more of the one before it on its stream than that still takes: it starts after it."""
    most_overlap = np.where(device.is_first, NEVER, -shifted(device.dur_ns, 0))
    return replace(device, gap_ns=np.maximum(device.gap_ns, most_overlap))


def _with_own_streams(graph: Graph, moved: Bool) -> tuple[Graph, I64]:
    """Move events to separate streams: they wait for their predecessor on the old one, and no stream waits for them."""
    device = graph.device
    stream = np.where(moved, device.stream + int(device.stream.max()) + 1, device.stream)
    waits_for, wait = _waits_across(device, moved)
    order = np.lexsort((np.arange(len(device)), stream))
    position = np.full(len(device) + 1, NOTHING)
    position[order] = np.arange(len(order))
    between = np.where(moved, _left_out(device, ~moved), _left_out(device, moved))
    separated = replace(
        device,
        stream=stream,
        gap_ns=device.gap_ns + np.minimum(between, 0),
        waits_for=position[waits_for],
        wait_ns=wait,
    )
    chain = DeviceChain(**{name: values[order] for name, values in asdict(separated).items()})
    host = replace(graph.host, held_by=position[graph.host.held_by])
    return replace(graph, host=host, device=_in_order(chain)), position[:-1]


def _waits_across(device: DeviceChain, moved: Bool) -> tuple[I64, I64]:
    """The event that each event waits for, and for how long, if some events move to other streams."""
    is_moved = np.append(moved, False)  # also of `NOTHING`
    previous = np.where(device.is_first, NOTHING, np.arange(len(device)) - 1)
    leaves = moved & (previous != NOTHING) & ~is_moved[previous]
    waits_for = np.where(leaves, previous, device.waits_for)
    waits_for = np.where(~moved & is_moved[waits_for], NOTHING, waits_for)
    # nothing else tells when an event without a launch starts
    is_orphan = ~moved & (previous != NOTHING) & is_moved[previous]
    is_orphan &= (device.launch == NOTHING) & (waits_for == NOTHING)
    waits_for = np.where(is_orphan, previous, waits_for)
    return waits_for, np.where(leaves | is_orphan, device.gap_ns, device.wait_ns)


def _left_out(device: DeviceChain, moved: Bool) -> I64:
    """For each remaining event, the gaps and durations of the moved events directly before it on its stream.

    Negative where these overlap with remaining events: their successor must not start later because they have moved.
    """
    passed = np.cumsum(device.gap_ns + device.dur_ns)
    position = np.arange(len(device))
    last_remaining = np.maximum.accumulate(np.where(~moved | device.is_first, position, 0))
    before = shifted(last_remaining, 0)
    return np.where(device.is_first, 0, shifted(passed, 0) - passed[before])
