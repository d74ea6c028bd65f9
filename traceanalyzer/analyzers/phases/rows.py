"""Sums the costs of marks, by name and by place in the tree of names."""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.analyzers.phases.costs import costs
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.mark_forest import Forest, Labels, forest, labels
from traceanalyzer.structure.sums import count_by, sum_by
from traceanalyzer.structure.sums import group as grouped
from traceanalyzer.trace.distinct import stable_order
from traceanalyzer.trace.table import I64, Array, Bool, entries
from traceanalyzer.trace.tree import NO_PARENT

DEEPEST = 32
"""Levels of the tree that are distinguished; a deeper mark counts where the mark around it does (own choice)."""


class Sums(msgspec.Struct, frozen=True):
    """Times in ns of groups of marks, each column with one value per group."""

    calls: I64
    recursive_calls: I64
    """Calls inside another of the group on the same thread."""
    depth: I64
    """Least depth of one of the marks."""
    threads: I64
    host: I64
    host_self: I64
    device: I64
    device_in_steps: I64
    device_self: I64
    device_self_in_steps: I64
    idle: I64
    idle_self: I64
    has_idle: Bool


def names_of(context: Context) -> Labels:
    """The names of the rows."""
    return labels(context.once(forest), context.trace.names)


def sums(context: Context, group: I64, count: int, level: I64 | None = None) -> Sums:
    """Sum the costs of marks by group; inclusive times over the marks that lie in no other of their group.

    Args:
        context: The trace.
        group: The group of each mark.
        count: Number of groups.
        level: Depth of each group; the least of its marks if None.
    """
    found, cost = context.once(forest), context.once(costs)
    end = found.start_ns + found.dur_ns
    repeated = _inside(grouped(group, found.thread)[1], found.start_ns, end)
    outer = np.flatnonzero(~repeated)
    outermost = np.flatnonzero(~_inside(group, np.arange(len(found)), found.after))
    depth = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(depth, group, found.depth)
    thread = group[grouped(group, found.thread)[0]]

    def of(rows: I64, values: I64) -> I64:
        return sum_by(group[rows], values[rows], count)

    every = np.arange(len(found))
    return Sums(
        calls=count_by(group, count),
        recursive_calls=sum_by(group, repeated.astype(np.int64), count),
        depth=depth if level is None else level,
        threads=count_by(thread, count),
        host=of(outer, found.dur_ns),
        host_self=of(every, cost.host_self),
        device=of(outermost, found.sums(cost.device_self)),
        device_in_steps=of(outermost, found.sums(cost.device_self_in_steps)),
        device_self=of(every, cost.device_self),
        device_self_in_steps=of(every, cost.device_self_in_steps),
        idle=of(outermost, cost.idle),
        idle_self=of(every, cost.idle_self),
        has_idle=count_by(group[cost.has_idle], count) > 0,
    )


def _inside(group: I64, start: I64, end: I64) -> Bool:
    """Which intervals lie within another of their group; of equal ones all but the first."""
    order = np.lexsort((-end, start, group))
    moments, rank = np.unique(end[order], return_inverse=True)
    base = group[order] * (len(moments) + 1)
    reach = np.maximum.accumulate(base + rank + 1)
    before = np.append(0, reach[:-1])
    inside = np.zeros(len(group), np.bool_)
    inside[order] = before >= base + rank + 1
    return inside


class MarkPaths(msgspec.Struct, frozen=True):
    """Places in the tree of names, parents before their children, siblings in the order of their first mark."""

    of_mark: I64
    """The place of each mark."""
    label: I64
    parent: I64
    depth: I64

    def __len__(self) -> int:
        return len(self.label)


def paths(found: Forest, label: I64) -> MarkPaths:
    """Find the places: marks with the same names around them are one, and so is a mark directly inside its like."""
    place = np.full(len(found) + 1, NO_PARENT, np.int64)
    around_label = entries(label, found.parent, NO_PARENT)
    places: list[Array] = [np.empty((0, 3), np.int64)]
    count = 0
    for rows in _levels(found.depth):
        around = place[found.parent[rows]]
        like = around_label[rows] == label[rows]
        place[rows[like]] = around[like]
        rows, around = rows[~like], around[~like]  # noqa: PLW2901 - those that need a place of their own
        known, which = np.unique(np.column_stack((around, label[rows])), axis=0, return_inverse=True)
        start = np.full(len(known), np.iinfo(np.int64).max)
        np.minimum.at(start, which.ravel(), found.start_ns[rows])
        place[rows] = count + which.ravel()
        places.append(np.column_stack((known, start)))
        count += len(known)
    last = np.maximum.accumulate(np.where(found.depth == DEEPEST - 1, np.arange(len(found)), NO_PARENT))
    deep = np.flatnonzero(found.depth >= DEEPEST)
    place[deep] = place[last[deep]]
    return _in_order(place[:-1], *np.concatenate(places).T)


def _levels(depth: I64) -> list[I64]:
    """The marks of each depth that is distinguished."""
    order = stable_order(depth)
    order = order[depth[order] < DEEPEST]
    return np.split(order, np.flatnonzero(np.diff(depth[order])) + 1) if len(order) else []


def _in_order(place: I64, parent: I64, label: I64, first: I64) -> MarkPaths:
    """Number the places depth first; a level at a time came before."""
    children: dict[int, list[int]] = {}
    for number in np.lexsort((label, first)).tolist():
        children.setdefault(int(parent[number]), []).append(number)
    order: list[int] = []
    depths: list[int] = []
    waiting = [(number, 0) for number in reversed(children.get(NO_PARENT, []))]
    while waiting:
        number, depth = waiting.pop()
        order.append(number)
        depths.append(depth)
        waiting.extend((child, depth + 1) for child in reversed(children.get(number, [])))
    position = np.empty(len(order) + 1, np.int64)
    position[order], position[NO_PARENT] = np.arange(len(order)), NO_PARENT
    return MarkPaths(position[place], label[order], position[parent[order]], np.array(depths, np.int64))
