"""Idle time of a device by cause: in gaps cut at steps, and in gaps that an earlier launch would end earlier.

The gaps of a device are cut once for all that is asked about the same steps. A gap has few of the many causes, so times
are kept as entries: a part of a gap, a cause, and the time that it has.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import msgspec
import numpy as np

from traceanalyzer.structure import gap_causes, gaps, host_activity
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.gap_causes import CAUSES, GAPS_AT_ONCE
from traceanalyzer.structure.gaps import Gaps
from traceanalyzer.structure.steps import Steps
from traceanalyzer.structure.sums import sum_by
from traceanalyzer.trace.distinct import distinct, ranked
from traceanalyzer.trace.table import I64, U8, UNKNOWN, Bool, take_or
from traceanalyzer.trace.tree import NO_PARENT

BETWEEN = -1
"""Number of the step for time between two steps."""


class DividedGaps(msgspec.Struct, frozen=True, dict=True):
    """Parts of the gaps of a device, in the order of time, and the causes of each."""

    gaps: Gaps
    step: I64
    """For each part the position of its step, or `BETWEEN`."""
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

    def spans(self, parts: Bool, causes: Iterable[int]) -> tuple[I64, I64]:
        """Start and end of the time of some causes in some of the parts; within a part, causes follow each other."""
        start, end, cause = self.pieces
        rows = parts[self.part] & np.isin(cause, list(causes))
        return start[rows], end[rows]

    @cached_property
    def pieces(self) -> tuple[I64, I64, U8]:
        """Start, end and cause of each entry, in the order of time."""
        before = np.cumsum(self.time_ns) - self.time_ns
        opens = np.append(True, self.part[1:] != self.part[:-1])[: len(self.part)]
        first = np.maximum.accumulate(np.where(opens, np.arange(len(opens)), 0))
        start = self.gaps.start_ns[self.part] + before - before[first]
        return start, start + self.time_ns, self.cause

    def gaps_by_cause(self) -> I64:
        """How many whole gaps have some time of each cause, shape (causes,)."""
        begins = np.append(True, np.diff(self.gaps.whole_start_ns) != 0)[: len(self.gaps)]
        gap = np.cumsum(begins)[self.part]
        return np.bincount(distinct(gap * len(CAUSES) + self.cause) % len(CAUSES), minlength=len(CAUSES))


def divide(context: Context, device: int, steps: Steps) -> DividedGaps:
    """The gaps of a device from the first to the last step, cut at the bounds of the steps.

    Args:
        context: The trace.
        device: Number of the device.
        steps: Steps in the order of time. Where one overlaps the next, there are no parts between steps.
    """
    known = context.cached(_known)
    key = (device, steps.start_ns.tobytes(), steps.end_ns.tobytes())
    if key not in known:
        known[key] = _cut(context, device, steps)
    return known[key]


def are_disjoint(steps: Steps) -> bool:
    """Whether no step overlaps the next."""
    return bool((steps.start_ns[1:] >= steps.end_ns[:-1]).all() and (steps.end_ns >= steps.start_ns).all())


def _known(_: Context) -> dict[tuple[int, bytes, bytes], DividedGaps]:
    """Results that were requested so far."""
    return {}


def _cut(context: Context, device: int, steps: Steps) -> DividedGaps:
    window = int(steps.start_ns[0]), int(steps.end_ns[-1])
    whole = gaps.of_device(context, device, window)
    if are_disjoint(steps):
        # each step and each time between two steps
        bounds = np.column_stack((steps.start_ns, steps.end_ns)).ravel()
        pieces, interval = whole.cut(bounds[:-1], bounds[1:])
        step = np.where(interval % 2, BETWEEN, interval // 2)
    else:
        pieces, step = whole.cut(steps.start_ns, steps.end_ns)
    return DividedGaps(pieces, step, *_by_cause(context, pieces))


def _by_cause(context: Context, pieces: gaps.Gaps) -> tuple[I64, U8, I64]:
    """The parts of gaps that have one cause: the position of the gap, the cause, and the time in ns."""
    earlier = gap_causes.earlier_work(context, pieces)
    only = gap_causes.of_queued(context, pieces, earlier)
    queued = only >= 0
    positions = [np.flatnonzero(queued)]
    causes = [only[queued].astype(np.uint8)]
    times = [pieces.length[queued]]
    others = np.flatnonzero(~queued)
    for first in range(0, len(others), GAPS_AT_ONCE):
        rows = others[first : first + GAPS_AT_ONCE]
        by_cause = gap_causes.attribute(context, pieces.take(rows), earlier)
        gap, cause = np.nonzero(by_cause)
        positions.append(rows[gap])
        causes.append(cause.astype(np.uint8))
        times.append(by_cause[gap, cause])
    position = np.concatenate(positions)
    order = np.argsort(position, kind="stable")
    return position[order], np.concatenate(causes)[order], np.concatenate(times)[order]


class IdleTime(msgspec.Struct, frozen=True):
    """Idle time of a device that has one cause."""

    cause: str
    """Id of the cause, one of those of the analysis `idle`."""
    time_ns: int
    """Idle time of that cause in ns."""


class Starvation(msgspec.Struct, frozen=True):
    """Gaps of the busiest device that ended late, because the host had not launched the next work."""

    start_ns: I64
    end_ns: I64
    launch: I64
    """Row of the launch that ended each gap."""
    by_cause: I64
    """Time of each gap by cause, one row per gap and one column per cause."""


def starvation(context: Context) -> Starvation:
    """Find these gaps within the steps; none without steps or launches."""
    device, window = context.trace.device, context.steps.window
    numbers, rank = ranked(device.device[device.device != UNKNOWN])
    if window is None or not len(numbers):
        none = np.empty(0, np.int64)
        return Starvation(none, none, none, np.empty((0, len(CAUSES)), np.int64))
    found = gaps.of_device(context, int(numbers[np.bincount(rank).argmax()]), window)
    late = found.take(gap_causes.fed_late(context, found) & (found.launch != NO_PARENT))
    return Starvation(late.start_ns, late.end_ns, late.launch, gap_causes.attribute(context, late))


def ended_earlier(context: Context, start_ns: I64, end_ns: I64, less_ns: I64) -> I64:
    """How much idle time of each cause disappears if host ranges take less time.

    Only gaps of `starvation` count that end with a launch after the start of the range and before the host next waits
    for the device, because a host that reaches this wait earlier only waits longer. Until then, each launch comes
    earlier, and the gaps that waited for launches become shorter: the first ones by all of the saved time, until it is
    used up.

    Returns:
        One row per range, one column per cause.
    """
    found, waits = context.cached(starvation), context.cached(host_activity.waits).start_ns
    if not len(found.start_ns):
        return np.zeros((len(start_ns), len(CAUSES)), np.int64)
    until = take_or(waits, np.searchsorted(waits, end_ns), np.iinfo(np.int64).max)
    launched = np.maximum.accumulate(context.trace.launches.start_ns[found.launch])  # streams may overtake each other
    first = np.searchsorted(launched, start_ns)
    last = np.maximum(np.searchsorted(found.start_ns, until), first)
    passed = np.concatenate(([0], np.cumsum(found.end_ns - found.start_ns)))
    before = np.maximum(start_ns - take_or(found.start_ns, first, 0), 0)  # of a gap that was open already
    begin = passed[first] + np.where(last > first, before, 0)
    end = np.maximum(np.minimum(passed[last], begin + less_ns), begin)
    return _passed(found, passed, end) - _passed(found, passed, begin)


def _passed(found: Starvation, passed: I64, time: I64) -> I64:
    """Time of each cause in the gaps up to a time that counts within gaps only; within a gap causes mix evenly."""
    gap = np.clip(np.searchsorted(passed, time, side="right") - 1, 0, len(found.start_ns) - 1)
    sums = np.concatenate((np.zeros((1, len(CAUSES)), np.int64), np.cumsum(found.by_cause, axis=0)))
    part = (time - passed[gap]) / (passed[gap + 1] - passed[gap])
    until = np.rint(np.cumsum(found.by_cause[gap], axis=1) * part[:, None]).astype(np.int64)  # rounded as a whole
    return sums[gap] + np.diff(until, axis=1, prepend=0)


def summed(times: I64) -> tuple[IdleTime, ...]:
    """Sum the rows of `ended_earlier` by cause; causes without time are left out."""
    total = times.sum(axis=0).tolist()
    return tuple(IdleTime(cause, time) for cause, time in zip(CAUSES, total, strict=True) if time)
