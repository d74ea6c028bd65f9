"""Which work of a graph depends on which, by the arrows that the writer drew between nodes?

An arrow leads from the end of one node to the start of another one, on the rows where they are shown. Nodes that are no
work, records of events and callbacks, are passed through: what depends on them depends on what they depend on.
"""

from __future__ import annotations

from collections import defaultdict

import msgspec
import numpy as np

from traceanalyzer.structure.context import Context, cached
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.table import I32, I64, UNKNOWN, Bool
from traceanalyzer.trace.tables import Dependencies, GraphNodes

_CALLBACK = "HostNode"
_MOST_BETWEEN = 64
"""Most nodes that are no work between two that are (own choice: NCCL inserts one or two)."""
_ROUNDED = (0, 1, -1)
"""Differences in ns between an arrow and its node: writers round a point in time and a duration each for itself."""


class GraphDependencies(msgspec.Struct, frozen=True):
    """Pairs of rows of the device table. Shapes (pairs,)."""

    first: I64
    """The row that comes first."""
    second: I64
    """The row that depends on it."""
    is_direct: Bool
    """Whether nothing lies between the two."""


@cached
def dependencies(context: Context) -> GraphDependencies:
    """What work of graphs depends on, in the order of what depends; empty where no arrows were written."""
    trace, arrows = context.trace, context.trace.dependencies
    begins = arrows.is_start == 1
    sources, targets = _ends(trace, arrows, begins)
    first = dict(zip(arrows.arrow[begins].tolist(), sources.tolist(), strict=True))
    pairs = {
        (first.get(arrow, UNKNOWN), node)
        for arrow, node in zip(arrows.arrow[~begins].tolist(), targets.tolist(), strict=True)
    }
    known = sorted((pair for pair in pairs if UNKNOWN not in pair), key=lambda pair: pair[::-1])
    return _between_work(known, len(trace.device))


def _ends(trace: Trace, arrows: Dependencies, begins: Bool) -> tuple[I64, I64]:
    """The nodes at which arrows begin, and those at which they end."""
    thread = np.concatenate((trace.device.thread, trace.graph_nodes.thread)).astype(np.int64)
    start = np.concatenate((trace.device.start_ns, trace.graph_nodes.start_ns))
    end = np.concatenate((trace.device.end_ns, trace.graph_nodes.end_ns))
    is_node = np.append(trace.device.graph_node != UNKNOWN, np.ones(len(trace.graph_nodes), np.bool_))
    nodes = np.flatnonzero(is_node)
    sources = _nodes_at(nodes, thread, end, arrows.thread[begins], arrows.start_ns[begins])
    targets = _nodes_at(nodes, thread, start, arrows.thread[~begins], arrows.start_ns[~begins])
    return sources, targets


def _nodes_at(nodes: I64, thread: I64, times: I64, wanted_thread: I32, wanted: I64) -> I64:
    """The only node of a thread at each time; `UNKNOWN` where there is none, or several."""
    found = np.full(len(wanted), UNKNOWN, np.int64)
    if not len(nodes) or not len(wanted):
        return found
    order = nodes[np.lexsort((times[nodes], thread[nodes]))]
    every = distinct(np.concatenate((times[nodes], *(wanted + shift for shift in _ROUNDED))))
    keys = thread[order] * len(every) + np.searchsorted(every, times[order])
    for shift in reversed(_ROUNDED):
        asked = wanted_thread.astype(np.int64) * len(every) + np.searchsorted(every, wanted + shift)
        low, high = (np.searchsorted(keys, asked, side=side) for side in ("left", "right"))
        only = high - low == 1
        found[only] = order[low[only]]
    return found


def _between_work(pairs: list[tuple[int, int]], work: int) -> GraphDependencies:
    """The pairs of which both are work, those with other nodes between them included."""
    before: defaultdict[int, list[int]] = defaultdict(list)
    for one, other in pairs:
        if other >= work:
            before[other].append(one)
    found: dict[tuple[int, int], bool] = {}
    for one, other in pairs:
        if other >= work:
            continue
        reached, passed = [one], 0
        while reached and passed < _MOST_BETWEEN:
            node = reached.pop()
            if node < work:
                found[node, other] = found.get((node, other), False) or node == one
            else:
                reached += before[node]
                passed += 1
    rows = np.array([*found], np.int64).reshape(-1, 2)
    return GraphDependencies(rows[:, 0], rows[:, 1], np.array([*found.values()], np.bool_))


def callbacks(context: Context, device: int) -> tuple[I64, Intervals]:
    """The callbacks inside graphs for which streams of a device wait: rows of the table of nodes, and when they run."""
    nodes: GraphNodes = context.trace.graph_nodes
    is_callback = context.trace.names.where(lambda name: name.startswith(_CALLBACK))[nodes.name]
    rows = np.flatnonzero(is_callback & (nodes.device == device))
    return rows, Intervals.union(nodes.start_ns[rows], nodes.end_ns[rows])
