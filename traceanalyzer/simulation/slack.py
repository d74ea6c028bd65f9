"""How much longer can each device event take without lengthening the steps?

The reverse of a replay: going back from the end of the steps, the latest time of each node follows from the latest
times of the nodes that depend on it.
"""

from __future__ import annotations

import numpy as np

from traceanalyzer.simulation import step_times
from traceanalyzer.simulation.graph import Graph
from traceanalyzer.simulation.longest_path import NEVER, Contracted, Times, contract, running_maximum
from traceanalyzer.simulation.step_times import StepBounds
from traceanalyzer.trace.table import I64

_ALWAYS = -NEVER


def of_events(graph: Graph, times: Times, bounds: StepBounds, part_of_event: I64) -> I64:
    """The slack of each device event in ns, 0 or more.

    Args:
        graph: The graph.
        times: Its replay.
        bounds: The bounds of its steps.
        part_of_event: For each device event, the number of its part.
    """
    small = contract(graph)
    last = np.append(np.flatnonzero(np.diff(bounds.part)), len(bounds.part) - 1)
    until = step_times.ends(bounds, times)[last]
    latest = np.full(len(small), _ALWAYS)
    inner = _longest_rest(small)
    np.minimum.at(latest, small.run, until[part_of_event] - inner + _rest_of_run(small))
    points = bounds.end_point[last]
    np.minimum.at(latest, small.block[points], until - small.offset_ns[points])
    allowed = np.array(_backward(small, latest.tolist()), np.int64)[small.run] - _rest_of_run(small)
    left: I64 = np.minimum(allowed, until[part_of_event] - inner) - times.end_ns
    return np.maximum(left, 0)


def _backward(small: Contracted, latest: list[int]) -> list[int]:
    """The latest time of each node that delays no later node."""
    rows = zip(*small.cause.tolist(), *small.weight_ns.tolist(), strict=True)
    for node, (first, second, third, a, b, c) in reversed(list(enumerate(rows))):
        limit = latest[node]
        if limit < _ALWAYS:
            if a > NEVER and limit - a < latest[first]:
                latest[first] = limit - a
            if b > NEVER and limit - b < latest[second]:
                latest[second] = limit - b
            if c > NEVER and limit - c < latest[third]:
                latest[third] = limit - c
    return latest


def _rest_of_run(small: Contracted) -> I64:
    """For each event, the sum of gaps and durations after it in its run."""
    if not len(small.run):
        return small.run
    ends = np.append(small.run[1:] != small.run[:-1], True)
    last = np.flatnonzero(ends)
    place = np.searchsorted(last, np.arange(len(small.run)))
    rest: I64 = small.length_ns[last[place]] - small.length_ns
    return rest


def _longest_rest(small: Contracted) -> I64:
    """For each event, the time from its end to the last end in its run; overlapping events may end before it."""
    if not len(small.run):
        return small.run
    run = np.cumsum(np.append(False, small.run[1:] != small.run[:-1]))
    rest: I64 = running_maximum(small.length_ns[::-1], (run[-1] - run)[::-1])[::-1] - small.length_ns
    return rest
