"""Which times in the middle of the recording are empty because events were removed?

A hole is a time in which no event of any kind begins or runs, apart from marks around it, although correlation ids show
that the runtime made many calls. A program that only sleeps makes no calls.
"""

from __future__ import annotations

import numpy as np

from traceanalyzer.structure.context import Context
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, UNKNOWN
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

_LEAST_NS = 1_000_000
_LEAST_SHARE = 0.05
"""Least share of the recording that a time without events must have to be examined (own choice)."""
_CALLS = 100
"""Own choice: some calls leave no event at all, but rarely so many at once."""


def holes(context: Context) -> Intervals:
    """The times in which events were removed, found once."""
    return context.once(_holes)


def _holes(context: Context) -> Intervals:
    trace, tree = context.trace, context.host.tree
    leaves = np.ones(len(tree), np.bool_)
    leaves[tree.parent[tree.parent != NO_PARENT]] = False
    around = context.links.node[context.links.node != NO_PARENT]
    leaves[around[context.host.category[around] == Category.ANNOTATION]] = False
    tables = (trace.launches, trace.device, trace.frames)
    start = np.concatenate((tree.start_ns[leaves], *(table.start_ns for table in tables)))
    end = np.concatenate((tree.end_ns[leaves], *(table.end_ns for table in tables)))
    end = np.maximum(end, start + 1)
    if not len(start) or _is_covered(start, end):
        return Intervals.none()
    covered = Intervals.union(start, end)
    span = int(covered.end[-1] - covered.start[0])
    begin, until = covered.end[:-1], covered.start[1:]
    long = until - begin >= max(_LEAST_NS, _LEAST_SHARE * span)
    found = [
        (low, high)
        for low, high in zip(begin[long].tolist(), until[long].tolist(), strict=True)
        if _removed_calls(context, low, high) >= _CALLS
    ]
    bounds = np.array(found, np.int64).reshape(-1, 2)
    return Intervals.union(bounds[:, 0], bounds[:, 1])


def _is_covered(start: I64, end: I64) -> bool:
    """Whether intervals cover a time so densely that no long hole can lie between them.

    A long hole contains one of the equal parts that are half as long. Counting the intervals in each part needs no
    sorting.
    """
    low, high = int(start.min()), int(end.max())
    part = int(max(_LEAST_NS, _LEAST_SHARE * (high - low))) // 2
    parts = (high - low) // part + 1
    begins = np.bincount((start - low) // part, minlength=parts)
    ends = np.bincount((end - 1 - low) // part, minlength=parts)
    running = np.cumsum(begins) - np.append(0, np.cumsum(ends)[:-1])
    return bool((running[: (high - low) // part] > 0).all())


def _removed_calls(context: Context, begin: int, end: int) -> int:
    """By how much correlation ids increase from the last call before a time to the first one after it."""
    launches = context.trace.launches
    known = launches.correlation != UNKNOWN
    before = launches.correlation[known & (launches.start_ns < end) & (launches.start_ns <= begin)]
    after = launches.correlation[known & (launches.start_ns >= end)]
    return int(after.min() - before.max()) if len(before) and len(after) else 0
