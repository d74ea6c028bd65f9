"""The tree of modules, and forward and backward times of every place in it and outside of modules.

Calls with the same chain of modules around them are one place in the tree.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.structure.context import Context
from traceanalyzer.structure.module_backward import forward_nodes
from traceanalyzer.structure.module_calls import ModuleOwners, device_time, owners
from traceanalyzer.structure.sums import least_by, sum_by
from traceanalyzer.trace.table import I64, Bool, entries
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


def find_paths(context: Context, owners: ModuleOwners) -> Paths:
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
    of_call = np.array(path, np.int64)
    start = least_by(of_call, host.tree.start_ns[calls], len(places))
    return _in_order(calls, of_call, np.array([*places], np.int64).reshape(-1, 3), start)


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


class ModuleTotals(msgspec.Struct, frozen=True):
    """Sums over all modules within the chosen steps."""

    paths: Paths
    figures: tuple[I64, ...]
    """Columns by place, in the order of the fields of `Place` from `calls` on."""
    device_ns: int
    outside_device_ns: int
    backward_outside: tuple[int, int, int]
    """Evaluations, host and device time."""
    backward_unlinked: tuple[int, int, int]


def totals(context: Context) -> ModuleTotals:
    """Sum times and calls over all places and evaluations."""
    found = context.once(owners)
    places = find_paths(context, found)
    device = device_time(context)
    evaluations, forward = forward_nodes(context)
    counted = context.in_scope(context.host.tree.start_ns[evaluations])
    evaluations, forward = evaluations[counted], forward[counted]
    module = entries(found.module, forward, NO_PARENT)
    values = _of_evaluations(context, found, device, evaluations)

    def unattributed(rows: Bool) -> tuple[int, int, int]:
        return int(rows.sum()), int(values[0][rows].sum()), int(values[1][rows].sum())

    whole, outside = _outside(context, found, device)
    return ModuleTotals(
        paths=places,
        figures=(*_forward(context, found, places, device), *_backward(places, module, values)),
        device_ns=whole,
        outside_device_ns=outside,
        backward_outside=unattributed((forward != NO_PARENT) & (module == NO_PARENT)),
        backward_unlinked=unattributed(forward == NO_PARENT),
    )


def _forward(context: Context, found: ModuleOwners, places: Paths, device: I64) -> tuple[I64, ...]:
    """Calls, operators, host self and total, device self and total of each place."""
    host, tree, size = context.host, context.host.tree, len(places)
    launches = context.trace.launches
    counted = context.in_scope(tree.start_ns[places.calls])
    calls, path = places.calls[counted], places.path[counted]
    duration = tree.end_ns - tree.start_ns
    inside = np.flatnonzero(found.launch_node != NO_PARENT)
    node = found.launch_node[inside]
    operators = sum_by(
        np.maximum(tree.parent, 0),
        np.where(host.is_row & (tree.parent != NO_PARENT), context.calls_of(np.arange(len(tree))), 0),
        len(tree),
    )
    runtime = sum_by(node, launches.dur_ns[inside], len(tree))
    host_self = duration - tree.child_sums(duration) - runtime
    owner = found.owner[node]
    of_module = entries(found.is_module, owner, False)
    own = sum_by(owner[of_module], device[inside][of_module], len(tree))
    below = tree.sums(own)
    return (
        sum_by(path, context.calls_of(calls), size),
        *(sum_by(path, values[calls], size) for values in (operators, host_self, duration, own, below)),
    )


def _of_evaluations(context: Context, found: ModuleOwners, device: I64, evaluations: I64) -> tuple[I64, I64]:
    """Host and device time of each evaluation, without evaluations and modules inside."""
    tree = context.host.tree
    duration = tree.end_ns - tree.start_ns
    inner = np.flatnonzero((found.is_module | found.is_evaluation) & (tree.parent != NO_PARENT))
    around = found.owner[tree.parent[inner]]
    nested = sum_by(around[around != NO_PARENT], duration[inner[around != NO_PARENT]], len(tree))
    launches = np.flatnonzero(found.launch_node != NO_PARENT)
    owner = found.owner[found.launch_node[launches]]
    launches, owner = launches[owner != NO_PARENT], owner[owner != NO_PARENT]
    launched = sum_by(owner, device[launches], len(tree))
    return (duration - nested)[evaluations], launched[evaluations]


def _backward(places: Paths, module: I64, values: tuple[I64, I64]) -> tuple[I64, ...]:
    """Evaluations, host self and total, device self and total of each place."""
    path, size = places.of(module), len(places)
    known = path != NO_PARENT
    count, host, device = (sum_by(path[known], v[known], size) for v in (np.ones_like(path), *values))
    return count, host, places.subtree_sums(host), device, places.subtree_sums(device)


def _outside(context: Context, found: ModuleOwners, device: I64) -> tuple[int, int]:
    """Device time of all, and the part launched by no module and no evaluation."""
    events, launch = context.trace.device, context.links.launch
    linked = launch != NO_PARENT
    start = context.trace.launches.start_ns
    counted = context.in_scope(np.where(linked, entries(start, launch, 0), events.start_ns))
    whole = int(events.dur_ns[counted].sum())
    owner = entries(found.owner, found.launch_node, NO_PARENT)
    ownerless = (owner == NO_PARENT) & context.in_scope(start)
    return whole, int(device[ownerless].sum()) + int(events.dur_ns[counted & ~linked].sum())
