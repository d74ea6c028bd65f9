"""How much of the idle time of a device would not be there if the host had never waited for the device?

A host that waits while the device works loses that time: without the wait, all that it launches later would be launched
earlier by as much. So waits give a credit, and gaps that ended with a late launch use it up in the order of time. What
is left at a gap is what the host would be ahead by.
"""

from __future__ import annotations

import numpy as np

from traceanalyzer.structure import busy_times, gap_causes, host_activity
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.divided_gaps import DividedGaps
from traceanalyzer.structure.gap_causes import CAUSES
from traceanalyzer.structure.host_activity import HostWaits
from traceanalyzer.structure.steps import Steps
from traceanalyzer.structure.sums import sum_by
from traceanalyzer.trace.distinct import is_among
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import F64, I64, Bool, entries

_OF_THE_DEVICE = (gap_causes.UNRECORDED, gap_causes.PENDING, gap_causes.DEVICE, gap_causes.UNKNOWN)
"""Causes of idle time that no earlier launch ends."""


def shares(context: Context, device: int, part: DividedGaps) -> F64:
    """For each part of a gap that the host caused, the share (0 to 1) that would disappear without waits."""
    length = part.gaps.length - sum(part.of_cause(cause) for cause in _OF_THE_DEVICE)
    credit = _lost(context, device).within(np.zeros(len(length), np.int64), part.gaps.end_ns)
    balance = credit - np.cumsum(length)
    left = balance - np.minimum(0, np.minimum.accumulate(balance)) if len(balance) else balance
    before = np.append(0, left)[: len(left)] + np.diff(credit, prepend=0)
    explained: F64 = (before - left) / np.maximum(length, 1)
    return explained


def by_cause(part: DividedGaps, share: F64, parts: Bool) -> I64:
    """That time of some of the parts by cause in ns, shape (causes,)."""
    chosen = parts[part.part] & ~np.isin(part.cause, _OF_THE_DEVICE)
    time = np.rint(part.time_ns[chosen] * share[part.part[chosen]]).astype(np.int64)
    return sum_by(part.cause[chosen], time, len(CAUSES))


def count(context: Context, steps: Steps, chosen: Bool) -> int:
    """How many waits of threads that launch begin in the chosen steps."""
    waits = context.once(_of_launching_threads)
    return int(entries(chosen, steps.at(waits.start_ns), False).sum())


def _lost(context: Context, device: int) -> Intervals:
    """When threads that launch work wait while the device works."""
    waits = context.once(_of_launching_threads)
    return Intervals.union(waits.start_ns, waits.end_ns) & busy_times.of_device(context, device)


def _of_launching_threads(context: Context) -> HostWaits:
    waits = context.once(host_activity.waits)
    return waits.take(np.flatnonzero(is_among(waits.thread, host_activity.launching_threads(context))))
