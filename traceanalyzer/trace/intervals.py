"""Sets of half-open intervals [start, end) of integer nanoseconds; all interval algebra is here."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traceanalyzer.trace.table import I64

_ONLY_FIRST, _BOTH = 1, 3


@dataclass(frozen=True)
class Intervals:
    """A set of times as disjoint intervals in ascending order that do not even touch."""

    start: I64
    end: I64

    @classmethod
    def none(cls) -> Intervals:
        """The set that holds no time."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64))

    @classmethod
    def union(cls, start: I64, end: I64) -> Intervals:
        """The union of any intervals, in any order; those without length vanish, touching ones join."""
        filled = end > start
        if not filled.all():
            start, end = start[filled], end[filled]
        if not len(start):
            return cls.none()
        if not (start[1:] >= start[:-1]).all():
            order = np.argsort(start, kind="stable")
            start, end = start[order], end[order]
        reach = np.maximum.accumulate(end)
        opens = np.flatnonzero(start[1:] > reach[:-1]) + 1
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
        return self._combine(other, _BOTH)

    def __sub__(self, other: Intervals) -> Intervals:
        return self._combine(other, _ONLY_FIRST)

    def _combine(self, other: Intervals, wanted: int) -> Intervals:
        """The times that are in this set (counts 1) and the other (counts 2) as `wanted` says."""
        if not self or not other:
            return self if wanted == _ONLY_FIRST else Intervals.none()
        times = np.concatenate((self.start, self.end, other.start, other.end))
        change = np.repeat(np.array([1, -1, 2, -2], np.int8), [len(self), len(self), len(other), len(other)])
        order = np.argsort(times, kind="stable")
        times, inside = times[order], np.cumsum(change[order], dtype=np.int8)
        rows = np.flatnonzero((inside[:-1] == wanted) & (times[1:] > times[:-1]))
        return Intervals.union(times[rows], times[rows + 1])

    def clip(self, start: int, end: int) -> Intervals:
        """The part within one interval."""
        return self & Intervals.union(np.array([start]), np.array([end]))

    def within(self, start: I64, end: I64) -> I64:
        """For each of the given intervals, how much time of this set lies in it, in nanoseconds."""
        if not self:
            return np.zeros(len(start), np.int64)
        passed = np.concatenate(([0], np.cumsum(self.end - self.start)))
        return self._passed(passed, np.maximum(end, start)) - self._passed(passed, start)

    def _passed(self, passed: I64, times: I64) -> I64:
        """Time of this set before each of the given times."""
        row = np.searchsorted(self.start, times, side="right")
        open_part = np.where(row > 0, np.minimum(times, self.end[row - 1]) - self.start[row - 1], 0)
        return passed[np.maximum(row - 1, 0)] + open_part
