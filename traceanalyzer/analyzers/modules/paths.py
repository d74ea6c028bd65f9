"""The tree of modules: calls with the same chain of modules around them are one place in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traceanalyzer.analyzers.context import Context
from traceanalyzer.analyzers.modules.owners import Owners
from traceanalyzer.analyzers.sums import group
from traceanalyzer.trace.table import I64
from traceanalyzer.trace.tree import NO_PARENT


@dataclass(frozen=True)
class Paths:
    """Places in the tree of modules, parents before their children, siblings in the order of their first call."""

    calls: I64
    """Position in the host tree of each call of a module, ascending."""
    path: I64
    """The place of each call."""
    name: I64
    """Code of the name of each place."""
    module_id: I64
    parent: I64
    """The place around each place, or -1."""
    depth: I64

    def __len__(self) -> int:
        return len(self.name)

    def of(self, call: I64) -> I64:
        """The places of calls, given as positions in the host tree; -1 for none."""
        if not len(self.calls):
            return np.full(len(call), NO_PARENT, np.int64)
        found = np.minimum(np.searchsorted(self.calls, call), len(self.calls) - 1)
        return np.where(call == NO_PARENT, NO_PARENT, self.path[found])

    def subtree_sums(self, values: I64) -> I64:
        """For each place, the sum over it and all places below."""
        total = np.concatenate(([0], np.cumsum(values)))
        return total[self._after()] - total[:-1]

    def _after(self) -> I64:
        """For each place, the one after the last below it: the next that is no deeper."""
        after = np.full(len(self), len(self), np.int64)
        open_: list[int] = []
        for place, depth in enumerate(self.depth.tolist()):
            after[open_[depth:]] = place
            del open_[depth:]
            open_.append(place)
        return after


def paths(context: Context, owners: Owners) -> Paths:
    """Find the places, level by level from the outermost calls."""
    host, frames = context.host, context.trace.frames
    calls = np.flatnonzero(owners.is_module)
    name, module_id = host.name[calls].astype(np.int64), frames.module_id[host.row[calls]]
    around = np.append(owners.module, NO_PARENT)[host.tree.parent[calls]]
    parent_call = np.where(around == NO_PARENT, NO_PARENT, np.searchsorted(calls, around))
    path = np.full(len(calls), NO_PARENT, np.int64)
    columns: list[tuple[I64, ...]] = []
    size, level = 0, np.flatnonzero(parent_call == NO_PARENT)
    while len(level):
        parent = np.append(path, NO_PARENT)[parent_call[level]]
        first, groups = group(parent, name[level], module_id[level])
        path[level] = size + groups
        start = np.full(len(first), np.iinfo(np.int64).max)
        np.minimum.at(start, groups, host.tree.start_ns[calls[level]])
        columns.append((name[level][first], module_id[level][first], parent[first], start))
        size += len(first)
        done = path != NO_PARENT
        level = np.flatnonzero(~done & np.append(done, False)[parent_call])
    return _in_order(calls, path, columns)


def _in_order(calls: I64, path: I64, levels: list[tuple[I64, ...]]) -> Paths:
    """Number the places depth first, siblings in the order of their first call, equal starts by number."""
    if not levels:
        none = np.empty(0, np.int64)
        return Paths(calls, path, none, none, none, none)
    name, module_id, parent, start = (np.concatenate(column) for column in zip(*levels, strict=True))
    depth = np.repeat(np.arange(len(levels)), [len(level[0]) for level in levels])
    children: dict[int, list[int]] = {}
    for place in np.lexsort((module_id, start)).tolist():
        children.setdefault(int(parent[place]), []).append(place)
    order: list[int] = []
    waiting = children.get(NO_PARENT, [])[::-1]
    while waiting:
        place = waiting.pop()
        order.append(place)
        waiting.extend(children.get(place, [])[::-1])
    number = np.empty(len(order) + 1, np.int64)
    number[order], number[NO_PARENT] = np.arange(len(order)), NO_PARENT
    return Paths(calls, number[path], name[order], module_id[order], number[parent[order]], depth[order])
