"""Which graphs were captured in a recording, and which calls became their nodes?

A captured call starts nothing on the device. So the nodes of a graph are the launches, copies and fills between the
begin and the end of the capture of a stream that started no recorded event; all other calls ran immediately.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from traceanalyzer.knowledge import graph_calls
from traceanalyzer.knowledge.framework_marks import StepMark
from traceanalyzer.knowledge.frameworks import step_mark
from traceanalyzer.structure.context import Context
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.table import I32, I64, U8
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT, Tree

_NO_KIND = 255


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


def captured_graphs(context: Context) -> tuple[CapturedGraph, ...]:
    """The graphs that were captured from begin to end within the recording, in their order."""
    return context.once(_captured)


def calls(trace: Trace, asked: Callable[[str], bool]) -> I64:
    """Rows of the runtime calls whose names satisfy a condition."""
    return np.flatnonzero(trace.names.where(asked)[trace.launches.name])


def _captured(context: Context) -> tuple[CapturedGraph, ...]:
    trace = context.trace
    begin, end = _pairs(trace)
    if not len(begin):
        return ()
    kind = _kinds(trace)
    kind[context.links.launch[context.links.launch != NO_PARENT]] = _NO_KIND  # it ran immediately
    nodes = np.flatnonzero(kind != _NO_KIND)
    launches = trace.launches
    starts, ends = launches.start_ns[begin], launches.end_ns[end]
    first_node = np.searchsorted(launches.start_ns[nodes], starts)
    last_node = np.searchsorted(launches.start_ns[nodes], ends)
    together = bool((starts[1:] < ends[:-1]).any())  # captures on several threads at the same time
    marks = _Marks(trace)
    found = []
    for at, row in enumerate(begin.tolist()):
        own = nodes[first_node[at] : last_node[at]]
        if together:
            own = own[launches.thread[own] == launches.thread[row]]
        if len(own):
            label, mark = marks.at(launches.thread[row : row + 1], launches.start_ns[row : row + 1])
            found.append(CapturedGraph(int(starts[at]), int(ends[at]), own, kind[own], mark, label))
    return tuple(found)


def _pairs(trace: Trace) -> tuple[I64, I64]:
    """Rows of the calls that begin a capture, and of those that end it on the same thread, without another begin."""
    rows = np.flatnonzero(
        trace.names.where(graph_calls.begins_capture)[trace.launches.name]
        | trace.names.where(graph_calls.ends_capture)[trace.launches.name]
    )
    rows = rows[np.argsort(trace.launches.thread[rows], kind="stable")]
    begins = trace.names.where(graph_calls.begins_capture)[trace.launches.name[rows]]
    thread = trace.launches.thread[rows]
    paired = np.flatnonzero(begins[:-1] & ~begins[1:] & (thread[:-1] == thread[1:]))
    begin, end = rows[paired], rows[paired + 1]
    order = np.argsort(begin)
    return begin[order], end[order]


def _kinds(trace: Trace) -> U8:
    """The kind of device event that each call starts."""
    codes, which = np.unique(trace.launches.name, return_inverse=True)
    found = [graph_calls.launched(trace.names[code]) for code in codes.tolist()]
    kinds = np.array([_NO_KIND if kind is None else kind for kind in found], np.uint8)
    return kinds[which] if len(codes) else np.zeros(0, np.uint8)


class _Marks:
    """The marks that a framework sets around captures."""

    def __init__(self, trace: Trace) -> None:
        host, self._names = trace.host, trace.names
        rows = np.flatnonzero(host.category == Category.ANNOTATION)
        rows = rows[trace.names.where(_is_capture)[host.name[rows]]]
        self._tree, order = Tree.build(host.thread[rows], host.start_ns[rows], host.dur_ns[rows])
        self._name = host.name[rows[order]]

    def at(self, thread: I32, time: I64) -> tuple[str, StepMark | None]:
        """Name and content of the innermost mark around a call."""
        position = int(self._tree.innermost(thread, time)[0])
        if position == NO_PARENT:
            return "", None
        name = self._names[self._name[position]]
        return name, step_mark(name)


def _is_capture(name: str) -> bool:
    mark = step_mark(name)
    return mark is not None and mark.phase == "capture"


def device_kinds(trace: Trace) -> U8:
    """Kind of each device event: KERNEL, MEMCPY or MEMSET; kernels that copy or fill count as copies and fills."""
    device = trace.device
    kinds = device.category.copy()
    codes = np.unique(device.name[kinds == Category.KERNEL])
    for code in codes.tolist():
        if (meant := graph_calls.meant(trace.names[code])) != Category.KERNEL:
            kinds[device.name == code] = meant
    return kinds
