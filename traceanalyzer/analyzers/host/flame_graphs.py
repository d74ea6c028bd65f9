"""Flame graphs: how much time of the host, of devices and of idle devices each stack takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from traceanalyzer.analyzers.host.stacks import HostStack, HostStacks
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.owners import OwnerIndex, index_of, owner_index
from traceanalyzer.structure.owners.critical import Critical, critical_in, device_idle, idle_in
from traceanalyzer.structure.owners.labels import Owner
from traceanalyzer.structure.sums import group, sum_by
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64
from traceanalyzer.trace.tree import NO_PARENT

HOST, DEVICE, IDLE = "host", "device", "idle"
QUANTITIES = (HOST, DEVICE, IDLE)


class FlameGraph(msgspec.Struct, frozen=True):
    """One quantity by stack."""

    quantity: str
    """`host` (time of the thread), `device` (work that it launched, each event in full) or `idle` (time in which the
    busiest device had nothing to do because the host had launched nothing)."""
    thread: str | None
    """Name of a further thread; None for the critical one."""
    stacks: tuple[tuple[Owner, ...], ...]
    """Frames, the outermost first: owners, operators and runtime calls or, of device time, operators and the kernel.
    Depth first; siblings are in the order of their first occurrence."""
    weights: tuple[int, ...]
    """Time of each stack in ns, greater than 0."""
    owners: tuple[int, ...]
    """How many frames of each stack are owners; the others are operators, calls and kernels below the last owner."""

    @property
    def total_ns(self) -> int:
        """Time of all stacks."""
        return sum(self.weights)


class FlameGraphs(msgspec.Struct, frozen=True):
    """All flame graphs of some time of a trace."""

    steps: int | None
    """Number of the steps that count; None for the whole recording."""
    graphs: tuple[FlameGraph, ...]
    """The graphs with any time: of the critical thread, then of further threads."""

    def of(self, quantity: str) -> FlameGraph | None:
        """The flame graph of the critical thread of a quantity; None without any time."""
        return next((graph for graph in self.graphs if (graph.quantity, graph.thread) == (quantity, None)), None)


def of_steps(context: Context) -> FlameGraphs:
    """Flame graphs of the steps that count. Their sums are those of the result `host_owners`."""
    index = context.once(owner_index)
    return FlameGraphs(index.critical.steps, tuple(_graphs(context, index, device_idle(context))))


def of_recording(context: Context) -> FlameGraphs:
    """Flame graphs of everything from the first to the last event."""
    start, end = np.array([0]), np.array([context.trace.info.span_ns])
    index = index_of(context, critical_in(context, Intervals.union(start, end), 1))
    return FlameGraphs(None, tuple(_graphs(context, index, idle_in(context, start, end))))


def _graphs(context: Context, index: OwnerIndex, idle: Intervals | None) -> Iterator[FlameGraph]:
    stacks, found = HostStacks(context, index), index.critical
    own = tuple(thread for thread in (found.main, found.engine) if thread is not None)
    drawn = [
        *_of_host(stacks, found, idle or Intervals.none()),
        _of_device(context, stacks, found, own, None),
    ]
    for thread in found.others:
        name = context.trace.threads[thread].tid
        drawn += [_of_thread(stacks, index, thread, name), _of_device(context, stacks, found, (thread,), name)]
    order = {quantity: rank for rank, quantity in enumerate(QUANTITIES)}
    drawn[:3] = sorted(drawn[:3], key=lambda graph: order[graph.quantity])
    yield from (graph for graph in drawn if graph.weights)


def _of_host(stacks: HostStacks, found: Critical, idle: Intervals) -> Iterator[FlameGraph]:
    """Host time and idle time of the critical thread."""
    bounds = stacks.bounds
    moments = np.concatenate([bounds[thread] for thread in (found.main, found.engine) if thread in bounds])
    start, end = found.pieces(moments)
    numbers, stack = stacks.at(found.at(start), start)
    first, groups = group(numbers)
    for quantity, time in ((HOST, end - start), (IDLE, idle.within(start, end))):
        weights = sum_by(groups, time, len(first))
        yield _drawn(quantity, None, [stack(row) for row in first.tolist()], weights, start[first])


def _of_thread(stacks: HostStacks, index: OwnerIndex, thread: int, name: str) -> FlameGraph:
    """Host time of the owners of a further thread."""
    start, end = index.critical.pieces(stacks.bounds[thread])
    threads = np.full(len(start), thread, np.int64)
    owned = index.at(threads, start) != NO_PARENT
    start, end, threads = start[owned], end[owned], threads[owned]
    numbers, stack = stacks.at(threads, start)
    first, groups = group(numbers)
    weights = sum_by(groups, end - start, len(first))
    return _drawn(HOST, name, [stack(row) for row in first.tolist()], weights, start[first])


def _of_device(
    context: Context, stacks: HostStacks, found: Critical, threads: tuple[int, ...], name: str | None
) -> FlameGraph:
    """Device time of the work that some threads launched in the steps that count, each event below its launch."""
    device, launches, launch = context.trace.device, context.trace.launches, context.links.launch
    rows = np.flatnonzero(launch != NO_PARENT)
    start, thread = launches.start_ns[launch[rows]], launches.thread[launch[rows]].astype(np.int64)
    kept = np.isin(thread, threads) & found.kept.contains(start)
    rows, start, thread = rows[kept], start[kept], thread[kept]
    numbers, stack = stacks.at(thread, start, with_calls=False)
    first, groups = group(numbers, device.name[rows])
    weights = sum_by(groups, device.dur_ns[rows], len(first))
    names = context.trace.names
    drawn = [
        HostStack((*above.frames, Owner("kernel", names[event], None)), above.owners)
        for above, event in zip(map(stack, first.tolist()), device.name[rows[first]].tolist(), strict=True)
    ]
    return _drawn(DEVICE, name, drawn, weights, start[first])


def _drawn(quantity: str, thread: str | None, stacks: Sequence[HostStack], weights: I64, first_ns: I64) -> FlameGraph:
    """A flame graph; equal stacks are one."""
    time: dict[HostStack, int] = {}
    rank: dict[tuple[Owner, ...], int] = {}
    for row in np.argsort(first_ns, kind="stable").tolist():
        if weights[row] <= 0:
            continue
        frames = stacks[row].frames
        time[stacks[row]] = time.get(stacks[row], 0) + int(weights[row])
        for depth in range(1, len(frames) + 1):
            rank.setdefault(frames[:depth], len(rank))

    def place(stack: HostStack) -> list[int]:
        return [rank[stack.frames[:depth]] for depth in range(1, len(stack.frames) + 1)]

    order = sorted(time, key=lambda stack: (place(stack), stack.owners))
    return FlameGraph(
        quantity,
        thread,
        tuple(stack.frames for stack in order),
        tuple(time[stack] for stack in order),
        tuple(stack.owners for stack in order),
    )
