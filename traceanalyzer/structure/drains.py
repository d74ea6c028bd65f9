"""Which wait of the host emptied the queue of a device before a gap?"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.structure import host_activity
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.gaps import NOTHING, Gaps
from traceanalyzer.trace.distinct import is_among, moments
from traceanalyzer.trace.table import I64, Bool, entries
from traceanalyzer.trace.tree import NO_PARENT


def drained_by(context: Context, gaps: Gaps) -> tuple[I64, Bool]:
    """The wait that was open when each gap began and therefore emptied the queue.

    Returns:
        The row of its call in the launch table (-1 if there is none), and whether it frees memory.
    """
    drains = context.once(_drains)
    before = np.searchsorted(drains.start_ns, gaps.whole_start_ns, side="left") - 1
    reach = np.maximum.accumulate(np.append(drains.end_ns, -1)) if len(drains.row) else np.array([-1])
    between = gaps.has_previous & (gaps.next != NOTHING)
    found = between & (before >= 0) & (reach[np.maximum(before, 0)] >= gaps.whole_start_ns)
    by = np.full(len(gaps), NO_PARENT, np.int64)
    by[found] = drains.row[drains.longest[before[found]]]
    return by, entries(context.once(_frees), by, False)


class _Drains(msgspec.Struct, frozen=True):
    """Calls of launching threads that wait until the device is done, in the order of their start."""

    row: I64
    start_ns: I64
    end_ns: I64
    longest: I64
    """For each position, the one of the calls up to there that ends last."""


def _drains(context: Context) -> _Drains:
    waits, launches = context.once(host_activity.waits), context.trace.launches
    rows = moments(waits.row, np.flatnonzero(context.once(_frees)))
    rows = rows[is_among(launches.thread[rows], host_activity.launching_threads(context))]
    start = launches.start_ns[rows]
    end = start + launches.dur_ns[rows]
    reach = np.maximum.accumulate(end)
    opens = np.append(True, reach[1:] > reach[:-1])[: len(rows)]
    longest = np.maximum.accumulate(np.where(opens, np.arange(len(rows)), 0))
    return _Drains(rows, start, end, longest)


def _frees(context: Context) -> Bool:
    return context.trace.names.where(host_activity.is_free)[context.trace.launches.name]
