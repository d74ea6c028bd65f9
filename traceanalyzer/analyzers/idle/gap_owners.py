"""Which owners use the host in gaps in which it does something other than launching?"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.knowledge.host_roles import BUFFERS, INPUTS
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.gaps import Gaps
from traceanalyzer.structure.owners import OwnerIndex, owner_index
from traceanalyzer.structure.owners.labels import Owner
from traceanalyzer.trace.distinct import moments
from traceanalyzer.trace.table import F64, I64, Bool
from traceanalyzer.trace.tree import NO_PARENT

OF_OTHER_RULES = frozenset({*INPUTS, BUFFERS})
"""Roles of work that are separate causes of idle time."""


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


def divide(context: Context, gaps: Gaps, time: I64) -> OwnedGaps:
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
