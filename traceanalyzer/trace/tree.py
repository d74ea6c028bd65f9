"""Nesting of slices by containment, per thread, without a Python loop over slices.

Slices of a thread are sorted by (start, longest first); then a slice's depth is the number of slices that
started before it and have not ended, its parent is the last slice before it that is one less deep, and its
descendants follow it directly.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from traceanalyzer.trace.table import I32, I64, Array, Bool

NO_PARENT = -1


@dataclass(frozen=True)
class Tree:
    """Nested slices. All arrays are in the order of the tree: by thread, then parents before children."""

    start_ns: I64
    end_ns: I64
    """End, clipped to the parent's."""
    depth: I32
    parent: I32
    """Position of the parent in the tree, or -1."""
    after: I32
    """Position after the last descendant: the slices of a subtree are `position:after[position]`."""
    clipped: int
    """Slices that started inside another and ended after it; they end where their parent ends."""
    threads: dict[int, slice]
    """Where the slices of each thread lie."""

    @classmethod
    def build(cls, thread: I32, start_ns: I64, dur_ns: I64) -> tuple[Tree, I64]:
        """Nest slices, given in the order of their start.

        Returns:
            The tree, and the row of the input at each of its positions.
        """
        end = start_ns + dur_ns
        rows = _nesting_order(thread, start_ns, end)
        start, end, thread = start_ns[rows], end[rows], thread[rows]
        size = len(rows)
        depth, parent, after = (np.empty(size, np.int32) for _ in range(3))
        clipped = 0
        threads = _slices_by_thread(thread)
        for part in threads.values():
            clipped += _nest(start[part], end[part], depth[part], parent[part], after[part])
            parent[part] += np.where(parent[part] == NO_PARENT, 0, part.start).astype(np.int32)
            after[part] += part.start
        return cls(start, end, depth, parent, after, clipped, threads), rows

    def __len__(self) -> int:
        return len(self.start_ns)

    def innermost(self, thread: I32, times: I64) -> I64:
        """For each point in time, the innermost slice of its thread with start <= time < end.

        Returns:
            Positions in the tree, or -1 where no slice is open.
        """
        found = np.full(len(times), NO_PARENT, np.int64)
        order = np.argsort(thread, kind="stable")
        for number, points in _slices_by_thread(thread[order]).items():
            part = self.threads.get(number)
            if part is not None:
                asked = order[points]
                inside = _innermost(self.start_ns[part], self.end_ns[part], self.depth[part], times[asked])
                found[asked] = np.where(inside < 0, NO_PARENT, inside + part.start)
        return found

    def nearest(self, marked: Bool) -> I64:
        """For each slice, itself or its nearest ancestor that is marked, -1 for none.

        Every slice points to its parent, a marked one to itself; each round follows two pointers at once, so that
        the rounds are as many as the levels have binary digits.
        """
        own = np.arange(len(self))
        ends = marked | (self.parent == NO_PARENT)
        pointer = np.where(ends, own, self.parent)
        while not ends[pointer].all():
            pointer = pointer[pointer]
        return np.where(marked[pointer], pointer, NO_PARENT)

    def sums(self, values: I64) -> I64:
        """For each slice, the sum of a value over it and all its descendants."""
        total = np.concatenate(([0], np.cumsum(values)))
        return total[self.after] - total[: len(self)]

    def child_sums(self, values: I64) -> I64:
        """For each slice, the sum of a value over its direct children."""
        sums = np.zeros(len(self), np.int64)
        nested = np.flatnonzero(self.parent != NO_PARENT)
        np.add.at(sums, self.parent[nested], values[nested])
        return sums


def _nesting_order(thread: I32, start: I64, end: I64) -> I64:
    """Rows by thread, start, longest first; equal ones keep their order."""
    narrow = thread.astype(np.int16) if len(thread) and thread.max() < 2**15 else thread  # radix sort
    rows = np.argsort(narrow, kind="stable")
    same = (np.diff(start[rows]) == 0) & (np.diff(thread[rows]) == 0)
    if same.any():
        tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
        part = rows[tied]
        rows[tied] = part[np.lexsort((-end[part], start[part], thread[part]))]
    return rows


def _slices_by_thread(thread: Array) -> dict[int, slice]:
    """Where each thread's rows lie; the threads are in ascending order."""
    if not len(thread):
        return {}
    bounds = np.concatenate(([0], np.flatnonzero(np.diff(thread)) + 1, [len(thread)]))
    return {int(thread[a]): slice(a, b) for a, b in pairwise(bounds.tolist())}


def _nest(start: I64, end: I64, depth: Array, parent: Array, after: Array) -> int:
    """Fill depth, parent and after of one thread; clip ends in place; how many were clipped."""
    depth[:] = np.arange(len(start)) - _closed_before(start, end)
    _find_parents(depth, parent)
    nested = parent != NO_PARENT
    clipped = 0
    if (end[nested] > end[parent[nested]]).any():
        clipped = _clip(start, end)
        depth[:] = np.arange(len(start)) - _closed_before(start, end)
        _find_parents(depth, parent)
    after[:] = np.where(end > start, np.searchsorted(start, end, side="left"), np.arange(1, len(start) + 1))
    return clipped


def _closed_before(start: I64, end: I64) -> I64:
    """For each slice, how many of the slices before it have ended when it starts."""
    instant = end == start
    ends = np.sort(end[~instant]) if instant.any() else np.sort(end)
    # A slice without length ends at once: those before this one have ended, whatever their time.
    closed: I64 = np.searchsorted(ends, start, side="right") + np.cumsum(instant) - instant
    return closed


def _find_parents(depth: Array, parent: Array) -> None:
    """The parent is the last slice before that is one less deep."""
    keys, order = _by_level(depth)
    wanted = keys - _room(depth)  # one level up, before this slice; sorted as the keys are
    found = np.searchsorted(keys, wanted) - 1
    nested = depth[order] > 0
    parent[order] = np.where(nested, order[found], NO_PARENT)


def _by_level(depth: Array) -> tuple[I64, I64]:
    """Numbers that sort slices by depth, then position, in this order; and the position of each."""
    order = np.argsort(depth.astype(np.int16) if depth.max(initial=0) < 2**15 else depth, kind="stable")
    return depth[order] * _room(depth) + order, order


def _room(depth: Array) -> np.int64:
    """Numbers that each level takes in those of `_by_level`."""
    return np.int64(len(depth) + 1)


def _clip(start: I64, end: I64) -> int:
    """End every slice where the innermost slice that contains its start ends, at the latest."""
    clipped = 0
    open_ends: list[int] = []
    starts, ends = start.tolist(), end.tolist()
    for row, (begin, finish) in enumerate(zip(starts, ends, strict=True)):
        while open_ends and open_ends[-1] <= begin:
            open_ends.pop()
        limit = open_ends[-1] if open_ends else finish
        if finish > limit:
            end[row] = limit
            clipped += 1
        open_ends.append(min(finish, limit))
    return clipped


def _innermost(start: I64, end: I64, depth: I32, times: I64) -> I64:
    """Position of the innermost open slice of one thread at each time, or -1."""
    instant = end == start
    started = np.searchsorted(start, times, side="right")
    instants_before = np.concatenate(([0], np.cumsum(instant)))[started]
    ended = np.searchsorted(np.sort(end[~instant]), times, side="right") + instants_before
    wanted = started - ended - 1  # depth of the innermost open slice
    found = np.full(len(times), NO_PARENT, np.int64)
    keys, order = _by_level(depth)
    inside = np.flatnonzero(wanted >= 0)
    last = np.searchsorted(keys, wanted[inside] * _room(depth) + started[inside]) - 1
    found[inside] = order[last]
    return found
