"""Nesting of slices by containment, per thread, without a Python loop over slices.

Slices of a thread are sorted by (start, longest first); then a slice's depth is the number of slices that
started before it and have not ended, its parent is the last slice before it that is one less deep, and its
descendants follow it directly.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from traceanalyzer.trace.table import I32, I64, Array

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
    parent[:] = NO_PARENT
    if not len(depth):
        return
    order = np.argsort(depth.astype(np.int16) if depth.max() < 2**15 else depth, kind="stable")
    bounds = np.searchsorted(depth[order], np.arange(depth.max() + 2))
    for level in range(1, int(depth.max()) + 1):
        above = order[bounds[level - 1] : bounds[level]]
        here = order[bounds[level] : bounds[level + 1]]
        parent[here] = above[np.searchsorted(above, here) - 1]


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
    order = np.argsort(depth, kind="stable")
    by_depth = depth[order]
    for level in np.unique(wanted[wanted >= 0]).tolist():
        at_level = order[np.searchsorted(by_depth, level) : np.searchsorted(by_depth, level, side="right")]
        asked = np.flatnonzero(wanted == level)
        found[asked] = at_level[np.searchsorted(at_level, started[asked]) - 1]
    return found
