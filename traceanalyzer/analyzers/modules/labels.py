"""Where does the time of graphs go, by the labels that the program gave to their kernels?

Labels are paths of modules, names, or both; the parts of a path are places in a tree, as modules are that the profiler
recorded. Each event counts in full. What graphs launch and nobody labelled is counted apart.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.report.message import Text
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.context import Context, device_events_in_scope
from traceanalyzer.structure.graph_events import graph_labels, of_graphs
from traceanalyzer.structure.sums import sum_by
from traceanalyzer.trace.table import I64


class LabelledPlace(msgspec.Struct, frozen=True):
    """All events of devices whose label begins with one path."""

    label: str
    """The path, its parts joined with dots: `layers.0.attention`."""
    name: str
    """The last part of the path."""
    parent: int | None
    """Row of the place around this one; null at the top."""
    depth: int
    """Number of places around this one; 0 at the top."""
    events: int
    """Number of kernels, copies and fills with this very label."""
    device_self_ns: int
    """Device time in ns of the events with this very label, each in full."""
    device_total_ns: int
    """Device time in ns of the events whose label begins with this path, each in full."""


class LabelledGraphs(msgspec.Struct, frozen=True):
    """Labels of kernels of graphs."""

    tree: tuple[LabelledPlace, ...]
    """The places: parents before their children, siblings by device time, the most first."""
    labelled_ns: int
    """Device time in ns of everything with a label."""
    unlabelled_ns: int
    """Device time in ns that graphs launched and that has no label."""


class _Node:
    """A place in the tree."""

    def __init__(self) -> None:
        self.inner: dict[str, _Node] = {}
        self.events = self.own_ns = self.total_ns = 0


def analyze(context: Context) -> LabelledGraphs:
    """The places that labels name, with the times of their events."""
    device, found = context.trace.device, context.cached(graph_labels)
    counted = device_events_in_scope(context)
    label = found.of_event[counted]
    events = sum_by(label, np.ones(len(label), np.int64), len(found.paths))
    times = sum_by(label, device.dur_ns[counted], len(found.paths))
    unlabelled = counted & context.cached(of_graphs) & (found.of_event == 0)
    return LabelledGraphs(
        tree=_tree(found.paths, events, times),
        labelled_ns=int(times[1:].sum()),
        unlabelled_ns=int(device.dur_ns[unlabelled].sum()),
    )


def _tree(paths: tuple[tuple[str, ...], ...], events: I64, times: I64) -> tuple[LabelledPlace, ...]:
    root = _Node()
    for path, count, time in zip(paths, events.tolist(), times.tolist(), strict=True):
        node = root
        for part in path:
            node = node.inner.setdefault(part, _Node())
            node.total_ns += time
        node.events += count
        node.own_ns += time
    places: list[LabelledPlace] = []
    left: list[tuple[_Node, tuple[str, ...], int | None]] = [(node, (name,), None) for name, node in _ranked(root)]
    while left:
        node, path, parent = left.pop()
        if not node.total_ns:
            continue
        left += ((inner, (*path, name), len(places)) for name, inner in _ranked(node))
        places.append(
            LabelledPlace(".".join(path), path[-1], parent, len(path) - 1, node.events, node.own_ns, node.total_ns)
        )
    return tuple(places)


def _ranked(node: _Node) -> list[tuple[str, _Node]]:
    """The places in a place, so that the one with most time is the last, which is taken first."""
    return sorted(node.inner.items(), key=lambda item: (item[1].total_ns, item[0]))


_LABELS = Need(
    Text("skip-no-graph-labels", "no kernel of a graph has a label of the program"),
    lambda context: context.cached(graph_labels).of_event.any(),
)
ANALYSES = (Analysis(335, "labelled_graphs", LabelledGraphs, analyze, needs=(_LABELS,)),)
