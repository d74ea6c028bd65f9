"""Which launches of graphs begin a step, where nothing else marks steps?

A program may be cut into several graphs, such as one for each layer, which it launches in the same order in each step.
Graphs are distinguished by the names of what runs in them.
"""

from __future__ import annotations

import numpy as np

from traceanalyzer.structure.context import Context
from traceanalyzer.structure.graph_launches import graph_calls
from traceanalyzer.structure.sums import count_by, sum_by
from traceanalyzer.trace.table import I64
from traceanalyzer.trace.tree import NO_PARENT

_REPEATS = 3
"""How often a graph must repeat to define steps."""
_MOST_PERIODS = 200
"""Number of lengths of a repeating sequence that are tried (own choice)."""


def starts(context: Context) -> I64 | None:
    """When steps start, in ns; None where no graph repeats three times.

    Where graphs alternate in a fixed order, the launch after the longest pause begins the step; where pauses are equal,
    that of the graph with most kernels. Else it is the graph that ran most kernels in all.
    """
    launches = context.trace.launches
    rows = np.flatnonzero(graph_calls(context))
    if len(rows) < _REPEATS:
        return None
    graph, kernels = _graphs(context, rows)
    if not kernels.any():
        return None
    period = _period(graph)
    if period > 1:
        return launches.start_ns[
            rows[_opens(launches.start_ns[rows], launches.end_ns[rows], kernels, period) :: period]
        ]
    _, first, kind, counts = np.unique(graph, return_index=True, return_inverse=True, return_counts=True)
    most = int(np.lexsort((kernels[first], counts * kernels[first]))[-1])
    return launches.start_ns[rows[kind == most]] if counts[most] >= _REPEATS and kernels[first[most]] else None


def _graphs(context: Context, rows: I64) -> tuple[I64, I64]:
    """For each launch of a graph, a number that identifies the graph, and how much runs in it.

    The number does not depend on the order of names, which changes from launch to launch if several streams run.
    """
    place = np.full(len(context.trace.launches) + 1, NO_PARENT, np.int64)
    place[rows] = np.arange(len(rows))
    own = place[context.links.launch]
    names = context.trace.device.name[own != NO_PARENT].astype(np.uint64) + np.uint64(1)
    own = own[own != NO_PARENT]
    mixed = names * np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio: spreads small numbers
    mixed = (mixed ^ (mixed >> np.uint64(29))) >> np.uint64(24)  # 40 bits: sums of millions stay exact
    return sum_by(own, mixed.astype(np.int64), len(rows)), count_by(own, len(rows))


def _period(values: I64) -> int:
    """After how many rows a column repeats itself, from its first to its last row and three times or more; else 0."""
    longest = len(values) // _REPEATS
    candidates = 1 + np.flatnonzero(values[1 : longest + 1] == values[0])[:_MOST_PERIODS]
    return next((n for n in candidates.tolist() if np.array_equal(values[n:], values[:-n])), 0)


def _opens(start: I64, end: I64, kernels: I64, period: int) -> int:
    """Which of the alternating launches begins the step."""
    offset = np.arange(1, len(start)) % period
    pauses = sum_by(offset, start[1:] - end[:-1], period) // np.maximum(count_by(offset, period), 1)
    return int(np.lexsort((-np.arange(period), kernels[:period], pauses))[-1])
