"""Computes the times of a replay: the longest path through a graph, without a loop over its events.

Between two points at which a host thread waits for another cause, its points have fixed distances: a block. Device
events of one stream that were launched from one block, and that wait for nothing else, form a run. The end of a run is
the later of two sums: the end of the previous run plus its own length, and the time of the block plus a constant. So
only blocks and runs are computed one by one; all times within them are cumulative sums and maxima of columns.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np

from traceanalyzer.simulation.graph import NOTHING, RECORDED, DeviceChain, Graph, HostPoints, shifted
from traceanalyzer.trace.table import I64, Bool

NEVER = -(1 << 60)
"""A time before all others: the neutral element of the maximum."""
ORIGIN = 0
"""The node at time 0, the cause of all nodes without other causes."""
_AT_ONCE = 1 << 14
"""Nodes whose causes are Python's numbers at a time (own choice: those of all nodes fill memory)."""


class Times(msgspec.Struct, frozen=True):
    """Times of points and events in a replay, in ns on the clock of the recording."""

    point_ns: I64
    """Times of host points, shape (points,)."""
    start_ns: I64
    """Starts of device events, shape (events,)."""
    end_ns: I64
    """Ends of device events, shape (events,)."""
    dropped: int
    """Number of causes that were left out because the recorded order contradicts them."""


class Contracted(msgspec.Struct, frozen=True):
    """Blocks and runs in topological order, each with up to three causes."""

    cause: I64
    """Positions of causes, shape (3, nodes); `NOTHING` for missing ones."""
    weight_ns: I64
    """Time from each cause to the node, shape (3, nodes)."""
    block: I64
    """For each point, the position of its block."""
    offset_ns: I64
    """For each point, the time since the start of its block."""
    run: I64
    """For each event, the position of its run."""
    length_ns: I64
    """For each event, the sum of gaps and durations of its stream up to its end."""
    dropped: int
    """Number of causes that the recorded order contradicts."""

    def __len__(self) -> int:
        return int(self.cause.shape[1])


def replay(graph: Graph) -> Times:
    """Compute the times of all points and events."""
    return replay_contracted(graph.device, contract(graph))


def replay_contracted(device: DeviceChain, small: Contracted) -> Times:
    """The same, with the device events, and the blocks and runs, of a graph."""
    node_ns = np.array(_forward(small), np.int64)
    point = node_ns[small.block] + small.offset_ns
    # the earliest start of each event, if its stream is free
    earliest = np.where(device.launch >= 0, np.append(point, 0)[device.launch] + device.latency_ns, NEVER)
    earliest = np.where(device.launch == RECORDED, device.latency_ns, earliest)
    # the node of a run is the end of its last event, whatever the recording says of it
    last = np.flatnonzero(small.run != shifted(small.run[::-1], NOTHING)[::-1])
    start_of_last = node_ns[small.run[last]] - device.dur_ns[last]
    earliest[last] = np.maximum(earliest[last], start_of_last)
    # an event that others wait for ends its run, so its end is already known
    waiting = np.flatnonzero(device.waits_for != NOTHING)
    awaited_end = node_ns[small.run[device.waits_for[waiting]]]
    earliest[waiting] = np.maximum(earliest[waiting], awaited_end + device.wait_ns[waiting])

    begin_of_stream = running_maximum(earliest + device.dur_ns - small.length_ns, device.stream)
    end = begin_of_stream + small.length_ns
    return Times(point, end - device.dur_ns, end, small.dropped)


def _forward(small: Contracted) -> list[int]:
    """The time of each node: the latest time that its causes imply."""
    times = [0]
    for low in range(1, len(small), _AT_ONCE):
        part = slice(low, low + _AT_ONCE)
        rows = zip(*small.cause[:, part].tolist(), *small.weight_ns[:, part].tolist(), strict=True)
        for first, second, third, a, b, c in rows:
            one = times[first] + a
            other = times[second] + b
            time = one if one > other else other  # a call of max would take longer than all the rest
            if c > NEVER and (other := times[third] + c) > time:
                time = other
            times.append(time)
    return times


def running_maximum(values: I64, group: I64) -> I64:
    """Running maximum within each group; groups are consecutive."""
    if not len(values):
        return values
    low = int(values.min())
    high = int(values.max())
    some_never = low <= NEVER // 2
    if some_never:
        low = int(values[values > NEVER // 2].min(initial=0))
        values = np.maximum(values, low - 1)
    # each group lies above all groups before it, so that one running maximum serves all
    shift = group * (max(high - low, 0) + 2) - low
    maximum: I64 = np.maximum.accumulate(values + shift) - shift
    return np.where(maximum < low, NEVER, maximum) if some_never else maximum


class _Blocks(NamedTuple):
    """Points of host threads by block."""

    head: I64
    """The first point of each block."""
    of_point: I64
    """For each point, the number of its block."""
    offset_ns: I64
    """For each point, the time since the start of its block."""


class _Runs(NamedTuple):
    """Device events by run."""

    head: I64
    """The first event of each run."""
    of_event: I64
    """For each event, the number of its run."""
    length_ns: I64
    """For each event, the sum of gaps and durations of its stream up to its end."""
    block: I64
    """For each run, the block that launches it; `NOTHING` for none, `RECORDED` where its start is an input."""


class _Nodes(NamedTuple):
    """Positions of blocks and runs in topological order."""

    of_block: I64
    of_run: I64


class _Causes(NamedTuple):
    """The causes of each node, while they are collected. Shapes (3, nodes)."""

    cause: I64
    weight_ns: I64
    """Time from each cause to the node; `NEVER` for missing ones."""

    def add(self, number: int, nodes: I64, cause: I64 | int, weight_ns: I64) -> None:
        """Set the first, second or third cause (0, 1 or 2) of some nodes."""
        self.cause[number, nodes] = cause
        self.weight_ns[number, nodes] = weight_ns


def contract(graph: Graph) -> Contracted:
    """Find blocks and runs, and the causes between them.

    A run ends with an event for which other nodes wait, so that nothing outside depends on its inner events.
    """
    blocks = _blocks(graph.host)
    runs = _runs(graph.host, graph.device, blocks)
    recorded = np.concatenate(
        ([NEVER], graph.host.time_ns[blocks.head], _run_keys(graph.host, graph.device, runs.head))
    )
    order = np.argsort(recorded, kind="stable")
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    nodes = _Nodes(position[1 : 1 + len(blocks.head)], position[1 + len(blocks.head) :])

    causes = _Causes(np.full((3, len(order)), ORIGIN), np.full((3, len(order)), NEVER))
    _connect_blocks(graph.host, blocks, runs, nodes, causes)
    _connect_runs(graph.device, blocks, runs, nodes, causes)
    causes.weight_ns[:, ORIGIN] = NEVER
    is_wrong = (causes.weight_ns > NEVER) & (causes.cause >= np.arange(len(order)))
    causes.cause[is_wrong] = ORIGIN
    causes.weight_ns[is_wrong] = NEVER
    # a block that has lost all its causes starts when it was recorded
    has_no_cause = (causes.weight_ns[:, nodes.of_block] == NEVER).all(axis=0)
    lost = nodes.of_block[has_no_cause]
    causes.add(0, lost, ORIGIN, recorded[order[lost]])
    return Contracted(
        cause=causes.cause,
        weight_ns=causes.weight_ns,
        block=nodes.of_block[blocks.of_point],
        offset_ns=blocks.offset_ns,
        run=nodes.of_run[runs.of_event],
        length_ns=runs.length_ns,
        dropped=int(is_wrong.sum()),
    )


def _blocks(host: HostPoints) -> _Blocks:
    """A block begins where a thread does, and where a point waits for a cause outside its thread."""
    head = np.flatnonzero(host.is_first | (host.held_by != NOTHING) | (host.held_by_point != NOTHING))
    block = np.cumsum(_marked(len(host), head)) - 1
    passed = np.cumsum(host.cost_ns)
    offset = passed - passed[head][block] if len(head) else passed
    return _Blocks(head, block, offset)


def _runs(host: HostPoints, device: DeviceChain, blocks: _Blocks) -> _Runs:
    block = np.where(device.launch >= 0, np.append(blocks.of_point, 0)[device.launch], device.launch)
    block = _last_known(block, device.is_first)
    head = np.flatnonzero(_starts_run(host, device, block))
    run = np.cumsum(_marked(len(device), head)) - 1
    length = np.cumsum(device.gap_ns + device.dur_ns)
    return _Runs(head, run, length, block[head])


def _connect_blocks(host: HostPoints, blocks: _Blocks, runs: _Runs, nodes: _Nodes, causes: _Causes) -> None:
    """Set the causes of blocks: the point before on the thread, or else the origin; an event or another thread."""
    head = blocks.head
    held_by = host.held_by[head]
    held_by_point = host.held_by_point[head]
    is_first = host.is_first[head]

    before = head[~is_first] - 1
    since = blocks.offset_ns[before] + host.cost_ns[head[~is_first]]
    causes.add(0, nodes.of_block[~is_first], nodes.of_block[blocks.of_point[before]], since)
    alone = is_first & (held_by_point == NOTHING) & (held_by == NOTHING)
    causes.add(0, nodes.of_block[alone], ORIGIN, host.time_ns[head[alone]])

    held = held_by != NOTHING
    awaited = nodes.of_run[runs.of_event[held_by[held]]]
    causes.add(1, nodes.of_block[held], awaited, host.delay_ns[head[held]])
    handed = held_by_point != NOTHING
    source = held_by_point[handed]
    since = blocks.offset_ns[source] + host.delay_ns[head[handed]]
    causes.add(1, nodes.of_block[handed], nodes.of_block[blocks.of_point[source]], since)


def _connect_runs(device: DeviceChain, blocks: _Blocks, runs: _Runs, nodes: _Nodes, causes: _Causes) -> None:
    """Set the causes of runs: the run before on the stream, the block that launches it, the run it waits for."""
    head = runs.head
    if not len(head):
        return
    length_to_end = runs.length_ns[np.append(head[1:], len(device)) - 1]
    follows = ~device.is_first[head]
    before = nodes.of_run[runs.of_event[head[follows] - 1]]
    causes.add(0, nodes.of_run[follows], before, length_to_end[follows] - runs.length_ns[head[follows] - 1])

    latest = _latest_launch(device, blocks, runs)
    launched = latest > NEVER // 2
    node_of_block = np.where(runs.block >= 0, np.append(nodes.of_block, 0)[runs.block], ORIGIN)
    causes.add(1, nodes.of_run[launched], node_of_block[launched], (latest + length_to_end)[launched])

    waits = np.flatnonzero(device.waits_for[head] != NOTHING)
    event = head[waits]
    awaited = nodes.of_run[runs.of_event[device.waits_for[event]]]
    rest = length_to_end[waits] - runs.length_ns[event]
    causes.add(2, nodes.of_run[waits], awaited, device.wait_ns[event] + device.dur_ns[event] + rest)


def _latest_launch(device: DeviceChain, blocks: _Blocks, runs: _Runs) -> I64:
    """For each run, the time from its block to its end less its length, as far as launches tell; else `NEVER`."""
    since_block = np.where(device.launch >= 0, np.append(blocks.offset_ns, 0)[device.launch], 0)
    end = since_block + device.latency_ns + device.dur_ns
    begin_of_stream = np.where(device.launch != NOTHING, end - runs.length_ns, NEVER)
    latest: I64 = np.maximum.reduceat(begin_of_stream, runs.head)
    return latest


def _starts_run(host: HostPoints, device: DeviceChain, of_launch: I64) -> Bool:
    """Mask of the events that begin a run: launched by another block, waiting, or after an event that others await."""
    waits = device.waits_for != NOTHING
    is_awaited = _marked(len(device), host.held_by[host.held_by != NOTHING])
    is_awaited |= _marked(len(device), device.waits_for[waits])
    starts: Bool = device.is_first | waits
    starts |= np.append(False, is_awaited)[: len(device)]
    starts |= of_launch != shifted(of_launch, NOTHING)
    return starts


def _run_keys(host: HostPoints, device: DeviceChain, runs: I64) -> I64:
    """Recorded time of the last start of each run, and no earlier than that of the previous run of its stream."""
    if not len(runs):
        return runs
    called = np.where(device.launch >= 0, np.append(host.time_ns, 0)[device.launch], 0)
    key = running_maximum(np.maximum(device.start_ns, called), device.stream)
    latest: I64 = key[np.append(runs[1:], len(device)) - 1]
    return latest


def _last_known(values: I64, is_first: Bool) -> I64:
    """Replace each `NOTHING` by the last other value before it in its group."""
    known = (values != NOTHING) | is_first
    return values[np.maximum.accumulate(np.where(known, np.arange(len(values)), 0))]


def _marked(size: int, rows: I64) -> Bool:
    mask = np.zeros(size, np.bool_)
    mask[rows] = True
    return mask
