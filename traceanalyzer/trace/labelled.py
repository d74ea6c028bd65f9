"""Labels times: each time gets the label of the first of several sets, in order, that contains it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, U8

_BEGINNING = -(2**62)
"""Before every event: 146 years in nanoseconds."""


@dataclass(frozen=True)
class LabelledTime:
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
        times, change = [np.array([_BEGINNING])], [np.array([0], np.int32)]
        for bit, (_, interval) in enumerate(used):
            times += [interval.start, interval.end]
            change += [np.full(len(interval), sign << bit, np.int32) for sign in (1, -1)]
        moments = np.concatenate(times)
        order = np.argsort(moments, kind="stable")
        # Sets are disjoint intervals, so a sum of powers of two is the set of the sets that contain a time.
        inside = np.cumsum(np.concatenate(change)[order], dtype=np.int32)
        moments = moments[order]
        winner = _winners([label for label, _ in used], unlabelled)[inside]
        last_at_time = np.append(moments[1:] > moments[:-1], True)
        moments, winner = moments[last_at_time], winner[last_at_time]
        changes = np.append(True, winner[1:] != winner[:-1])
        return cls(moments[changes], winner[changes], unlabelled)

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
        before, after, length = start - times[first], end - times[last], np.diff(times)

        def within(label: int) -> I64:
            counts = self.label[low:high] == label
            passed = np.append(0, np.cumsum(length * counts[:-1]))
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
