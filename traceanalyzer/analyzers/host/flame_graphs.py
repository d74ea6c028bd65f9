"""Flame graphs: how much time of the host, of devices and of idle devices each stack takes.

The stack of a moment of a host thread has its owners, then the operators and runtime calls that the last one calls.
While autograd's thread is the critical one, its stack is put on top of that of the program's thread, which waits for
it. So times of stacks add up to the times of owners: over all stacks that end in an owner, and over all that contain
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from operator import add, itemgetter
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from traceanalyzer.structure import host_activity
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.graph_events import graph_labels, graph_lines
from traceanalyzer.structure.mark_forest import is_mark
from traceanalyzer.structure.owners import EVALUATION, Owner, OwnerIndex, index_of, owner_index
from traceanalyzer.structure.owners.critical import Critical, critical_in, device_idle, idle_in
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.structure.stack_rows import NO_FRAME, StackTree
from traceanalyzer.structure.steps import Steps
from traceanalyzer.structure.sums import first_rows, group, sum_by
from traceanalyzer.trace.distinct import ascending, is_among
from traceanalyzer.trace.graph_stacks import StackFrame
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, Array, Bool, take_or
from traceanalyzer.trace.tables import HostEvents, Launches
from traceanalyzer.trace.tree import NO_PARENT, Tree

UNKNOWN_OWNER = Owner("unknown", "[unknown]", None)
"""Frame for time without an owner; other profilers use the same name."""
HOST, DEVICE, IDLE = "host", "device", "idle"
QUANTITIES = (HOST, DEVICE, IDLE)
_AT_ONCE = 1 << 17
"""Pieces of time whose stacks are found together; it limits memory and does not change any figure."""


class HostStack(NamedTuple):
    """A stack of a tree of frames: owners, then the calls of the last owner, as owners of kind `operator` or `call`."""

    node: int
    """Its innermost frame."""
    owners: int
    """Number of frames that are owners, which come first."""


class _Chains(msgspec.Struct, frozen=True):
    """Chains of slices from the outermost to an inner one; chains with equal labels are one."""

    of_slice: I64
    """For each slice of a tree, the chain that ends in it."""
    around: I64
    """For each chain, the one without its last link; -1 for none."""
    label: I64
    """Label of the last link of each chain."""

    @classmethod
    def of(cls, tree: Tree, parent: Array, label: I64) -> _Chains:
        """Find the chains, level by level of the tree.

        Args:
            tree: The slices.
            parent: For each slice the one around it in its chain, which is around it in the tree as well; -1 for none.
            label: Of each slice.
        """
        of_slice = np.full(len(tree), NO_PARENT, np.int64)
        order = np.argsort(tree.depth, kind="stable")
        levels = np.searchsorted(tree.depth[order], np.arange(int(tree.depth.max(initial=-1)) + 2))
        around = [np.empty(0, np.int64)]
        last = [np.empty(0, np.int64)]
        count = 0
        for low, high in pairwise(levels.tolist()):
            rows = order[low:high]
            above = take_or(of_slice, parent[rows], NO_PARENT)
            first, groups = group(above, label[rows])
            of_slice[rows] = count + groups
            around.append(above[first])
            last.append(label[rows[first]])
            count += len(first)
        return cls(of_slice, np.concatenate(around), np.concatenate(last))

    def below(self, node: int, chain: int, known: dict[tuple[int, int], int], child: Callable[[int, int], int]) -> int:
        """The node of the last link of a chain whose links are put below a node.

        Args:
            node: A node.
            chain: A chain; -1 for none.
            known: Nodes that were found before, by the node that the chain is below and the chain; new ones are added.
            child: Gives the node of a label below a node.
        """
        top, new = node, []
        while chain != NO_PARENT and (top, chain) not in known:
            new.append(chain)
            chain = int(self.around[chain])
        if chain != NO_PARENT:
            node = known[top, chain]
        for link in reversed(new):
            node = known[top, link] = child(node, int(self.label[link]))
        return node


class _Called(msgspec.Struct, frozen=True):
    """Operators and runtime calls, nested, and the chains of those with one owner."""

    tree: Tree
    chains: _Chains
    owner: I64
    """For each slice, the slice of the owner at its start, as a position among the owners' slices; -1 for none."""
    is_call: Bool

    def at(self, thread: Array, times: I64, owner: I64, *, with_calls: bool) -> I64:
        """For each moment, the chain of the calls of its owner, which is given as a slice; -1 for none."""
        found = self.tree.innermost(thread.astype(np.int32), times)
        if not with_calls:
            found = take_or(self.tree.nearest(~self.is_call), found, NO_PARENT)
        own = (found != NO_PARENT) & (take_or(self.owner, found, NO_PARENT) == owner)
        return np.where(own, take_or(self.chains.of_slice, found, NO_PARENT), NO_PARENT)


class HostStacks:
    """The stacks of the threads whose owners are reported."""

    def __init__(self, context: Context, index: OwnerIndex) -> None:
        self._index = index
        self._names = context.trace.names
        self._owners = _Chains.of(index.nested.tree, index.nested.tree.parent, index.owner)
        self._called = _called(context, index)
        self.tree = StackTree[Owner]()
        """The frames of all stacks."""
        self._nodes_of_owners: dict[tuple[int, int], int] = {}
        self._nodes_of_calls: dict[tuple[int, int], int] = {}

    @property
    def bounds(self) -> dict[int, I64]:
        """For each thread, the moments at which its stack may change."""
        return {
            thread: np.concatenate(
                [
                    bound[part]
                    for tree in (self._index.nested.tree, self._called.tree)
                    for part in (tree.threads.get(thread, slice(0, 0)),)
                    for bound in (tree.start_ns, tree.end_ns)
                ]
            )
            for thread in self._index.critical.threads
        }

    def at(self, thread: I64, times: I64, *, with_calls: bool = True) -> tuple[I64, Callable[[int], HostStack]]:
        """Stacks of moments of threads.

        Args:
            thread: Of each moment.
            times: In ns.
            with_calls: Whether runtime calls are part of the stacks.

        Returns:
            For each moment the number of its stack, and a function that gives the stack of a moment by its position.
            Moments with one number have one stack; those with different numbers may have the same.
        """
        main, engine = self._index.critical.main, self._index.critical.engine
        own = self._index.slice_at(thread, times)
        on_engine = thread == (NO_PARENT if engine is None else engine)
        around = np.full(len(times), NO_PARENT, np.int64)
        rows = np.flatnonzero(on_engine)
        around[rows] = self._index.slice_at(np.full(len(rows), main), times[rows])
        chains = [take_or(self._owners.of_slice, slices, NO_PARENT) for slices in (around, own)]
        called = self._called.at(thread, times, own, with_calls=with_calls)
        _, numbers = group(*chains, called)

        def stack(row: int) -> HostStack:
            return self._stack(int(chains[0][row]), int(chains[1][row]), int(called[row]))

        return numbers, stack

    def _stack(self, around: int, own: int, called: int) -> HostStack:
        node = self._owners.below(NO_FRAME, around, self._nodes_of_owners, self._owner)
        node = self._owners.below(node, own, self._nodes_of_owners, self._owner)
        if own == NO_PARENT:
            node = self.tree.node(node, UNKNOWN_OWNER)
        owners = self.tree.depth[node]
        return HostStack(self._called.chains.below(node, called, self._nodes_of_calls, self._call), owners)

    def _owner(self, above: int, label: int) -> int:
        return self.tree.node(above, self._index.owners[label])

    def _call(self, above: int, label: int) -> int:
        """The node of a call; that above it for an operator that is an owner itself, or that calls itself."""
        name = self._names[label].removeprefix(EVALUATION)
        return above if name == self.tree.frame[above].name else self.tree.node(above, Owner("operator", name, None))


def _called(context: Context, index: OwnerIndex) -> _Called:
    """The calls of owners on the threads whose owners are reported, near the time that counts."""
    parts = _parts(context, index.critical)
    tree, order = _nested(parts)
    name = np.concatenate([table.name[rows] for table, rows in parts])
    is_call = np.repeat([False, True], [len(rows) for _, rows in parts])
    owner = index.slice_at(tree.thread, tree.start_ns)
    has_same_owner = owner == take_or(owner, tree.parent, NO_PARENT - 1)
    parent = np.where(has_same_owner, tree.parent, NO_PARENT)
    return _Called(tree, _Chains.of(tree, parent, name[order].astype(np.int64)), owner, is_call[order])


def _parts(context: Context, critical: Critical) -> Sequence[tuple[HostEvents | Launches, I64]]:
    """Rows of operators, and of runtime calls, on the threads whose owners are reported."""
    host, launches = context.trace.host, context.trace.launches
    is_operator = host_activity.operator_rows(context) & ~is_mark(context)
    is_operator |= context.trace.names.where(host_activity.is_communicating)[host.name]

    def near(table: HostEvents | Launches) -> Bool:
        return critical.near(table.start_ns, table.end_ns) & is_among(table.thread, critical.threads)

    return (host, np.flatnonzero(is_operator & near(host))), (
        launches,
        np.flatnonzero(near(launches)),
    )


def _nested(parts: Sequence[tuple[HostEvents | Launches, I64]]) -> tuple[Tree, I64]:
    """Some rows of tables as one tree, and the row of what is joined at each of its positions."""
    thread, start, dur = (
        np.concatenate([getattr(table, field)[rows] for table, rows in parts])
        for field in ("thread", "start_ns", "dur_ns")
    )
    order = np.argsort(start, kind="stable")
    tree, nested = Tree.build(thread[order], start[order], dur[order])
    return tree, order[nested]


class FlameGraph(msgspec.Struct, frozen=True):
    """One quantity by stack."""

    quantity: str
    """`host` (time of the thread), `device` (work that it launched, each event in full) or `idle` (time in which the
    busiest device had nothing to do because the host had launched nothing)."""
    thread: str | None
    """Name of a further thread; None for the critical one."""
    tree: StackTree[Owner]
    """Frames: owners, operators and runtime calls or, of device time, operators and the kernel."""
    nodes: tuple[int, ...]
    """The innermost frame of each stack. Depth first; siblings are in the order of their first occurrence."""
    weights: tuple[int, ...]
    """Time of each stack in ns, greater than 0."""
    owners: tuple[int, ...]
    """How many frames of each stack are owners; the others are operators, calls and kernels below the last owner."""

    @property
    def stacks(self) -> tuple[tuple[Owner, ...], ...]:
        """The frames of each stack, the outermost first."""
        return tuple(map(self.tree.stack, self.nodes))

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
        yield _drawn(quantity, None, stacks.tree, [(stack, own[0], own[place]) for stack, own in times.items()])


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
    return _drawn(HOST, name, stacks.tree, [(stack, first, time) for stack, (first, time) in times.items()])


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
        node = stacks.tree.below(above.node, (*captured, Owner("kernel", event, None)))
        drawn.append((HostStack(node, above.owners), int(start[row]), weight))
    return _drawn(DEVICE, name, stacks.tree, drawn)


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
    quantity: str, thread: str | None, tree: StackTree[Owner], rows: Iterable[tuple[HostStack, int, int]]
) -> FlameGraph:
    """A flame graph of stacks, each with when it is first seen and its time; equal stacks are one."""
    time: dict[HostStack, int] = {}
    for stack, _, weight in sorted(rows, key=itemgetter(1)):
        if weight > 0:
            time[stack] = time.get(stack, 0) + weight
    place = tree.depth_first(stack.node for stack in time)
    order = sorted(time, key=lambda stack: (place[stack.node], stack.owners))
    return FlameGraph(
        quantity,
        thread,
        tree,
        tuple(stack.node for stack in order),
        tuple(time[stack] for stack in order),
        tuple(stack.owners for stack in order),
    )
