"""Where does the time of the host, of devices and of idle devices go, stack by stack?

The flame graphs of the critical thread in the typical steps, small enough for a report: the frames with most time have
rows of their own, and the frames below a frame that are left out are one row, which counts them. Of a long recording
the first typical steps stand for all.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nlargest
from itertools import count

import msgspec

from traceanalyzer.analyzers.host import HOST_TIME, flame_graphs
from traceanalyzer.analyzers.host.flame_graphs import FlameGraph
from traceanalyzer.structure.analysis import Analysis
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.owners import Owner
from traceanalyzer.structure.recording.program_steps import program_steps

FRAMES = 1000
"""Most frames of a graph with rows of their own (own choice: more than a screen can show side by side)."""

EVENTS = 100_000
"""Most events of the host and Python calls in the steps that are added (own choice: a million of them take a second and
300 MB)."""


class FlameRows(msgspec.Struct, frozen=True):
    """One flame graph as columns: a row for each frame, depth first."""

    quantity: str
    """`host` (time of the critical thread), `device` (work that it launched, each event in full) or `idle` (time in
    which the busiest device had nothing to do because the host had launched nothing)."""
    frame: tuple[int, ...]
    """Position in `frames`; -1 for the row of all frames that are left out here."""
    depth: tuple[int, ...]
    """Number of frames around it."""
    ns: tuple[int, ...]
    """Time in ns of the frame and everything that it called."""
    count: tuple[int, ...]
    """Number of frames in the row: 1, or those that are left out."""


class FlameFrames(msgspec.Struct, frozen=True):
    """Flame graphs of the typical steps."""

    steps: int | None
    """Number of steps whose time is added; null for the whole recording."""
    frames: tuple[Owner, ...]
    """The frames of all graphs."""
    graphs: tuple[FlameRows, ...]
    """The graphs with any time: host, device, idle."""
    typical_steps: int | None = None
    """Number of typical steps, of which a long recording has more than are added; null for the whole recording, and in
    reports of old versions."""


class _Node:
    """One frame of the tree of stacks."""

    __slots__ = ("inner", "ns", "number")

    def __init__(self, number: int) -> None:
        self.number, self.ns = number, 0
        self.inner: dict[Owner, _Node] = {}

    def size(self) -> int:
        """The number of frames in it, this one included."""
        return 1 + sum(node.size() for node in self.inner.values())


def analyze(context: Context) -> FlameFrames:
    """The flame graphs of the critical thread."""
    found = flame_graphs.of_steps(context, EVENTS)
    frames: dict[Owner, int] = {}
    graphs = tuple(_rows(graph, frames) for graph in found.graphs if graph.thread is None)
    return FlameFrames(found.steps, tuple(frames), graphs, len(program_steps(context).typical))


def _rows(graph: FlameGraph, frames: dict[Owner, int]) -> FlameRows:
    root = _Node(-1)
    nodes = list(_grown(root, graph))
    kept = set(nlargest(FRAMES, range(len(nodes)), key=lambda number: (nodes[number].ns, -number)))
    rows: list[tuple[int, int, int, int]] = []
    left: list[tuple[_Node, Owner | None, int]] = [(root, None, -1)]
    while left:
        node, owner, depth = left.pop()
        if owner is not None:
            rows.append((frames.setdefault(owner, len(frames)), depth, node.ns, 1))
        hidden = [inner for inner in node.inner.values() if inner.number not in kept]
        shown = [(name, inner) for name, inner in node.inner.items() if inner.number in kept]
        left += ((inner, name, depth + 1) for name, inner in reversed(shown))
        if hidden:
            rows.append((-1, depth + 1, sum(inner.ns for inner in hidden), sum(inner.size() for inner in hidden)))
    return FlameRows(graph.quantity, *zip(*rows, strict=True))


def _grown(root: _Node, graph: FlameGraph) -> Iterator[_Node]:
    """Put the stacks of a graph below a node; yields the new nodes in their order."""
    number = count()
    for stack, weight in zip(graph.stacks, graph.weights, strict=True):
        node = root
        for frame in stack:
            if frame not in node.inner:
                node.inner[frame] = _Node(next(number))
                yield node.inner[frame]
            node = node.inner[frame]
            node.ns += weight


ANALYSES = (Analysis(42, "flame_frames", FlameFrames, analyze, needs=(HOST_TIME,)),)
