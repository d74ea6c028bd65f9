"""Builds the causal graph of a window from the tables of a trace."""

from __future__ import annotations

import msgspec

from traceanalyzer.simulation import calls, device_chain, host_points, releases, streams
from traceanalyzer.simulation.graph import Graph, Inputs
from traceanalyzer.simulation.window import ModelledWindow
from traceanalyzer.structure.context import Context
from traceanalyzer.trace.table import I64


class Built(msgspec.Struct, frozen=True):
    """A graph, and the positions of its steps."""

    graph: Graph
    step_start: I64
    """The point at the start of each step's mark."""
    step_end: I64
    """The point at the end of each step's mark."""


def build(context: Context, window: ModelledWindow) -> Built:
    """Build the graph of a window."""
    found = calls.find(context, window)
    events = streams.find(context, window, found)
    released = releases.find(context, found, events)
    placed = host_points.build(context, window, found, released)
    device, starts = device_chain.build(context, (found, events, released), placed)
    graph = Graph(placed.points, device, Inputs(*starts, released.unexplained))
    return Built(graph, placed.step_start, placed.step_end)
