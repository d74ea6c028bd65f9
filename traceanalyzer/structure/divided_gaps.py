"""The gaps of a device cut at steps, with their causes: found once for all that is asked about the same steps.

A gap has few of the many causes, so times are kept as entries: a part of a gap, a cause, and the time that it has.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.structure import gap_causes, gaps
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.gap_causes import CAUSES, GAPS_AT_ONCE
from traceanalyzer.structure.gaps import Gaps
from traceanalyzer.structure.steps import Steps
from traceanalyzer.structure.sums import sum_by
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.table import I64, U8, Bool

BETWEEN = -1
"""Number of the step for time between two steps."""


class DividedGaps(msgspec.Struct, frozen=True):
    """Parts of the gaps of a device, in the order of time, and the causes of each."""

    gaps: Gaps
    step: I64
    """For each part the position of its step, or `BETWEEN`."""
    by_host: I64
    """Time of each part in ns in which the host did something else than wait, also where a wait had emptied the queue;
    to launch counts as well."""
    python: I64
    """Part of the time in ns outside of operators and calls."""
    part: I64
    """For each entry the position of its part, ascending; times that follow a wait count as part of the wait."""
    cause: U8
    """For each entry the position of its cause in `CAUSES`."""
    time_ns: I64
    """For each entry the time in ns; more than 0."""

    def in_steps(self) -> DividedGaps:
        """Without the parts between steps."""
        kept = self.step != BETWEEN
        if kept.all():
            return self
        entry, position = kept[self.part], np.cumsum(kept) - 1
        return DividedGaps(
            self.gaps.take(kept),
            self.step[kept],
            self.by_host[kept],
            self.python[kept],
            position[self.part[entry]],
            self.cause[entry],
            self.time_ns[entry],
        )

    def by_cause(self, parts: Bool) -> I64:
        """The time of some of the parts by cause in ns, shape (causes,)."""
        chosen = parts[self.part]
        return sum_by(self.cause[chosen], self.time_ns[chosen], len(CAUSES))

    def of_cause(self, cause: int) -> I64:
        """The time in ns that each part has of one cause."""
        rows = self.cause == cause
        found = np.zeros(len(self.gaps), np.int64)
        found[self.part[rows]] = self.time_ns[rows]
        return found

    def gaps_by_cause(self) -> I64:
        """How many whole gaps have some time of each cause, shape (causes,)."""
        begins = np.append(True, np.diff(self.gaps.whole_start_ns) != 0)[: len(self.gaps)]
        gap = np.cumsum(begins)[self.part]
        found: I64 = np.bincount(distinct(gap * len(CAUSES) + self.cause) % len(CAUSES), minlength=len(CAUSES))
        return found


def divide(context: Context, device: int, steps: Steps) -> DividedGaps:
    """The gaps of a device from the first to the last step, cut at the bounds of the steps.

    Args:
        context: The trace.
        device: Number of the device.
        steps: Steps in the order of time. Where one overlaps the next, there are no parts between steps.
    """
    known = context.once(_known)
    key = (device, steps.start_ns.tobytes(), steps.end_ns.tobytes())
    if key not in known:
        known[key] = _cut(context, device, steps)
    return known[key]


def are_disjoint(steps: Steps) -> bool:
    """Whether no step overlaps the next."""
    return bool((steps.start_ns[1:] >= steps.end_ns[:-1]).all() and (steps.end_ns >= steps.start_ns).all())


def release(context: Context) -> None:
    """Free the divided gaps when they are no longer needed."""
    context.release(_known)


def _known(_: Context) -> dict[tuple[int, bytes, bytes], DividedGaps]:
    """Results that were requested so far."""
    return {}


def _cut(context: Context, device: int, steps: Steps) -> DividedGaps:
    window = int(steps.start_ns[0]), int(steps.end_ns[-1])
    found = gaps.of_device(context, device, window)
    if are_disjoint(steps):
        bounds = np.column_stack((steps.start_ns, steps.end_ns)).ravel()
        pieces, place = found.cut(bounds[:-1], bounds[1:])
        step = np.where(place % 2, BETWEEN, place // 2)
    else:
        pieces, step = found.cut(steps.start_ns, steps.end_ns)
    by_host, python = np.empty(len(pieces), np.int64), np.empty(len(pieces), np.int64)
    part, cause, time = [np.empty(0, np.int64)], [np.empty(0, np.uint8)], [np.empty(0, np.int64)]
    for first in range(0, len(pieces), GAPS_AT_ONCE):
        rows = slice(first, first + GAPS_AT_ONCE)
        plain = gap_causes.attribute(context, pieces.take(rows), blame_waits=False)
        python[rows] = plain[:, gap_causes.HOST]
        by_host[rows] = plain[:, gap_causes.LAUNCH] + python[rows]
        times = gap_causes.blamed(context, pieces.take(rows), plain)
        own, of = np.nonzero(times)
        part.append(own + first)
        cause.append(of.astype(np.uint8))
        time.append(times[own, of])
    joined = np.concatenate(part), np.concatenate(cause), np.concatenate(time)
    return DividedGaps(pieces, step, by_host, python, *joined)
