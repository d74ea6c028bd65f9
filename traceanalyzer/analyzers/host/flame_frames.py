"""Where does the time of the host, of devices and of idle devices go, stack by stack?

The flame graphs of the critical thread in the typical steps, small enough for a report: the frames with most time have
rows of their own, and the frames below a frame that are left out are one row, which counts them. Of a long recording
the first typical steps stand for all.
"""

from __future__ import annotations

import msgspec

from traceanalyzer.analyzers.host import HOST_TIME, flame_graphs
from traceanalyzer.analyzers.host.flame_graphs import FlameGraph
from traceanalyzer.structure.analysis import Analysis
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.owners import Owner
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.structure.stack_rows import stack_rows

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


def analyze(context: Context) -> FlameFrames:
    """The flame graphs of the critical thread."""
    found = flame_graphs.of_steps(context, EVENTS)
    frames: dict[Owner, int] = {}
    graphs = tuple(_rows(graph, frames) for graph in found.graphs if graph.thread is None)
    return FlameFrames(found.steps, tuple(frames), graphs, len(program_steps(context).typical))


def _rows(graph: FlameGraph, frames: dict[Owner, int]) -> FlameRows:
    rows = stack_rows(graph.tree, list(zip(graph.nodes, graph.weights, strict=True)), frames, FRAMES)
    return FlameRows(graph.quantity, *zip(*rows, strict=True))


ANALYSES = (Analysis(42, "flame_frames", FlameFrames, analyze, needs=(HOST_TIME,), is_for_files=True),)
