"""Renders a flame graph as collapsed stacks, the input format of Brendan Gregg's FlameGraph."""

from __future__ import annotations

from traceanalyzer.analyzers.host.flame_graphs import FlameGraph
from traceanalyzer.formats import flame_frames
from traceanalyzer.structure.owners import Owner


def render(graph: FlameGraph) -> str:
    """Render one stack per line: its frames, outermost first, separated by semicolons, a blank, and nanoseconds."""
    stacks: dict[str, int] = {}
    for frames, weight in zip(graph.stacks, graph.weights, strict=True):
        stack = ";".join(map(_frame, frames))
        stacks[stack] = stacks.get(stack, 0) + weight
    return "".join(f"{stack} {weight}\n" for stack, weight in stacks.items())


def _frame(owner: Owner) -> str:
    return flame_frames.name_with_place(owner).replace(";", ",")
