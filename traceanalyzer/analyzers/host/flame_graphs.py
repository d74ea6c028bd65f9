"""Flame graphs: how much time of the host, of devices and of idle devices each stack takes.

The stack of a moment of a host thread has its owners, then the operators and runtime calls that the last one calls.
While autograd's thread is the critical one, its stack is put on top of that of the program's thread, which waits for
it. So times of stacks add up to the times of owners: over all stacks that end in an owner, and over all that contain
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from operator import add, itemgetter

import msgspec
import numpy as np
from msgspec.structs import replace

from traceanalyzer.analyzers.host.host_stacks import HostStack, HostStacks
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.graph_events import graph_labels, graph_lines
from traceanalyzer.structure.owners import Owner, OwnerIndex, index_of, owner_index
from traceanalyzer.structure.owners.critical import Critical, critical_in, device_idle, idle_in
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.structure.stack_rows import StackTree
from traceanalyzer.structure.steps import Steps
from traceanalyzer.structure.sums import first_rows, group, sum_by
from traceanalyzer.trace.distinct import ascending
from traceanalyzer.trace.graph_stacks import StackFrame
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64
from traceanalyzer.trace.tree import NO_PARENT

HOST, DEVICE, IDLE = "host", "device", "idle"
QUANTITIES = (HOST, DEVICE, IDLE)
_AT_ONCE = 1 << 17
"""Pieces of time whose stacks are found together; it limits memory and does not change any figure."""


class FlameGraph(msgspec.Struct, frozen=True):
    """One quantity by stack."""

    quantity: str
    """`host` (time of the thread), `device` (work that it launched, each event in full) or `idle` (time in which the
    busiest device had nothing to do because the host had launched nothing)."""
    thread: str | None
    """Name of a further thread; None for the critical one."""
    frames: tuple[Owner, ...]
    """Owners, operators and runtime calls or, of device time, operators and kernels. Depth first; siblings are in the
    order of their first occurrence."""
    parents: tuple[int, ...]
    """Position of the frame around each; -1 for none."""
    ends: tuple[int, ...]
    """The frame in which each stack ends, ascending."""
    weights: tuple[int, ...]
    """Time of each stack in ns, greater than 0."""
    owners: tuple[int, ...]
    """How many frames of each stack are owners; the others are operators, calls and kernels below the last owner."""

    @property
    def stacks(self) -> Iterator[tuple[Owner, ...]]:
        """The frames of each stack, the outermost first; as many in all as frames times their depth."""
        for end in self.ends:
            frames, position = [], end
            while position != NO_PARENT:
                frames.append(self.frames[position])
                position = self.parents[position]
            yield tuple(reversed(frames))

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
        return next(
            (graph for graph in self.graphs if (graph.quantity, graph.thread) == (quantity, None)),
            None,
        )


def of_steps(context: Context, most_events: int | None = None) -> FlameGraphs:
    """Flame graphs of the steps that count. Their sums are those of the result `host_owners`.

    Args:
        context: The trace.
        most_events: If given, only the first steps that have no more host events and Python calls than this, at least
            one.
    """
    index = context.cached(owner_index)
    steps = program_steps(context).typical
    if most_events is not None and len(steps) > 1 and len(steps) == index.critical.steps:
        count = _first_steps(context, steps, most_events)
        kept = Intervals.union(steps.start_ns[:count], steps.end_ns[:count])
        index = replace(index, critical=replace(index.critical, kept=kept, steps=count))
    return FlameGraphs(index.critical.steps, tuple(_graphs(context, index, device_idle(context))))


def _first_steps(context: Context, steps: Steps, most_events: int) -> int:
    """How many of the first steps have no more host events and Python calls than this, at least one."""
    trace = context.trace
    starts = [ascending(table.start_ns) for table in (trace.host, trace.launches, trace.frames)]
    size = sum(np.searchsorted(start, steps.end_ns) - np.searchsorted(start, steps.start_ns) for start in starts)
    return max(1, int(np.searchsorted(np.cumsum(size), most_events, side="right")))


def of_recording(context: Context) -> FlameGraphs:
    """Flame graphs of everything from the first to the last event."""
    start = np.array([0])
    end = np.array([context.trace.info.span_ns])
    index = index_of(context, critical_in(context, Intervals.union(start, end), 1))
    return FlameGraphs(None, tuple(_graphs(context, index, idle_in(context, start, end))))


def _graphs(context: Context, index: OwnerIndex, idle: Intervals | None) -> Iterator[FlameGraph]:
    stacks = HostStacks(context, index)
    found = index.critical
    own = tuple(thread for thread in (found.main, found.engine) if thread is not None)
    drawn = [
        *_of_host(stacks, found, idle or Intervals.none()),
        _of_device(context, stacks, found, own, None),
    ]
    for thread in found.others:
        name = context.trace.threads[thread].tid
        drawn += [
            _of_thread(stacks, index, thread, name),
            _of_device(context, stacks, found, (thread,), name),
        ]
    order = {quantity: rank for rank, quantity in enumerate(QUANTITIES)}
    drawn[:3] = sorted(drawn[:3], key=lambda graph: order[graph.quantity])
    yield from (graph for graph in drawn if graph.weights)


def _of_host(stacks: HostStacks, found: Critical, idle: Intervals) -> Iterator[FlameGraph]:
    """Host time and idle time of the critical thread."""
    bounds = stacks.bounds
    moments = [bounds[thread] for thread in (found.main, found.engine) if thread in bounds]
    pieces = found.pieces(np.concatenate(moments))
    del bounds, moments  # as many as all pieces have
    times = _by_stack(stacks, found.at, pieces, (_lengths, idle.within))
    for place, quantity in enumerate((HOST, IDLE), 1):
        yield _drawn(stacks.tree, quantity, None, [(stack, own[0], own[place]) for stack, own in times.items()])


def _lengths(start: I64, end: I64) -> I64:
    return end - start


def _by_stack(
    stacks: HostStacks,
    thread_at: Callable[[I64], I64],
    pieces: tuple[I64, I64],
    quantities: Sequence[Callable[[I64, I64], I64]],
) -> dict[HostStack, list[int]]:
    """When each stack is first seen in some pieces of time, in ns, and then its sum of each quantity.

    Args:
        stacks: All stacks.
        thread_at: Gives the thread of each moment.
        pieces: Starts and ends, in each of which there is one stack.
        quantities: What is summed up, by starts and ends.
    """
    times: dict[HostStack, list[int]] = {}
    for low in range(0, len(pieces[0]), _AT_ONCE):
        start = pieces[0][low : low + _AT_ONCE]
        end = pieces[1][low : low + _AT_ONCE]
        numbers, stack = stacks.at(thread_at(start), start)
        first = first_rows(numbers, int(numbers.max()) + 1)
        sums = [sum_by(numbers, quantity(start, end), len(first)) for quantity in quantities]
        for row, begin, *own in np.column_stack((first, start[first], *sums)).tolist():
            known = times.setdefault(stack(row), [begin, *[0] * len(own)])
            known[1:] = map(add, known[1:], own)
    return times


def _of_thread(stacks: HostStacks, index: OwnerIndex, thread: int, name: str) -> FlameGraph:
    """Host time of the owners of a further thread."""

    def here(times: I64) -> I64:
        return np.full(len(times), thread, np.int64)

    start, end = index.critical.pieces(stacks.bounds[thread])
    owned = index.at(here(start), start) != NO_PARENT
    times = _by_stack(stacks, here, (start[owned], end[owned]), (_lengths,))
    return _drawn(stacks.tree, HOST, name, [(stack, first, time) for stack, (first, time) in times.items()])


def _of_device(
    context: Context,
    stacks: HostStacks,
    critical: Critical,
    threads: tuple[int, ...],
    name: str | None,
) -> FlameGraph:
    """Device time of the work that some threads launched in the steps that count, each event below its launch."""
    device = context.trace.device
    events, thread, start = _launched(context, critical, threads)
    numbers, stack = stacks.at(thread, start, with_calls=False)
    labels, lines = context.cached(graph_labels), context.cached(graph_lines)
    first, groups = group(numbers, labels.of_event[events], lines.of_event[events], device.name[events])
    weights = sum_by(groups, device.dur_ns[events], len(first))
    drawn = []
    for row, weight in zip(first.tolist(), weights.tolist(), strict=True):
        event = context.trace.names[device.name[events[row]]]
        captured = _captured(
            labels.paths[labels.of_event[events[row]]],
            lines.stacks[lines.of_event[events[row]]],
        )
        above = stack(row)
        number = reduce(stacks.tree.push, (*captured, Owner("kernel", event, None)), above.number)
        drawn.append((HostStack(number, above.owners), int(start[row]), weight))
    return _drawn(stacks.tree, DEVICE, name, drawn)


def _captured(path: tuple[str, ...], lines: tuple[StackFrame, ...]) -> tuple[Owner, ...]:
    """The modules and the functions in which a node of a graph was captured."""
    modules = (Owner("module", part, None) for part in path)
    return (
        *modules,
        *(Owner("function", one.function, None, one.file, one.line) for one in lines),
    )


def _launched(context: Context, critical: Critical, threads: tuple[int, ...]) -> tuple[I64, I64, I64]:
    """Device events that some threads launched in the steps that count, with thread and start of the launch."""
    launches, launch = context.trace.launches, context.links.launch
    events = np.flatnonzero(launch != NO_PARENT)
    start = launches.start_ns[launch[events]]
    thread = launches.thread[launch[events]].astype(np.int64)
    kept = np.isin(thread, threads) & critical.kept.contains(start)
    return events[kept], thread[kept], start[kept]


def _drawn(
    tree: StackTree[Owner], quantity: str, thread: str | None, rows: Iterable[tuple[HostStack, int, int]]
) -> FlameGraph:
    """A flame graph of stacks, each with when it is first seen and its time; equal stacks are one."""
    time: dict[HostStack, int] = {}
    for stack, _, weight in sorted(rows, key=itemgetter(1)):
        if weight > 0:
            time[stack] = time.get(stack, 0) + weight
    numbers = _depth_first(tree, [stack.number for stack in time])
    place = {number: position for position, number in enumerate(numbers)}
    order = sorted(time, key=lambda stack: (place[stack.number], stack.owners))
    return FlameGraph(
        quantity,
        thread,
        tuple(tree.frame[number] for number in place),
        tuple(place.get(tree.parent[number], NO_PARENT) for number in place),
        tuple(place[stack.number] for stack in order),
        tuple(time[stack] for stack in order),
        tuple(stack.owners for stack in order),
    )


def _depth_first(tree: StackTree[Owner], stacks: Iterable[int]) -> Iterator[int]:
    """Some stacks and all that they begin with, depth first; siblings in the order in which they are given."""
    inner: dict[int, list[int]] = {NO_PARENT: []}
    for stack in stacks:
        number, above = stack, NO_PARENT
        while number not in inner:
            inner[number] = [] if above == NO_PARENT else [above]
            number, above = tree.parent[number], number
        if above != NO_PARENT:
            inner[number].append(above)
    left = inner[NO_PARENT][::-1]
    while left:
        number = left.pop()
        yield number
        left += reversed(inner[number])
