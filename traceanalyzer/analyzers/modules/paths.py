"""The tree of modules: calls with the same chain of modules around them are one place in it."""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.structure.context import Context
from traceanalyzer.structure.module_calls import ModuleOwners
from traceanalyzer.trace.table import I64, entries
from traceanalyzer.trace.tree import NO_PARENT


class Paths(msgspec.Struct, frozen=True):
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
        """For each place, the position after its last descendant."""
        after = np.full(len(self), len(self), np.int64)
        open_: list[int] = []
        for place, depth in enumerate(self.depth.tolist()):
            after[open_[depth:]] = place
            del open_[depth:]
            open_.append(place)
        return after


def paths(context: Context, owners: ModuleOwners) -> Paths:
    """Find the places: calls come after the call around them, whose place is known by then."""
    host, frames = context.host, context.trace.frames
    calls = np.flatnonzero(owners.is_module)
    name, module_id = host.name[calls].astype(np.int64), frames.module_id[host.row[calls]]
    around = entries(owners.module, host.tree.parent[calls], NO_PARENT)
    parent_call = np.where(around == NO_PARENT, NO_PARENT, np.searchsorted(calls, around))
    places: dict[tuple[int, int, int], int] = {}
    path: list[int] = []
    for above, *own in np.column_stack((parent_call, name, module_id)).tolist():
        parent = path[above] if above != NO_PARENT else NO_PARENT
        path.append(places.setdefault((parent, *own), len(places)))
    start = np.full(len(places), np.iinfo(np.int64).max)
    np.minimum.at(start, path, host.tree.start_ns[calls])
    return _in_order(calls, np.array(path, np.int64), np.array([*places], np.int64).reshape(-1, 3), start)


def _in_order(calls: I64, path: I64, places: I64, start: I64) -> Paths:
    """Number the places depth first, siblings in the order of their first call, equal starts by number."""
    parent, name, module_id = places.T
    depth = np.zeros(len(places) + 1, np.int64)
    depth[NO_PARENT] = -1  # around the outermost
    for place, above in enumerate(parent.tolist()):
        depth[place] = depth[above] + 1
    children: dict[int, list[int]] = {}
    for place in np.lexsort((name, module_id, start)).tolist():
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
