"""Whose are the gaps in which the host does not launch, and which would not be there if it had never waited?

A host that waits while the device works loses that time: without the wait, all that it launches later would be launched
earlier by as much. So waits give a credit, and gaps that ended with a late launch use it up in the order of time. What
is left at a gap is what the host would be ahead by.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.knowledge.host_roles import BUFFERS, INPUTS
from traceanalyzer.structure import gap_causes, gaps, host_activity
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.gap_causes import CAUSES
from traceanalyzer.structure.gaps import Gaps
from traceanalyzer.structure.host_activity import HostWaits
from traceanalyzer.structure.idle_times import DividedGaps
from traceanalyzer.structure.owners import Owner, OwnerIndex, owner_index
from traceanalyzer.structure.steps import Steps
from traceanalyzer.structure.sums import sum_by
from traceanalyzer.trace.distinct import is_among, moments
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import F64, I64, Bool, entries
from traceanalyzer.trace.tree import NO_PARENT

OF_OTHER_RULES = frozenset({*INPUTS, BUFFERS})
"""Roles of work that are separate causes of idle time."""
_OF_THE_DEVICE = (gap_causes.UNRECORDED, gap_causes.PENDING, gap_causes.DEVICE, gap_causes.UNKNOWN)
"""Causes of idle time that no earlier launch ends."""


class OwnedGaps(msgspec.Struct, frozen=True):
    """Parts of gaps by owner; times in ns."""

    index: OwnerIndex
    gap: I64
    """Position of the gap of each part."""
    owner: I64
    """Number of the owner of each part, -1 for none."""
    time: F64
    """Time of each part: its share of what the host took in the gap."""
    start_ns: I64
    """Start of the gap of each part."""
    gaps: int

    @property
    def steps(self) -> int:
        """Number of steps that have owners."""
        return self.index.critical.steps

    @property
    def known(self) -> I64:
        """Time of each gap that has an owner."""
        return self._sum(self.owner != NO_PARENT)

    @property
    def elsewhere(self) -> I64:
        """Time of each gap whose owner has a role that is a separate cause."""
        roles = np.array([own.role in OF_OTHER_RULES for own in self.index.owners] + [False])
        return self._sum(roles[self.owner])

    def largest(self, chosen: Bool, count: int) -> list[tuple[Owner, int, int]]:
        """Owners of the chosen gaps with their time and the start of their longest part, the most time first."""
        rows = np.flatnonzero(chosen[self.gap] & (self.owner != NO_PARENT) & (self.time >= 1))
        owner = self.owner[rows]
        total = np.bincount(owner, weights=self.time[rows], minlength=len(self.index.owners))
        longest = rows[np.lexsort((self.start_ns[rows], -self.time[rows], owner))]
        first = dict(zip(self.owner[longest][::-1].tolist(), self.start_ns[longest][::-1].tolist(), strict=True))
        order = np.lexsort((np.arange(len(total)), -total))[:count].tolist()
        return [(self.index.owners[number], round(total[number]), first[number]) for number in order if number in first]

    def _sum(self, rows: Bool) -> I64:
        found: I64 = np.bincount(self.gap[rows], weights=self.time[rows], minlength=self.gaps).astype(np.int64)
        return found


def by_owner(context: Context, gaps: Gaps, time: I64) -> OwnedGaps:
    """Divide the time of gaps among the owners of the critical thread.

    Args:
        context: The trace.
        gaps: Gaps of one device, in the order of time.
        time: What the host took of each gap in ns; gaps of 0 are left out.
    """
    index = context.once(owner_index)
    segments = index.timeline
    rows = np.flatnonzero(time > 0)
    start, end = gaps.start_ns[rows], gaps.end_ns[rows]
    bounds = moments(start, end, segments.start_ns, segments.end_ns)
    low, high = bounds[:-1], bounds[1:]
    gap, segment = _around(start, end, low), _around(segments.start_ns, segments.end_ns, low)
    both = np.flatnonzero((gap != NO_PARENT) & (segment != NO_PARENT))
    length = (high - low)[both]
    gap = rows[gap[both]]
    part = (length * (time[gap] / (gaps.end_ns - gaps.start_ns)[gap])).astype(np.float64)
    return OwnedGaps(index, gap, segments.owner[segment[both]], part, gaps.start_ns[gap], len(time))


def _around(start: I64, end: I64, moments: I64) -> I64:
    """The interval around each moment, -1 for none; intervals are disjoint and in the order of time."""
    found = np.searchsorted(start, moments, side="right") - 1
    inside = found >= 0
    inside[inside] = end[found[inside]] > moments[inside]
    result: I64 = np.where(inside, found, NO_PARENT)
    return result


def shares_after_waits(context: Context, device: int, part: DividedGaps) -> F64:
    """For each part of a gap that the host caused, the share (0 to 1) that would disappear without waits."""
    length = part.gaps.length - sum(part.of_cause(cause) for cause in _OF_THE_DEVICE)
    credit = _lost(context, device).within(np.zeros(len(length), np.int64), part.gaps.end_ns)
    balance = credit - np.cumsum(length)
    left = balance - np.minimum(0, np.minimum.accumulate(balance)) if len(balance) else balance
    before = np.append(0, left)[: len(left)] + np.diff(credit, prepend=0)
    explained: F64 = (before - left) / np.maximum(length, 1)
    return explained


def after_waits_by_cause(part: DividedGaps, share: F64, parts: Bool) -> I64:
    """That time of some of the parts by cause in ns, shape (causes,)."""
    chosen = parts[part.part] & ~np.isin(part.cause, _OF_THE_DEVICE)
    time = np.rint(part.time_ns[chosen] * share[part.part[chosen]]).astype(np.int64)
    return sum_by(part.cause[chosen], time, len(CAUSES))


def count_waits(context: Context, steps: Steps, chosen: Bool) -> int:
    """How many waits of threads that launch begin in the chosen steps."""
    waits = context.once(_of_launching_threads)
    return int(entries(chosen, steps.at(waits.start_ns), False).sum())


def _lost(context: Context, device: int) -> Intervals:
    """When threads that launch work wait while the device works."""
    waits = context.once(_of_launching_threads)
    return Intervals.union(waits.start_ns, waits.end_ns) & gaps.busy(context, device)


def _of_launching_threads(context: Context) -> HostWaits:
    waits = context.once(host_activity.waits)
    return waits.take(np.flatnonzero(is_among(waits.thread, host_activity.launching_threads(context))))
