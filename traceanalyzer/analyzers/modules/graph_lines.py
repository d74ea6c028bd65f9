"""Which lines of Python made the kernels of graphs?

A node of a graph belongs to the functions that were active when it was captured, which torch writes beside the trace.
Each event counts in full, once for each line of its stack in totals, and for the innermost one in self times.
"""

from __future__ import annotations

from collections import defaultdict

import msgspec
import numpy as np

from traceanalyzer.report.message import Text
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.context import Context, device_events_in_scope
from traceanalyzer.structure.graph_events import graph_lines, of_graphs
from traceanalyzer.structure.sums import sum_by
from traceanalyzer.trace.graph_stacks import StackFrame


class GraphLine(msgspec.Struct, frozen=True):
    """A line of Python in which kernels of graphs were captured."""

    name: str
    """The line and its function, `model.py(12): forward`."""
    events: int
    """Number of kernels, copies and fills that this very line made."""
    device_self_ns: int
    """Device time in ns of these events, each in full."""
    device_total_ns: int
    """Device time in ns of the events that were captured anywhere within the call; each event counts once."""


class LinesOfGraphs(msgspec.Struct, frozen=True):
    """Lines of Python in which kernels of graphs were captured."""

    file: str
    """Name of the file with the stacks."""
    rows: tuple[GraphLine, ...]
    """One row per line and function, the most device self time first."""
    attributed_ns: int
    """Device time in ns of everything with a stack."""
    unattributed_ns: int
    """Device time in ns that graphs launched and that has no stack."""


def analyze(context: Context) -> LinesOfGraphs:
    """The lines with the times of what they made."""
    device, found = context.trace.device, context.cached(graph_lines)
    counted = device_events_in_scope(context)
    stack = found.of_event[counted]
    events = sum_by(stack, np.ones(len(stack), np.int64), len(found.stacks)).tolist()
    times = sum_by(stack, device.dur_ns[counted], len(found.stacks)).tolist()
    sums: defaultdict[StackFrame, list[int]] = defaultdict(lambda: [0, 0, 0])
    attributed = 0
    for frames, count, time in zip(found.stacks, events, times, strict=True):
        if not frames:
            continue
        attributed += time
        for frame in dict.fromkeys(frames):
            sums[frame][2] += time
        innermost = sums[frames[-1]]
        innermost[0] += count
        innermost[1] += time
    rows = (GraphLine(f"{one.file}({one.line}): {one.function}", *figures) for one, figures in sums.items())
    known = np.array([bool(frames) for frames in found.stacks], np.bool_)
    stacks = context.trace.graph_stacks
    return LinesOfGraphs(
        file=stacks.name if stacks is not None else "",
        rows=tuple(
            sorted((row for row in rows if row.device_total_ns), key=lambda row: (-row.device_self_ns, row.name))
        ),
        attributed_ns=attributed,
        unattributed_ns=int(device.dur_ns[counted & context.cached(of_graphs) & ~known[found.of_event]].sum()),
    )


_STACKS = Need(
    Text("skip-no-graph-stacks", "there is no file with the lines that made the kernels of its graphs"),
    lambda context: context.cached(graph_lines).of_event.any(),
)
ANALYSES = (Analysis(345, "graph_lines", LinesOfGraphs, analyze, needs=(_STACKS,)),)
