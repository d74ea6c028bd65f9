"""Which nn.Module costs most, in the forward and in the backward pass?

With stacks, the profiler records every call of an nn.Module. What a call launches belongs to the innermost module
around it. The backward pass runs elsewhere, by autograd; it belongs to the module whose forward pass made it
necessary. What cannot be attributed is counted. Calls with the same chain of modules around them are one place in the
tree of modules.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec
import numpy as np

from traceanalyzer.report.message import Text
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.module_calls import ModuleOwners, device_time, forward_nodes, owners
from traceanalyzer.structure.sums import group, least_by, sum_by
from traceanalyzer.trace.table import I64, Bool, take_or
from traceanalyzer.trace.tree import NO_PARENT

_PREFIX = "nn.Module: "
_NUMBER = re.compile(r"_\d+$")


class ModuleTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of calls of modules; as keywords they follow the fields with which a row begins."""

    operators: int
    """Number of operators that the forward pass calls directly, in all calls."""
    host_self_ns: int
    """Duration of the calls in ns, without the operators, modules and runtime calls inside."""
    host_total_ns: int
    """Duration of the calls in ns."""
    device_self_ns: int
    """Device time in ns of what the calls launched, each in full, without the modules inside."""
    device_total_ns: int
    """Device time in ns of what the calls launched, each in full, with the modules inside."""
    backward_functions: int
    """Number of functions that autograd evaluated for operators of the module itself."""
    backward_host_self_ns: int
    """Duration in ns of these evaluations, without the modules inside."""
    backward_host_total_ns: int
    """Duration in ns of the evaluations for the module and the modules inside."""
    backward_device_self_ns: int
    """Device time in ns of what these evaluations launched, each in full, without the modules inside."""
    backward_device_total_ns: int
    """Device time in ns of what the evaluations launched, each in full, with the modules inside."""


class Module(ModuleTimes, frozen=True):
    """All calls of one module. Totals of a module that calls itself count twice."""

    name: str
    """Class and number of the module as the profiler names it, `Conv2d_0`."""
    module_id: int
    """Number that the profiler gave this module, which distinguishes it from others of its name."""
    calls: int
    """Number of forward calls."""


class ModuleClass(ModuleTimes, frozen=True):
    """All modules of one class. Totals of modules inside a module of the same class count twice."""

    name: str
    """Name of the class: the name of the modules without their numbers."""
    modules: int
    """Number of modules of this class that were called, or evaluated by autograd."""
    calls: int
    """Number of forward calls."""


class Place(ModuleTimes, frozen=True):
    """A module as called from one place in the tree of modules."""

    name: str
    """Class and number of the module as the profiler names it, `Conv2d_0`."""
    module_id: int
    """Number that the profiler gave this module, which distinguishes it from others of its name."""
    parent: int | None
    """Position in the tree of the place around it; null at the top."""
    depth: int
    """Number of places around this one; 0 at the top."""
    calls: int
    """Number of forward calls from this place."""


class Unattributed(msgspec.Struct, frozen=True):
    """Evaluations of autograd that belong to no module."""

    functions: int
    """Number of functions that autograd evaluated."""
    host_ns: int
    """Duration of these evaluations on the host in ns."""
    device_ns: int
    """Device time in ns of what these evaluations launched."""


class Modules(msgspec.Struct, frozen=True):
    """Cost of modules in the forward and in the backward pass."""

    rows: tuple[Module, ...]
    """One row per module, the most device self time of both passes first (host self time without a device)."""
    classes: tuple[ModuleClass, ...]
    """One row per class of modules, in the same order."""
    tree: tuple[Place, ...]
    """Modules by the place from which they are called: parents before their children, siblings in the order of their
    first call."""
    device_ns: int
    """Sum of the durations of everything on devices, in ns."""
    outside_device_ns: int
    """Part of the device time in ns that was launched outside of modules and of autograd, or whose launch is not in the
    trace."""
    backward_outside: Unattributed
    """Evaluations of autograd for operators that lie in no module, such as a loss function."""
    backward_unlinked: Unattributed
    """Evaluations of autograd whose operator in the forward pass is not in the trace, or could be one of several."""


def analyze(context: Context) -> Modules:
    """The modules by name, by class and as a tree."""
    found = context.cached(owners)
    device = device_time(context)
    places = find_paths(context, found)
    backward = _evaluations(context, found, device)
    columns = (*_forward(context, found, places, device), *_backward(places, backward.module, backward.times))
    figures = np.column_stack(columns)
    names = [context.trace.names[code].removeprefix(_PREFIX) for code in places.name.tolist()]
    on_device = bool(len(context.trace.device))
    rows = _by_module(places, names, figures)
    whole, outside = _outside(context, found, device)
    has_forward = backward.forward != NO_PARENT
    return Modules(
        rows=tuple(sorted(rows, key=lambda row: (*_rank(row, on_device), row.module_id))),
        classes=tuple(sorted(_by_class(rows), key=lambda row: _rank(row, on_device))),
        tree=_tree(places, names, figures),
        device_ns=whole,
        outside_device_ns=outside,
        backward_outside=backward.unattributed(has_forward & (backward.module == NO_PARENT)),
        backward_unlinked=backward.unattributed(~has_forward),
    )


class _Evaluations(NamedTuple):
    """Evaluations of autograd in scope."""

    forward: I64
    """The node of the forward pass that made each necessary; -1 if unknown."""
    module: I64
    """The module around that node; -1 for none."""
    times: tuple[I64, I64]
    """Host and device time of each, without evaluations and modules inside."""

    def unattributed(self, rows: Bool) -> Unattributed:
        """The sums of some of them."""
        host, device = self.times
        return Unattributed(int(rows.sum()), int(host[rows].sum()), int(device[rows].sum()))


def _evaluations(context: Context, found: ModuleOwners, device: I64) -> _Evaluations:
    nodes, forward = forward_nodes(context)
    counted = context.in_scope(context.host.tree.start_ns[nodes])
    forward = forward[counted]
    module = take_or(found.module, forward, NO_PARENT)
    return _Evaluations(forward, module, _of_evaluations(context, found, device, nodes[counted]))


def _rank(row: Module | ModuleClass, on_device: bool) -> tuple[int, int, str]:
    both = row.device_self_ns + row.backward_device_self_ns if on_device else row.host_self_ns
    return (-both, -row.host_self_ns, row.name)


def _figures(values: list[int]) -> dict[str, int]:
    """The number of calls and all times of a row by their names."""
    return dict(zip(("calls", *ModuleTimes.__struct_fields__), values, strict=True))


def _by_module(paths: Paths, names: list[str], figures: I64) -> list[Module]:
    first, groups = group(paths.name, paths.module_id)
    columns = [sum_by(groups, column, len(first)) for column in figures.T]
    return [
        Module(names[place], int(paths.module_id[place]), **_figures(values))
        for place, values in zip(first.tolist(), np.column_stack(columns).tolist(), strict=True)
        if any(values)
    ]


def _by_class(rows: list[Module]) -> list[ModuleClass]:
    sums: dict[str, list[int]] = {}
    for row in rows:
        figures = (1, *msgspec.structs.astuple(row)[2:])
        known = sums.setdefault(_NUMBER.sub("", row.name), [0] * len(figures))
        known[:] = [a + b for a, b in zip(known, figures, strict=True)]
    return [ModuleClass(name, modules, **_figures(values)) for name, (modules, *values) in sums.items()]


def _tree(paths: Paths, names: list[str], figures: I64) -> tuple[Place, ...]:
    shown = np.flatnonzero(paths.subtree_sums((figures != 0).any(axis=1).astype(np.int64)))
    number = np.full(len(paths) + 1, NO_PARENT, np.int64)
    number[shown] = np.arange(len(shown))
    columns = np.column_stack((shown, paths.module_id[shown], number[paths.parent[shown]], paths.depth[shown]))
    return tuple(
        Place(names[place], module_id, parent if parent >= 0 else None, depth, **_figures(values))
        for (place, module_id, parent, depth), values in zip(columns.tolist(), figures[shown].tolist(), strict=True)
    )


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
    host = context.host
    calls = np.flatnonzero(owners.is_module)
    around = take_or(owners.module, host.tree.parent[calls], NO_PARENT)
    parent_call = np.where(around == NO_PARENT, NO_PARENT, np.searchsorted(calls, around))
    keys = np.column_stack((parent_call, host.name[calls], context.trace.frames.module_id[host.row[calls]]))
    places: dict[tuple[int, int, int], int] = {}
    path: list[int] = []
    for above, *module in keys.tolist():
        parent = path[above] if above != NO_PARENT else NO_PARENT
        path.append(places.setdefault((parent, *module), len(places)))
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


def _forward(context: Context, found: ModuleOwners, places: Paths, device: I64) -> tuple[I64, ...]:
    """Calls, operators, host self and total, device self and total of each place."""
    tree = context.host.tree
    counted = context.in_scope(tree.start_ns[places.calls])
    calls = places.calls[counted]
    path = places.path[counted]
    launches = np.flatnonzero(found.launch_node != NO_PARENT)
    node = found.launch_node[launches]

    duration = tree.end_ns - tree.start_ns
    runtime = sum_by(node, context.trace.launches.dur_ns[launches], len(tree))
    host_self = duration - tree.child_sums(duration) - runtime
    owner = found.owner[node]
    of_module = take_or(found.is_module, owner, False)
    device_self = sum_by(owner[of_module], device[launches[of_module]], len(tree))
    by_node = (_operators_inside(context), host_self, duration, device_self, tree.sums(device_self))
    return (
        sum_by(path, context.calls_of(calls), len(places)),
        *(sum_by(path, values[calls], len(places)) for values in by_node),
    )


def _operators_inside(context: Context) -> I64:
    """For each node of the host tree, the calls of operators directly in it."""
    host, tree = context.host, context.host.tree
    is_inside = host.is_row & (tree.parent != NO_PARENT)
    calls = np.where(is_inside, context.calls_of(np.arange(len(tree))), 0)
    return sum_by(np.maximum(tree.parent, 0), calls, len(tree))


def _of_evaluations(context: Context, found: ModuleOwners, device: I64, evaluations: I64) -> tuple[I64, I64]:
    """Host and device time of each evaluation, without evaluations and modules inside."""
    tree = context.host.tree
    duration = tree.end_ns - tree.start_ns
    inner = np.flatnonzero((found.is_module | found.is_evaluation) & (tree.parent != NO_PARENT))
    around = found.owner[tree.parent[inner]]
    nested = sum_by(around[around != NO_PARENT], duration[inner[around != NO_PARENT]], len(tree))
    launches = np.flatnonzero(found.launch_node != NO_PARENT)
    owner = found.owner[found.launch_node[launches]]
    has_owner = owner != NO_PARENT
    launched = sum_by(owner[has_owner], device[launches[has_owner]], len(tree))
    return (duration - nested)[evaluations], launched[evaluations]


def _backward(places: Paths, module: I64, values: tuple[I64, I64]) -> tuple[I64, ...]:
    """Evaluations, host self and total, device self and total of each place."""
    path = places.of(module)
    known = path != NO_PARENT
    columns = (np.ones_like(path), *values)
    count, host, device = (sum_by(path[known], column[known], len(places)) for column in columns)
    return count, host, places.subtree_sums(host), device, places.subtree_sums(device)


def _outside(context: Context, found: ModuleOwners, device: I64) -> tuple[int, int]:
    """Device time of all, and the part launched by no module and no evaluation."""
    events, launch = context.trace.device, context.links.launch
    linked = launch != NO_PARENT
    start = context.trace.launches.start_ns
    counted = context.in_scope(np.where(linked, take_or(start, launch, 0), events.start_ns))
    whole = int(events.dur_ns[counted].sum())
    owner = take_or(found.owner, found.launch_node, NO_PARENT)
    ownerless = (owner == NO_PARENT) & context.in_scope(start)
    return whole, int(device[ownerless].sum()) + int(events.dur_ns[counted & ~linked].sum())


_MODULES = Need(
    Text("skip-no-modules", "the trace has no calls of nn.Module: record them with with_stack=True"),
    lambda context: context.cached(owners).is_module.any(),
)
ANALYSES = (Analysis(330, "modules", Modules, analyze, needs=(_MODULES,)),)
