"""Sets of half-open intervals [start, end) of integer nanoseconds; all interval algebra is here."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from traceanalyzer.trace.table import I64, U8, Bool

_ALWAYS = (-(2**62), 2**62)
"""Before and after all times of a trace."""
_MANY = 16
"""Times for each bound from which on it is worth seeing whether they ascend (own choice)."""


class Intervals(msgspec.Struct, frozen=True):
    """A set of times as disjoint intervals in ascending order that do not even touch."""

    start: I64
    end: I64

    @classmethod
    def none(cls) -> Intervals:
        """The empty set of intervals."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64))

    @classmethod
    def union(cls, start: I64, end: I64) -> Intervals:
        """The union of any intervals, in any order; those without length vanish, touching ones join."""
        if not (filled := end > start).all():
            rows = np.flatnonzero(filled)
            start, end = start[rows], end[rows]
        if not len(start):
            return cls.none()
        if not (start[1:] >= start[:-1]).all():
            order = np.argsort(start, kind="stable")
            start, end = start[order], end[order]
        reach = end if (end[1:] >= end[:-1]).all() else np.maximum.accumulate(end)
        opens = np.flatnonzero(start[1:] > reach[:-1]) + 1
        if len(opens) == len(start) - 1:
            return cls(start, end)
        return cls(start[np.append(0, opens)], reach[np.append(opens - 1, len(start) - 1)])

    def __len__(self) -> int:
        return len(self.start)

    def __bool__(self) -> bool:
        return len(self.start) > 0

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Intervals)
            and np.array_equal(self.start, other.start)
            and np.array_equal(self.end, other.end)
        )

    __hash__ = None  # type: ignore[assignment]  # arrays have no hash

    @property
    def length(self) -> int:
        """Total time in the set, in nanoseconds."""
        return int((self.end - self.start).sum())

    def __or__(self, other: Intervals) -> Intervals:
        return Intervals.union(np.concatenate((self.start, other.start)), np.concatenate((self.end, other.end)))

    def __and__(self, other: Intervals) -> Intervals:
        if not self or not other:
            return Intervals.none()
        return self._parts_in(other) if len(self) <= len(other) else other._parts_in(self)

    def __sub__(self, other: Intervals) -> Intervals:
        outside = Intervals(np.append(_ALWAYS[0], other.end), np.append(other.start, _ALWAYS[1]))
        return self & outside if other else self

    def _parts_in(self, others: Intervals) -> Intervals:
        """The parts that lie in some of many others: bounds of few are looked up faster than all are sorted."""
        first = np.searchsorted(others.end, self.start, side="right")
        count = np.searchsorted(others.start, self.end, side="left") - first
        rows = np.arange(len(self))
        if (count != 1).any():
            rows = np.repeat(rows, count)
            first = np.repeat(first - np.cumsum(count) + count, count) + np.arange(len(rows))
        low, high = (
            np.maximum(self.start[rows], others.start[first]),
            np.minimum(self.end[rows], others.end[first]),
        )
        return Intervals(low, high)

    def clip(self, start: int, end: int) -> Intervals:
        """The part within one interval."""
        return self & Intervals.union(np.array([start]), np.array([end]))

    def around(self, start: int, end: int) -> Intervals:
        """The intervals that overlap one interval, as they are."""
        rows = slice(np.searchsorted(self.end, start, side="right"), np.searchsorted(self.start, end))
        return Intervals(self.start[rows], self.end[rows])

    def contains(self, times: I64) -> Bool:
        """Which points in time lie in the set."""
        row = _passed(self.start, times) - 1
        return (row >= 0) & (times < np.append(self.end, 0)[row])

    def meets(self, start: I64, end: I64) -> Bool:
        """Which of some intervals overlap the set."""
        following = np.append(self.start, _ALWAYS[1])[_passed(self.end, start)]
        return (following < end) & (start < end)

    def within(self, start: I64, end: I64) -> I64:
        """For each of the given intervals, how much time of this set lies in it, in nanoseconds."""
        passed = self._passed_before()
        return self.before(np.maximum(end, start), passed) - self.before(start, passed)

    def before(self, times: I64, passed: I64 | None = None) -> I64:
        """How much time of this set lies before each of the given times, in nanoseconds.

        Args:
            times: Points in time.
            passed: How much of it lies before each of its intervals, where that is known already.
        """
        if not self:
            return np.zeros(len(times), np.int64)
        if len(self) == 1:
            time: I64 = np.clip(times, self.start[0], self.end[0]) - self.start[0]
            return time
        row = np.maximum(_passed(self.start, times) - 1, 0)
        time = np.minimum(times, self.end.take(row)) - self.start.take(row)
        np.maximum(time, 0, out=time)  # before the first interval
        return time + (self._passed_before() if passed is None else passed).take(row)

    def _passed_before(self) -> I64:
        return np.concatenate(([0], np.cumsum(self.end[:-1] - self.start[:-1])))


def _passed(bounds: I64, times: I64) -> I64:
    """How many ascending bounds each time has reached. Where times ascend, few bounds are looked up among them."""
    if len(times) > _MANY * len(bounds) and (times[1:] >= times[:-1]).all():
        return np.cumsum(np.bincount(np.searchsorted(times, bounds), minlength=len(times))[: len(times)])
    return np.searchsorted(bounds, times, side="right")


_BEGINNING = -(2**62)
"""Before every event: 146 years in nanoseconds."""


class LabelledTime(msgspec.Struct, frozen=True):
    """Time cut into segments, each with the label of the first set that contains it."""

    times: I64
    """Starts of the segments, ascending; the last segment has no end."""
    label: U8
    """Label of each segment; `unlabelled` where no set contains it."""
    unlabelled: int

    @classmethod
    def build(cls, sets: Sequence[tuple[int, Intervals]], unlabelled: int) -> LabelledTime:
        """Label all times.

        Args:
            sets: Labels and the times at which they apply, the one that wins first; at most 16, labels may repeat.
            unlabelled: The label of times in no set.
        """
        used = [(label, times) for label, times in sets if times]
        # Each start of an interval adds the bit of its set to the sets that contain a time, each end subtracts it.
        times = [np.array([_BEGINNING])]
        change = [np.array([0], np.int32)]
        for bit, (_, interval) in enumerate(used):
            times += [interval.start, interval.end]
            change += [np.full(len(interval), sign << bit, np.int32) for sign in (1, -1)]
        moments = np.concatenate(times)
        order = np.argsort(moments, kind="stable")
        # Sets are disjoint intervals, so a sum of powers of two is the set of the sets that contain a time.
        inside = np.cumsum(np.concatenate(change).take(order), dtype=np.intp)
        moments = moments.take(order)
        winner = _winners([label for label, _ in used], unlabelled).take(inside)
        # Of several changes at one time only the last counts; then neighbours of one label become one segment.
        last_at_time = np.flatnonzero(np.append(moments[1:] > moments[:-1], True))
        winner = winner.take(last_at_time)
        changes = np.flatnonzero(np.append(True, winner[1:] != winner[:-1]))
        return cls(moments.take(last_at_time.take(changes)), winner.take(changes), unlabelled)

    def within(self, start: I64, end: I64, labels: Sequence[int]) -> list[I64]:
        """How much time each interval has of each label, in nanoseconds; intervals with end < start have none."""
        end = np.maximum(start, end)
        first = np.searchsorted(self.times, start, side="right") - 1
        last = np.searchsorted(self.times, end, side="right") - 1
        if not len(start):
            return [np.zeros(0, np.int64) for _ in labels]
        # Only the segments that the intervals reach are summed up, so that many calls on parts stay linear.
        low, high = int(first.min()), int(last.max()) + 1
        first, last, times = first - low, last - low, self.times[low:high]
        length = np.diff(times)
        before = start - times[first]  # from the start of an interval's first segment to its own
        after = end - times[last]  # from the start of its last segment to its end

        def within(label: int) -> I64:
            counts = self.label[low:high] == label
            if not counts.any():
                return np.zeros(len(start), np.int64)
            passed = np.zeros(len(times), np.int64)
            np.cumsum(length * counts[:-1], out=passed[1:])
            time: I64 = passed[last] + after * counts[last] - passed[first] - before * counts[first]
            return time

        return [within(label) for label in labels]

    def segments(self, start: int, end: int) -> tuple[I64, I64, U8]:
        """Starts, ends and labels of the segments within an interval."""
        first = int(np.searchsorted(self.times, start, side="right")) - 1
        last = int(np.searchsorted(self.times, end, side="left"))
        begins = np.maximum(self.times[first:last], start)
        return begins, np.append(begins[1:], end), self.label[first:last]


def _winners(labels: list[int], unlabelled: int) -> U8:
    """For each set of sets, as a sum of powers of two, the label of the first of them."""
    masks = np.arange(1 << len(labels))
    winners = np.full(len(masks), unlabelled, np.uint8)
    for bit in range(len(labels) - 1, -1, -1):
        winners[(masks >> bit) & 1 == 1] = labels[bit]
    return winners
