"""The sequences that are compared: nodes of a captured graph, and the device events of one launch of a graph.

A captured call starts nothing on the device. So the nodes of a graph are the launches, copies and fills between the
begin and the end of the capture of a stream that started no recorded event; all other calls ran immediately.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import pairwise

import msgspec
import numpy as np

from traceanalyzer.knowledge import graph_calls
from traceanalyzer.knowledge.framework_marks import StepMark
from traceanalyzer.knowledge.frameworks import step_mark
from traceanalyzer.structure import host_activity
from traceanalyzer.structure.context import Context, cached
from traceanalyzer.structure.host_tree import NodeKind, nest
from traceanalyzer.structure.sums import group
from traceanalyzer.trace.distinct import ranked
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.strings import Strings
from traceanalyzer.trace.table import I32, I64, U8, UNKNOWN, Bool, take_or
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

_NO_KIND = 255
_SUFFIX = ".kd"
"""End of the name of a kernel's descriptor, which HSA's names have and launch calls do not."""


class CapturedGraph(msgspec.Struct, frozen=True, eq=False):
    """The capture of one graph."""

    begin_ns: int
    end_ns: int
    launch: I64
    """Rows of the calls that became nodes, in their order."""
    kind: U8
    """KERNEL, MEMCPY or MEMSET for each node."""
    mark: StepMark | None
    """The content of the framework's mark around the capture: the batch of the graph."""
    label: str
    """Name of this mark; empty if there is none."""


@cached
def captured_graphs(context: Context) -> tuple[CapturedGraph, ...]:
    """The graphs that were captured from begin to end within the recording, in their order."""
    trace = context.trace
    begin, end = _pairs(trace)
    if not len(begin):
        return ()
    kind = _kinds(trace)
    kind[context.links.launch[context.links.launch != NO_PARENT]] = _NO_KIND  # it ran immediately
    marks = Marks(trace, _is_capture)
    graphs = []
    for row, start, stop, nodes in _captured(trace, begin, end, np.flatnonzero(kind != _NO_KIND)):
        if len(nodes):
            label = marks.text(row)
            mark = step_mark(label) if label else None
            graphs.append(CapturedGraph(start, stop, nodes, kind[nodes], mark, label))
    return tuple(graphs)


def _captured(trace: Trace, begin: I64, end: I64, nodes: I64) -> Iterator[tuple[int, int, int, I64]]:
    """For each capture the call that begins it, its start and end, and the calls in it that became nodes.

    Args:
        trace: The recording of the captures.
        begin: Rows of the calls that begin a capture.
        end: Rows of the calls that end it.
        nodes: Rows of all calls that became nodes.
    """
    launches = trace.launches
    starts = launches.start_ns[begin]
    ends = launches.end_ns[end]
    first_node = np.searchsorted(launches.start_ns[nodes], starts)
    last_node = np.searchsorted(launches.start_ns[nodes], ends)
    overlap = bool((starts[1:] < ends[:-1]).any())  # captures on several threads at the same time
    for number, row in enumerate(begin.tolist()):
        inside = nodes[first_node[number] : last_node[number]]
        if overlap:
            inside = inside[launches.thread[inside] == launches.thread[row]]
        yield row, int(starts[number]), int(ends[number]), inside


def calls(trace: Trace, asked: Callable[[str], bool]) -> I64:
    """Rows of the runtime calls whose names satisfy a condition."""
    return np.flatnonzero(trace.names.where(asked)[trace.launches.name])


def _pairs(trace: Trace) -> tuple[I64, I64]:
    """Rows of the calls that begin a capture, and of those that end it on the same thread, without another begin."""
    launches = trace.launches
    begins = trace.names.where(graph_calls.begins_capture)[launches.name]
    ends = trace.names.where(graph_calls.ends_capture)[launches.name]
    rows = np.flatnonzero(begins | ends)
    rows = rows[np.argsort(launches.thread[rows], kind="stable")]
    thread = launches.thread[rows]
    is_begin = begins[rows]
    paired = np.flatnonzero(is_begin[:-1] & ~is_begin[1:] & (thread[:-1] == thread[1:]))
    begin = rows[paired]
    end = rows[paired + 1]
    order = np.argsort(begin)
    return begin[order], end[order]


def _kinds(trace: Trace) -> U8:
    """The kind of device event that each call starts."""
    codes, name = np.unique(trace.launches.name, return_inverse=True)
    launched = [graph_calls.launched(trace.names[code]) for code in codes.tolist()]
    kinds = np.array([_NO_KIND if kind is None else kind for kind in launched], np.uint8)
    return kinds[name] if len(codes) else np.zeros(0, np.uint8)


class Marks:
    """The marks of a trace that a framework sets around calls, those whose names satisfy a condition."""

    def __init__(self, trace: Trace, wanted: Callable[[str], bool]) -> None:
        host = trace.host
        rows = np.flatnonzero(host.category == Category.ANNOTATION)
        self.trace = trace
        self.tree, rows = nest(host, rows[trace.names.where(wanted)[host.name[rows]]])
        self.name = host.name[rows]

    def around(self, launches: I64) -> I64:
        """For each launch, the position of the innermost mark around it, or -1."""
        calls = self.trace.launches
        return self.tree.innermost(calls.thread[launches], calls.start_ns[launches])

    def text(self, launch: int) -> str:
        """Name of the innermost mark around a launch; empty if there is none."""
        position = int(self.around(np.array([launch]))[0])
        return "" if position == NO_PARENT else self.trace.names[self.name[position]]


def _is_capture(name: str) -> bool:
    mark = step_mark(name)
    return mark is not None and mark.phase == "capture"


def device_kinds(trace: Trace) -> U8:
    """Kind of each device event: KERNEL, MEMCPY or MEMSET; kernels that copy or fill count as copies and fills."""
    device = trace.device
    kinds = device.category.copy()
    kernels = kinds == Category.KERNEL
    codes, place = ranked(device.name[kernels])
    kinds[kernels] = np.array([graph_calls.meant(trace.names[code]) for code in codes.tolist()], np.uint8)[place]
    return kinds


class Vocabulary:
    """Numbers for names of kernels, the same for all recordings."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def codes(self, names: Strings, column: I32 | I64) -> I64:
        """The number of each name of a column; -1 for unknown and empty ones."""
        distinct, which = np.unique(column, return_inverse=True)
        numbers = [self._number(names[code]) if code >= 0 else UNKNOWN for code in distinct.tolist()]
        return np.array(numbers, np.int64)[which] if len(distinct) else np.zeros(0, np.int64)

    def texts(self) -> list[str]:
        """All names by number."""
        return [*self._numbers]

    def _number(self, name: str) -> int:
        name = name.removesuffix(_SUFFIX)
        return self._numbers.setdefault(name, len(self._numbers)) if name else UNKNOWN


class Nodes(msgspec.Struct, frozen=True, eq=False, dict=True):
    """The nodes of a captured graph, in their order."""

    graph: CapturedGraph
    kernel: I64
    """Number of the kernel's name in the call; -1 if the call names no kernel."""
    caller: I64
    """Code of the name of the operator around the call, or of the line that made it, or -1."""
    shapes: I64
    """Code of the input shapes of the operator around the call; -1 if there is none."""
    key: I64
    """Number of caller, inputs and index among the caller's calls: equal keys should run equal kernels. -1 if
    unknown."""

    @cached_property
    def is_kernel(self) -> Bool:
        """Which nodes are kernels."""
        is_kernel: Bool = self.graph.kind == Category.KERNEL
        return is_kernel

    @cached_property
    def kernels(self) -> int:
        """Number of nodes that are kernels."""
        return int(self.is_kernel.sum())

    @cached_property
    def content(self) -> tuple[bytes, ...]:
        """Everything on which a fit depends; equal for graphs with equal fits."""
        return tuple(column.tobytes() for column in (self.graph.kind, self.kernel, self.caller, self.key))

    def __len__(self) -> int:
        return len(self.graph.launch)


class GraphReplay(msgspec.Struct, frozen=True, eq=False, dict=True):
    """The events of one launch of a graph, in the order of their starts."""

    kind: U8
    kernel: I64
    """Number of the name of each kernel; -1 for copies, fills, and kernels without a name."""
    by_node: I64 | None = None
    """The order of the events by the ids of their nodes, if all have one and this order differs from that of their
    starts. Parallel streams may start in another order."""

    @cached_property
    def is_kernel(self) -> Bool:
        """Which events are kernels."""
        is_kernel: Bool = self.kind == Category.KERNEL
        return is_kernel

    @cached_property
    def kernels(self) -> int:
        """Number of events that are kernels."""
        return int(self.is_kernel.sum())

    def __len__(self) -> int:
        return len(self.kind)


class GraphReplays(msgspec.Struct, frozen=True, eq=False):
    """All launches of graphs in a recording, and their events."""

    launch: I64
    """Rows of the launches that ran an event, in their order."""
    rows: I64
    """Rows of their events, launch by launch, in the order of their starts."""
    bounds: I64
    """Shape (launches + 1,): where the rows of each launch begin."""
    sequence: I64
    """For each launch, which of the distinct sequences it ran."""
    distinct: tuple[GraphReplay, ...]
    """The distinct sequences of kinds and names."""

    def events(self, number: int) -> I64:
        """Rows of the events of a launch."""
        return self.rows[self.bounds[number] : self.bounds[number + 1]]


def nodes_of(context: Context, vocabulary: Vocabulary) -> list[Nodes]:
    """The nodes of every captured graph of a recording, with their keys."""
    graphs = captured_graphs(context)
    if not graphs:
        return []
    trace = context.trace
    rows = np.concatenate([graph.launch for graph in graphs])
    kind = np.concatenate([graph.kind for graph in graphs])
    caller, shapes, key = _keys(context, rows, kind)
    kernel = vocabulary.codes(trace.names, np.where(kind == Category.KERNEL, trace.launches.kernel[rows], UNKNOWN))
    ends = np.cumsum([len(graph.launch) for graph in graphs])[:-1]
    columns = (np.split(column, ends) for column in (kernel, caller, shapes, key))
    return [Nodes(graph, *parts) for graph, *parts in zip(graphs, *columns, strict=True)]


def _keys(context: Context, rows: I64, kind: U8) -> tuple[I64, I64, I64]:
    """For each call: the operator or line that makes it, the shapes of that, and a number that is equal for equal ones.

    Equal are the calls of one operator on equal inputs, at the same place among its calls, of one kind.
    """
    trace, host = context.trace, context.host
    node = context.links.node[rows]
    owner = np.where(node == NO_PARENT, NO_PARENT, take_or(host.top, node, NO_PARENT))
    line = context.cached(host_activity.line_tree).names_at(trace.launches.thread[rows], trace.launches.start_ns[rows])
    caller = np.where(owner == NO_PARENT, line, take_or(host.name, owner, np.int32(-1))).astype(np.int64)
    is_module = take_or(host.kind, owner, NodeKind.NONE) == NodeKind.MODULE
    operator = np.where(is_module, -1, take_or(host.row, owner, -1))
    shapes = take_or(trace.host.shapes, operator, np.int32(-1)).astype(np.int64)
    types = take_or(trace.host.types, operator, -1)
    place = np.where(owner == NO_PARENT, 0, _place(owner))
    _, alike = group(caller, shapes, types, place, kind)
    return caller, shapes, np.where(caller < 0, UNKNOWN, alike)


def _place(owner: I64) -> I64:
    """For each node its number among the nodes in a row that have the same owner."""
    new = np.append(True, owner[1:] != owner[:-1])[: len(owner)]
    position = np.arange(len(owner))
    return position - np.maximum.accumulate(np.where(new, position, 0))


def replays_of(context: Context, vocabulary: Vocabulary) -> GraphReplays:
    """The launches of graphs in a recording."""
    trace, launch = context.trace, context.links.launch
    is_graph = np.zeros(len(trace.launches) + 1, np.bool_)
    is_graph[calls(trace, graph_calls.is_graph_launch)] = True
    rows = np.flatnonzero(is_graph[launch])  # -1 is the entry after the last one, which is not a graph
    rows = rows[np.argsort(launch[rows], kind="stable")]
    launches, counts = np.unique(launch[rows], return_counts=True)
    bounds = np.concatenate(([0], np.cumsum(counts)))
    sequence, distinct = _sequences(trace, rows, bounds, vocabulary)
    return GraphReplays(launches, rows, bounds, sequence, distinct)


def _sequences(trace: Trace, rows: I64, bounds: I64, vocabulary: Vocabulary) -> tuple[I64, tuple[GraphReplay, ...]]:
    """For each launch which sequence of kinds and names it ran, and the distinct sequences by their first launch."""
    kind = device_kinds(trace)[rows]
    kernel = vocabulary.codes(trace.names, np.where(kind == Category.KERNEL, trace.device.name[rows], UNKNOWN))
    known: dict[bytes, int] = {}
    distinct: list[GraphReplay] = []
    sequence = np.zeros(len(bounds) - 1, np.int64)
    for number, (first, last) in enumerate(pairwise(bounds.tolist())):
        by_node = _by_node(trace.device.graph_node[rows[first:last]])
        content = kind[first:last].tobytes() + kernel[first:last].tobytes()
        content += b"" if by_node is None else by_node.tobytes()
        sequence[number] = known.setdefault(content, len(known))
        if sequence[number] == len(distinct):
            distinct.append(GraphReplay(kind[first:last], kernel[first:last], by_node))
    return sequence, tuple(distinct)


def _by_node(nodes: I64) -> I64 | None:
    """The order of the ids of nodes, if it differs from that of the rows."""
    if (nodes == UNKNOWN).any() or (nodes[1:] >= nodes[:-1]).all():
        return None
    return np.argsort(nodes, kind="stable")
