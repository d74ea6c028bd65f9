"""Computes the times of a replay: the longest path through a graph, without a loop over its events.

Between two points at which a host thread waits for another cause, its points have fixed distances: a block. Device
events of one stream that were launched from one block, and that wait for nothing else, form a run. The end of a run is
the later of two sums: the end of the previous run plus its own length, and the time of the block plus a constant. So
only blocks and runs are computed one by one; all times within them are cumulative sums and maxima of columns.
"""

from __future__ import annotations

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
    launched = np.where(device.launch >= 0, np.append(point, 0)[device.launch] + device.latency_ns, NEVER)
    launched = np.where(device.launch == RECORDED, device.latency_ns, launched)
    # the node of a run is the end of its last event, whatever the recording says of it
    ends = np.flatnonzero(small.run != shifted(small.run[::-1], NOTHING)[::-1])
    launched[ends] = np.maximum(launched[ends], node_ns[small.run[ends]] - device.dur_ns[ends])
    waiting = np.flatnonzero(device.waits_for != NOTHING)
    # an event that others wait for ends its run, so its end is already known
    launched[waiting] = np.maximum(
        launched[waiting], node_ns[small.run[device.waits_for[waiting]]] + device.wait_ns[waiting]
    )
    end = small.length_ns + running_maximum(launched + device.dur_ns - small.length_ns, device.stream)
    return Times(point, end - device.dur_ns, end, small.dropped)


def _forward(small: Contracted) -> list[int]:
    """The time of each node: the latest time that its causes imply."""
    times = [0]
    for low in range(1, len(small), _AT_ONCE):
        part = slice(low, low + _AT_ONCE)
        rows = zip(*small.cause[:, part].tolist(), *small.weight_ns[:, part].tolist(), strict=True)
        for first, second, third, a, b, c in rows:
            one, other = times[first] + a, times[second] + b
            time = one if one > other else other  # a call of max would take longer than all the rest
            if c > NEVER and (other := times[third] + c) > time:
                time = other
            times.append(time)
    return times


def running_maximum(values: I64, group: I64) -> I64:
    """Running maximum within each group; groups are consecutive."""
    if not len(values):
        return values
    low, high = int(values.min()), int(values.max())
    some_never = low <= NEVER // 2
    if some_never:
        low = int(values[values > NEVER // 2].min(initial=0))
    shift = group * (max(high - low, 0) + 2) - low
    maximum: I64 = np.maximum.accumulate((np.maximum(values, low - 1) if some_never else values) + shift) - shift
    return np.where(maximum < low, NEVER, maximum) if some_never else maximum


def contract(graph: Graph) -> Contracted:
    """Find blocks and runs, and the causes between them.

    A run ends with an event for which other nodes wait, so that nothing outside depends on its inner events.
    """
    host, device = graph.host, graph.device
    heads = np.flatnonzero(host.is_first | (host.held_by != NOTHING) | (host.held_by_point != NOTHING))
    block = np.cumsum(_marked(len(host), heads)) - 1
    passed = np.cumsum(host.cost_ns)
    offset = passed - passed[heads][block] if len(heads) else passed
    of_launch = np.where(device.launch >= 0, np.append(block, 0)[device.launch], device.launch)
    of_launch = _last_known(of_launch, device.is_first)
    runs = np.flatnonzero(_starts_run(host, device, of_launch))
    run = np.cumsum(_marked(len(device), runs)) - 1
    length = np.cumsum(device.gap_ns + device.dur_ns)
    order_key = np.concatenate(([NEVER], host.time_ns[heads], _run_keys(host, device, runs)))
    order = np.argsort(order_key, kind="stable")
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    block_at, run_at = position[1 : 1 + len(heads)], position[1 + len(heads) :]
    cause = np.full((3, len(order)), ORIGIN)
    weight = np.full((3, len(order)), NEVER)
    _connect_blocks(host, heads, (block, offset, block_at), (run, run_at), cause, weight)
    _connect_runs(device, runs, (offset, block_at, of_launch), (run, length, run_at), cause, weight)
    weight[:, ORIGIN] = NEVER
    wrong = (weight > NEVER) & (cause >= np.arange(len(order)))
    cause[wrong], weight[wrong] = ORIGIN, NEVER
    lost = block_at[(weight[:, block_at] == NEVER).all(axis=0)]
    cause[0, lost], weight[0, lost] = ORIGIN, order_key[order][lost]
    return Contracted(cause, weight, block_at[block], offset, run_at[run], length, int(wrong.sum()))


def _connect_blocks(
    host: HostPoints, heads: I64, blocks: tuple[I64, I64, I64], runs: tuple[I64, I64], cause: I64, weight: I64
) -> None:
    block, offset, at = blocks
    run, run_at = runs
    first = host.is_first[heads]
    before = heads - 1
    alone = first & (host.held_by_point[heads] == NOTHING) & (host.held_by[heads] == NOTHING)
    chain = ~first
    cause[0, at[chain]] = at[block[before[chain]]]
    weight[0, at[chain]] = offset[before[chain]] + host.cost_ns[heads[chain]]
    weight[0, at[alone]] = host.time_ns[heads[alone]]
    held = np.flatnonzero(host.held_by[heads] != NOTHING)
    cause[1, at[held]] = run_at[run[host.held_by[heads[held]]]]
    weight[1, at[held]] = host.delay_ns[heads[held]]
    handed = np.flatnonzero(host.held_by_point[heads] != NOTHING)
    source = host.held_by_point[heads[handed]]
    cause[1, at[handed]] = at[block[source]]
    weight[1, at[handed]] = offset[source] + host.delay_ns[heads[handed]]


def _connect_runs(
    device: DeviceChain, runs: I64, hosts: tuple[I64, I64, I64], of_block: tuple[I64, I64, I64], cause: I64, weight: I64
) -> None:
    if not len(runs):
        return
    offset, block_at, of_launch = hosts
    run, length, at = of_block
    last = np.append(runs[1:], len(device)) - 1
    before = np.where(runs > 0, length[runs - 1], 0)
    chain = ~device.is_first[runs]
    cause[0, at[chain]] = at[run[runs[chain] - 1]]
    weight[0, at[chain]] = (length[last] - before)[chain]
    launched = np.where(device.launch >= 0, np.append(offset, 0)[device.launch], 0) + device.latency_ns
    ends = np.where(device.launch != NOTHING, launched + device.dur_ns - length, NEVER)
    latest = np.maximum.reduceat(ends, runs)
    known = latest > NEVER // 2
    blocks = of_launch[runs]
    cause[1, at[known]] = np.where(blocks >= 0, np.append(block_at, 0)[blocks], ORIGIN)[known]
    weight[1, at[known]] = (latest + length[last])[known]
    waits = np.flatnonzero(device.waits_for[runs] != NOTHING)
    event = runs[waits]
    cause[2, at[waits]] = at[run[device.waits_for[event]]]
    weight[2, at[waits]] = device.wait_ns[event] + device.dur_ns[event] - length[event] + length[last[waits]]


def _starts_run(host: HostPoints, device: DeviceChain, of_launch: I64) -> Bool:
    """Mask of the events that begin a run: launched by another block, waiting, or after an event that others await."""
    sources = _marked(len(device), host.held_by[host.held_by != NOTHING])
    sources |= _marked(len(device), device.waits_for[device.waits_for != NOTHING])
    after = np.append(False, sources)[: len(device)]
    starts: Bool = device.is_first | (of_launch != shifted(of_launch, NOTHING)) | after | (device.waits_for != NOTHING)
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
