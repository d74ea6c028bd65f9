"""Nesting of slices by containment, per thread, without a loop over slices, levels or threads.

Slices of a thread are sorted by (start, longest first); then a slice's depth is the number of slices that
started before it and have not ended, its parent is the last slice before it that is one less deep, and its
descendants follow it directly. Threads are laid one after another on one clock, so that all are nested at once.
"""

from __future__ import annotations

from itertools import pairwise

import msgspec
import numpy as np

from traceanalyzer.trace.distinct import ascending, distinct, stable_order
from traceanalyzer.trace.table import I32, I64, Array, Bool, take_or

NO_PARENT = -1

_AT_ONCE = 1 << 15
"""Number of points in time that are looked up together (own choice: intermediate results fit the processor's cache)."""
_FEW = 8
"""Slices for each marked one from which on it is faster to nest the marked ones (measured)."""

_STEPS_UP = 16
"""Parents that are tried one after another before all levels are searched at once (own choice: most slices that have
ended lie a few levels below one that has not)."""


class Tree(msgspec.Struct, frozen=True):
    """Nested slices. All arrays are in the order of the tree: by thread, then parents before children."""

    start_ns: I64
    end_ns: I64
    """End of each slice, clipped to the parent's."""
    depth: I32
    parent: I32
    """Position of the parent in the tree, or -1."""
    after: I32
    """Position after the last descendant: the slices of a subtree are `position:after[position]`."""
    clipped: int
    """Number of slices that started inside another and ended after it; they end where their parent ends."""
    threads: dict[int, slice]
    """Positions of the slices of each thread."""
    clock: _Clock
    """A clock on which threads follow each other."""
    begins: I64
    """Start of each slice on this clock."""

    @classmethod
    def build(cls, thread: I32, start_ns: I64, dur_ns: I64) -> tuple[Tree, I64]:
        """Nest slices, given in the order of their start.

        Returns:
            The tree, and the row of the input at each of its positions.
        """
        if not len(start_ns):
            return cls._empty(), np.empty(0, np.int64)
        rows = stable_order(thread)
        start, thread, end = start_ns[rows], thread[rows], start_ns + dur_ns
        del start_ns, dur_ns  # columns of a large trace fill memory; the caller may need these no longer
        _longest_first(rows, thread, start, end)
        end, threads = end[rows], _slices_by_thread(thread)
        del thread
        clock = _Clock.of(start, end)
        begins, ends = _on_clock(clock, threads, start, end)
        after, depth, parent = _nest(begins, ends)
        clipped = 0
        if (ends > take_or(ends, parent, np.iinfo(np.int64).max)).any():
            limit = _limits(begins, ends)
            clipped = int((end[limit] < end).sum())
            end = end[limit]
            after, depth, parent = _nest(begins, ends[limit])
        return cls(start, end, depth, parent, after, clipped, threads, clock, begins), rows

    @classmethod
    def _empty(cls) -> Tree:
        """The tree of no slices."""
        times = np.empty(0, np.int64)
        positions = np.empty(0, np.int32)
        return cls(times, times, positions, positions, positions, 0, {}, _Clock.of(times, times), times)

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def thread(self) -> I32:
        """The thread of each slice."""
        return np.repeat(
            np.array([*self.threads], np.int32),
            [part.stop - part.start for part in self.threads.values()],
        )

    @property
    def dur_ns(self) -> I64:
        """Duration of each slice, until its clipped end."""
        return self.end_ns - self.start_ns

    def innermost(self, thread: I32, times: I64) -> I64:
        """For each point in time, the innermost slice of its thread with start <= time < end.

        Returns:
            Positions in the tree, or -1 where no slice is open.
        """
        if not len(self) or not len(times):
            return np.full(len(times), NO_PARENT, np.int64)
        rank_of = np.full(2 + max([*self.threads, int(thread.max(initial=0))]), NO_PARENT)  # the last is for -1
        rank_of[[*self.threads]] = np.arange(len(self.threads))
        found = np.empty(len(times), np.int64)
        rest = [np.empty(0, np.int64)]
        for first in range(0, len(times), _AT_ONCE):
            rows = slice(first, first + _AT_ONCE)
            closed = self._open_nearby(rank_of[thread[rows]], times[rows], found[rows])
            if len(closed):
                rest.append(closed + first)
        deep = np.concatenate(rest)
        if len(deep):
            ends = self.clock.at(_ranks(self.threads), self.end_ns)
            at = self.clock.at(rank_of[thread[deep]], times[deep])
            found[deep] = _innermost(self.begins, ends, self.depth, at)
        return found

    def _open_nearby(self, rank: I64, times: I64, found: I64) -> I64:
        """Write positions for some points, given with the ranks of their threads; the rows for which more is to do."""
        # the last that has started is it, or one around it is
        found[:] = np.searchsorted(self.begins, self.clock.at(rank, times), side="right") - 1
        found[(rank == NO_PARENT) | (take_or(self.begins, found, NO_PARENT) < self.clock.start_of(rank))] = NO_PARENT
        closed = np.flatnonzero(found != NO_PARENT)
        for _ in range(_STEPS_UP):
            closed = closed[self.end_ns[found[closed]] <= times[closed]]
            if not len(closed):
                break
            found[closed] = self.parent[found[closed]]
            closed = closed[found[closed] != NO_PARENT]
        return closed

    def nearest(self, marked: Bool) -> I32:
        """For each slice, itself or its nearest ancestor that is marked, -1 for none.

        Every slice points to its parent, a marked one to itself; each round follows two pointers at once, so that
        the rounds are as many as the levels have binary digits. Few marked slices are nested instead of all.
        """
        if _FEW * np.count_nonzero(marked) < len(self):
            return self._nearest_of_few(np.flatnonzero(marked))
        ends = np.append(marked, True)  # the last is for -1
        pointer = np.where(marked, np.arange(len(self), dtype=np.int32), self.parent)
        left = _narrow(np.flatnonzero(~marked & (self.parent != NO_PARENT)))
        while True:
            above = pointer[left]
            goes_on = ~ends[above]
            left = left[goes_on]
            if not len(left):
                return pointer
            pointer[left] = pointer[above[goes_on]]

    def around(self, marked: Bool) -> I32:
        """For each slice, how many marked ones are around it; itself does not count."""
        begun = np.cumsum(marked, dtype=np.int32) - marked
        ended = np.bincount(self.after[marked], minlength=len(self) + 1)[: len(self)]
        return begun - np.cumsum(ended, dtype=np.int32)

    def _nearest_of_few(self, marked: I64) -> I32:
        """For each slice, itself or its nearest ancestor at one of some positions, which ascend; -1 for none."""
        if not len(marked):
            return np.full(len(self), NO_PARENT, np.int32)
        after = self.after[marked].astype(np.int64)
        depth = _narrow(np.arange(len(marked)) - np.searchsorted(ascending(after), marked, side="right"))
        changes = distinct(np.concatenate((np.zeros(1, np.int64), marked, after)))  # slices around are constant between
        changes = changes[changes < len(self)]
        around = _innermost(marked, after, depth, changes)
        found = _narrow(take_or(marked, around, NO_PARENT))
        return np.repeat(found, np.diff(np.append(changes, len(self))))

    def sums(self, values: I64) -> I64:
        """For each slice, the sum of a value over it and all its descendants."""
        total = np.concatenate(([0], np.cumsum(values)))
        return total[self.after] - total[: len(self)]

    def count_in(self, rows: I64, positions: I64) -> I64:
        """For some slices, how many of some positions are their own or a descendant's; -1 is nobody's."""
        found = ascending(positions)
        return np.searchsorted(found, self.after[rows]) - np.searchsorted(found, rows)

    def child_sums(self, values: I64) -> I64:
        """For each slice, the sum of a value over its direct children."""
        sums = np.zeros(len(self) + 1, np.int64)
        np.add.at(sums, self.parent, values)  # -1 is the last
        return sums[:-1]

    def outermost(self, label: I64) -> Bool:
        """Which slices are not inside another of the same label (0 or more), so that recursion counts once."""
        order = stable_order(label)
        # Subtrees are ranges of positions: a slice is inside if an earlier one of its label reaches beyond it.
        shift = label[order] * (len(self) + 1)
        reach = np.maximum.accumulate(self.after[order] + shift)
        is_outermost = np.empty(len(self), np.bool_)
        is_outermost[order] = np.append(0, reach)[: len(self)] <= order + shift
        return is_outermost


def _on_clock(clock: _Clock, threads: dict[int, slice], start: I64, end: I64) -> tuple[I64, I64]:
    """Starts and ends of slices, in the order of threads, on their clock."""
    rank = _ranks(threads)
    return clock.at(rank, start), clock.at(rank, end)


def _longest_first(rows: I64, thread: I32, start: I64, end: I64) -> None:
    """Put rows of one thread and start in the order of their ends, the last first; equal ones keep their order.

    Args:
        rows: By thread and start.
        thread: The thread of each of them.
        start: The start of each of them.
        end: Ends by row.
    """
    same = (start[1:] == start[:-1]) & (thread[1:] == thread[:-1])
    if same.any():
        tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
        part = rows[tied]
        rows[tied] = part[np.lexsort((-end[part], start[tied], thread[tied]))]


def _slices_by_thread(thread: Array) -> dict[int, slice]:
    """Range of each thread's rows; the threads are in ascending order."""
    if not len(thread):
        return {}
    bounds = np.concatenate(([0], np.flatnonzero(np.diff(thread)) + 1, [len(thread)]))
    return {int(thread[a]): slice(a, b) for a, b in pairwise(bounds.tolist())}


class _Clock(msgspec.Struct, frozen=True):
    """One clock on which threads are laid one after another, so that no slice reaches into the next thread."""

    low: int
    span: int
    moments: I64 | None
    """All times at which a slice starts or ends, if the clock would not fit 64 bits: then their ranks are the times."""

    @classmethod
    def of(cls, start: I64, end: I64) -> _Clock:
        """Make a clock for some slices."""
        low, high = int(start.min(initial=2**62)), int(end.max(initial=-(2**62)))
        if (len(start) + 1) * (high - low + 3) < 2**63:  # no more threads than slices
            return cls(low, high - low + 1, None)
        moments = distinct(np.concatenate((start, end)))
        return cls(0, len(moments), moments)

    def at(self, rank: I64, times: I64) -> I64:
        """Times on this clock, of threads given by rank; times outside of all slices do not differ."""
        place = times - self.low if self.moments is None else np.searchsorted(self.moments, times, side="right") - 1
        at: I64 = np.clip(place, -1, self.span)
        at += self.start_of(rank) + 1
        return at

    def start_of(self, rank: I64) -> I64:
        """A time on this clock before all of a thread, given by its rank, and after all of the threads before it."""
        return rank * (self.span + 2)


def _ranks(threads: dict[int, slice]) -> I64:
    """For each row the rank of its thread among the threads."""
    return np.repeat(np.arange(len(threads)), [part.stop - part.start for part in threads.values()])


def _nest(begins: I64, ends: I64) -> tuple[I32, I32, I32]:
    """For each slice the position after its last descendant, its depth and its parent, by times on the clock."""
    after = _after(begins, ends)
    depth = _depths(after)
    return after, depth, _parents(depth)


def _narrow(positions: I64) -> I32:
    return positions.astype(np.int32)


def _after(begins: I64, ends: I64) -> I32:
    """The position after the last descendant of each slice.

    Slices are in the order of their start, so descendants are those that begin before the end. A slice without length
    has none, nor has one that ends before the next begins, as most do; only the others are looked up.
    """
    after = np.arange(1, len(begins) + 1, dtype=np.int32)
    around = np.flatnonzero(ends[:-1] > begins[1:])
    after[around] = np.searchsorted(begins, ends[around], side="left")
    return after


def _depths(after: I32) -> I32:
    """For each slice, how many of the slices before it have it as a descendant."""
    ended = np.bincount(after, minlength=len(after) + 1)[:-1]
    depth = np.arange(len(after), dtype=np.int32)
    depth -= np.cumsum(ended, dtype=np.int32)
    return depth


def _parents(depth: I32) -> I32:
    """Find the parent of each slice: the last one before it that is one less deep."""
    # The first child follows its parent directly; each other one has the parent of the one before it on its level.
    order = _narrow(stable_order(depth))
    is_first = np.append(False, depth[1:] > depth[:-1])[order]
    first = np.where(is_first, np.arange(len(order), dtype=np.int32), np.int32(0))
    np.maximum.accumulate(first, out=first)  # each level begins with a first child
    parent = np.empty(len(depth), np.int32)
    parent[order] = order[first] - 1
    parent[depth == 0] = NO_PARENT
    return parent


def _by_level(depth: Array) -> tuple[I64, I64]:
    """Keys that sort slices by depth, then position, sorted; and the position of each slice in this order."""
    order = stable_order(depth)
    return depth[order] * _room(depth) + order, order


def _room(depth: Array) -> np.int64:
    """Number of keys that each level has in `_by_level`."""
    return np.int64(len(depth) + 1)


def _limits(start: I64, end: I64) -> I64:
    """The slice at whose end each slice ends: the innermost one around its start if that ends first, or itself."""
    limits = np.arange(len(start))
    open_: list[tuple[int, int]] = []
    for row, (begin, finish) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        while open_ and open_[-1][0] <= begin:
            open_.pop()
        if open_ and finish > open_[-1][0]:
            finish, limits[row] = open_[-1]  # noqa: PLW2901 - it ends there
        open_.append((finish, int(limits[row])))
    return limits


def _innermost(start: I64, end: I64, depth: I32, times: I64) -> I64:
    """Position of the innermost open slice at each time, or -1."""
    instant = end == start
    started = np.searchsorted(start, times, side="right")
    instants_before = np.concatenate(([0], np.cumsum(instant)))[started]
    ended = np.searchsorted(ascending(end[~instant]), times, side="right") + instants_before
    wanted = started - ended - 1  # depth of the innermost open slice
    found = np.full(len(times), NO_PARENT, np.int64)
    keys, order = _by_level(depth)
    inside = np.flatnonzero(wanted >= 0)
    last = np.searchsorted(keys, wanted[inside] * _room(depth) + started[inside]) - 1
    found[inside] = order[last]
    return found
