"""Finds the rows of a trace's tables that belong to events of some name, or to a named set of events."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import COMMUNICATION, EventSet, Of
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.owners import owner_index
from traceanalyzer.structure.recorded_collectives import communication_kernels, exposed_on_host
from traceanalyzer.trace.distinct import distinct, stable_order
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, Bool
from traceanalyzer.trace.tree import NO_PARENT

NameTest = Callable[[str], bool]
"""Whether a name is meant."""


def _nothing() -> I64:
    return np.empty(0, np.int64)


class EventRows(msgspec.Struct, frozen=True):
    """Where some events are in the tables of a trace: on devices, as runtime calls, and as time of host threads."""

    kind: str
    """`loader`, `gpu`, `host`, `communication`, `operator`, `kernel`, `class`, `owner` or `synchronization`."""
    name: str
    """The name without its kind, as requested."""
    device: I64 = msgspec.field(default_factory=_nothing)
    """Rows of the device table."""
    calls: I64 = msgspec.field(default_factory=_nothing)
    """Rows of the launch table."""
    thread: I64 = msgspec.field(default_factory=_nothing)
    """Threads of the intervals of host time; intervals of one thread do not overlap."""
    start_ns: I64 = msgspec.field(default_factory=_nothing)
    end_ns: I64 = msgspec.field(default_factory=_nothing)


def rows_of(context: Context, events: EventSet) -> EventRows | None:
    """The rows of a set of events that has a name; None if the trace has none, or if no table counts them."""
    return context.cached(_rows_of, events)


def _rows_of(context: Context, events: EventSet) -> EventRows | None:
    if events.of is Of.OPERATOR and events.shapes is not None:
        return of_nodes(context, events.name, _calls_with_shapes(context, events.name, events.shapes))
    if events == COMMUNICATION:
        return collectives(context)
    find = _FINDERS.get(events.of)
    return None if find is None else find(context, events.name, events.name.__eq__)


def _calls_with_shapes(context: Context, name: str, shapes: str) -> I64:
    """The host nodes that are calls of an operator with these input shapes, ascending."""
    trace = context.trace
    nodes = context.cached(_calls_of_operator, name)
    code = trace.shapes.code(shapes)
    with_shapes: I64 = nodes[trace.host.shapes[context.host.row[nodes]] == code]
    return with_shapes


def _calls_of_operator(context: Context, name: str) -> I64:
    """The host nodes that are calls of an operator, ascending."""
    host = context.host
    is_call = (host.name == context.trace.names.code(name)) & (host.kind == NodeKind.OPERATOR)
    return np.flatnonzero(is_call)


def of_nodes(context: Context, name: str, nodes: I64) -> EventRows | None:
    """The work of some nodes of the host tree and all nodes inside them; None without nodes.

    Args:
        context: The trace.
        name: What people call the nodes.
        nodes: Their positions in the tree, ascending.
    """
    tree = context.host.tree
    if not len(nodes):
        return None
    # a node is outermost unless one of the nodes before it ends after it begins
    ends = np.maximum.accumulate(tree.after[nodes])
    ends_before = np.concatenate((np.zeros(1, ends.dtype), ends[:-1]))
    outermost = nodes[nodes >= ends_before]
    calls = context.cached(_calls_by_node).between(outermost, tree.after[outermost].astype(np.int64))
    return EventRows(
        "operator",
        name,
        device=context.cached(_events_by_call).at(calls),
        calls=calls,
        thread=tree.thread[outermost].astype(np.int64),
        start_ns=tree.start_ns[outermost],
        end_ns=tree.end_ns[outermost],
    )


class _Ordered(msgspec.Struct, frozen=True):
    """Rows of a table, by an integer that each has."""

    row: I64
    number: I64
    """Of each row, ascending."""

    @classmethod
    def by(cls, numbers: I64) -> _Ordered:
        """Order the rows of a table."""
        order = stable_order(numbers)
        return cls(order, numbers[order])

    def at(self, numbers: I64) -> I64:
        """The rows with one of some numbers, ascending."""
        return self.between(numbers, numbers + 1)

    def between(self, first: I64, after: I64) -> I64:
        """The rows whose numbers lie in one of some ranges that do not overlap, ascending."""
        opens = np.searchsorted(self.number, first)
        sizes = np.searchsorted(self.number, after) - opens
        # positions of all ranges one after the other: a count from 0, moved for each range to where it opens
        moved = np.repeat(np.cumsum(sizes) - sizes - opens, sizes)
        positions = np.arange(int(sizes.sum())) - moved
        return np.sort(self.row[positions])


def _calls_by_node(context: Context) -> _Ordered:
    """Rows of the launch table by the node of the host tree in which each is."""
    return _Ordered.by(context.links.node)


def _events_by_call(context: Context) -> _Ordered:
    """Rows of the device table by their launch."""
    return _Ordered.by(context.links.launch)


def operators(context: Context) -> Bool:
    """Mask of the host nodes that are operators or optimizer steps."""
    kind = context.host.kind
    is_operator: Bool = (kind == NodeKind.OPERATOR) | (kind == NodeKind.OPTIMIZER) | (kind == NodeKind.PYTHON)
    return is_operator


def named_operators(context: Context, is_named: NameTest) -> Bool:
    """Mask of the host nodes that are operators or optimizer steps of some names."""
    return operators(context) & context.trace.names.where(is_named)[context.host.name]


def of_operators(context: Context, name: str, is_named: NameTest) -> EventRows | None:
    """Calls of operators with all that they launch; None without any."""
    return of_nodes(context, name, np.flatnonzero(named_operators(context, is_named)))


def of_kernels(context: Context, name: str, is_named: NameTest) -> EventRows | None:
    """Runs of kernels, copies and fills; None without any."""
    device = context.trace.device
    rows = np.flatnonzero(context.trace.names.where(is_named)[device.name])
    return EventRows("kernel", name, device=rows) if len(rows) else None


def of_owners(context: Context, name: str, is_named: NameTest) -> EventRows | None:
    """Host time of marks, modules and functions without waits for collectives on the CPU; None without any."""
    index = context.cached(owner_index)
    known = np.array([number for number, owner in enumerate(index.owners) if is_named(owner.name)], np.int64)
    segments = index.timeline
    rows = np.flatnonzero(np.isin(segments.owner, known))
    if not len(rows):
        return None
    waits = collectives_on_host(context)
    thread = segments.thread[rows].astype(np.int64)
    start, end = segments.start_ns[rows], segments.end_ns[rows]
    if not waits:
        return EventRows("owner", name, thread=thread, start_ns=start, end_ns=end)
    numbers = distinct(thread).tolist()
    times = [Intervals.union(start[thread == number], end[thread == number]) - waits for number in numbers]
    return EventRows("owner", name, **of_threads(numbers, times))


def of_threads(numbers: Sequence[int], times: Sequence[Intervals]) -> dict[str, I64]:
    """The times of some threads as interval fields of `EventRows`."""
    return {
        "thread": np.repeat(numbers, [len(each) for each in times]).astype(np.int64),
        "start_ns": np.concatenate([each.start for each in times]),
        "end_ns": np.concatenate([each.end for each in times]),
    }


def collectives(context: Context) -> EventRows | None:
    """Kernels that communicate, or the waits of the program for collectives on the CPU; None without any."""
    waits = collectives_on_host(context)
    if waits:
        thread = np.full(len(waits), context.cached(owner_index).critical.main)
        return EventRows("communication", "communication", thread=thread, start_ns=waits.start, end_ns=waits.end)
    rows = np.flatnonzero(communication_kernels(context))
    return EventRows("communication", "communication", device=rows) if len(rows) else None


def collectives_on_host(context: Context) -> Intervals:
    """When the program waits for collectives that run on the CPU; none where a device works."""
    return Intervals.none() if len(context.trace.device) else context.cached(exposed_on_host)


def launching_calls(context: Context, device_rows: I64) -> I64:
    """Rows of the launch table that put some device events there, one for each event whose launch was recorded."""
    launch = context.links.launch[device_rows]
    calls: I64 = launch[launch != NO_PARENT]
    return calls


_FINDERS: dict[Of, Callable[[Context, str, NameTest], EventRows | None]] = {
    Of.OPERATOR: of_operators,
    Of.KERNEL: of_kernels,
    Of.COPIES: of_kernels,
    Of.OWNER: of_owners,
}
