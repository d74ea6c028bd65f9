"""Which points of a host thread continue after a call of another thread?

The autograd engine runs backward passes on separate threads, while the calling thread waits; queues and locks do the
same. If a thread records nothing for a while, and a call of another thread of its process ends meanwhile, the thread
is taken to continue after that call.
"""

from __future__ import annotations

import numpy as np

from traceanalyzer.simulation.graph import NOTHING, shifted
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_activity import operator_rows
from traceanalyzer.structure.sums import members
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, Bool

LEAST_NS = 20_000
"""Own choice: shorter times without records count as host work, not as waiting for another thread."""


def find(context: Context, thread: I64, time_ns: I64, is_end: Bool) -> tuple[I64, I64]:
    """For each point, the point of another thread after which it continues, and the host time that remains before it.

    Args:
        context: The trace.
        thread: Thread of each point; points are ordered by thread, then by time.
        time_ns: Time of each point.
        is_end: Mask of the points that are ends of calls. Only these release other threads, and they wait for none.

    Returns:
        Positions of points, or `NOTHING`; and for points that wait, the time in ns since their previous point in which
        their thread ran operators, so that it cannot have waited.
    """
    source, worked = np.full(len(time_ns), NOTHING), np.zeros(len(time_ns), np.int64)
    if len(distinct(thread)) < 2:
        return source, worked
    first = thread != shifted(thread, NOTHING)
    since = np.where(first, np.iinfo(np.int64).min // 2, shifted(time_ns, 0))
    asks = np.flatnonzero(~is_end & (time_ns - since > LEAST_NS))
    found = _last_of_others(context, thread, time_ns, is_end, asks)
    at = np.append(time_ns, np.iinfo(np.int64).min)[found]
    inside = (found != NOTHING) & (at > since[asks])
    asks, found, at = asks[inside], found[inside], at[inside]
    busy = np.zeros(len(asks), np.bool_)
    covered = np.zeros(len(asks), np.int64)
    rows = np.flatnonzero(operator_rows(context))
    host = context.trace.host
    for number, own in members(thread[asks]):
        ran = rows[host.thread[rows] == number]
        operators = Intervals.union(host.start_ns[ran], host.end_ns[ran])
        busy[own] = operators.within(at[own] - 1, at[own]) > 0
        covered[own] = operators.within(np.maximum(since[asks[own]], 0), time_ns[asks[own]])
    source[asks[~busy]], worked[asks[~busy]] = found[~busy], covered[~busy]
    return source, worked


def _last_of_others(context: Context, thread: I64, time_ns: I64, is_end: Bool, asks: I64) -> I64:
    """For each selected point, the last earlier end of a call of another thread of its process."""
    process = np.unique([each.pid for each in context.trace.threads], return_inverse=True)[1][thread]
    ends = np.flatnonzero(is_end)
    ends = ends[np.lexsort((time_ns[ends], process[ends]))]
    if not len(ends):
        return np.full(len(asks), NOTHING)
    span = int(time_ns.max() - time_ns.min()) + 2
    key = process[ends] * span + time_ns[ends] - time_ns.min()
    change = (thread[ends] != shifted(thread[ends], NOTHING)) | (process[ends] != shifted(process[ends], NOTHING))
    run_start = np.maximum.accumulate(np.where(change, np.arange(len(ends)), 0))
    last = np.searchsorted(key, process[asks] * span + time_ns[asks] - time_ns.min(), side="left") - 1
    own = (last >= 0) & (thread[ends[np.maximum(last, 0)]] == thread[asks])
    last = np.where(own, run_start[np.maximum(last, 0)] - 1, last)
    valid = (last >= 0) & (process[ends[np.maximum(last, 0)]] == process[asks])
    return np.where(valid, ends[np.maximum(last, 0)], NOTHING)
