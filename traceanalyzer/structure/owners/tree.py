"""The owners as trees, and the owner of each moment of a thread.

A moment belongs to the innermost owner around it. Marks, modules and functions of the program are owners wherever they
occur; a function of a library is an owner if it takes a fair share of the step and does not mostly consist of a single
inner function; operators and runtime calls are owners if nothing else is around them.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.structure import host_activity
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.mark_forest import is_mark
from traceanalyzer.structure.owners.critical import Critical
from traceanalyzer.structure.owners.slices import OwnerKind, Slices, candidates, own_roles
from traceanalyzer.structure.sums import group, members, rows_by, sum_by
from traceanalyzer.trace.distinct import is_among, ranked
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, Array, Bool, take_or
from traceanalyzer.trace.tables import HostEvents, Launches
from traceanalyzer.trace.tree import NO_PARENT, Tree

FAIR_SHARE = 0.05
"""Share of the steps that a function of a library must take to be an owner (own choice: less is not worth a fix)."""
PASSED_ON = 0.9
"""A function in which one inner function takes this share only passes the call on (own choice)."""


class OwnerTree(msgspec.Struct, frozen=True):
    """Slices that own time, nested by thread."""

    tree: Tree
    name: I64
    kind: Array
    role: I64
    """Code of the role that the name of each slice shows, 0 for none."""
    forward: dict[int, int]
    """For codes of names of modules, the code of the name of the frame of their forward pass."""


def owner_tree(context: Context, found: Critical) -> OwnerTree:
    """Nest everything that owns time."""
    slices = candidates(context, found)
    tree, order = _nest(slices)
    slices = slices.take(order)
    forward = _forward_passes(context, tree, slices)
    chosen = slices.take(_owns(found, tree, slices, own_roles(context, slices)) & ~forward)
    rest = _homeless(context, found, chosen)
    all_slices = Slices.join((_engine(found), chosen, rest))  # of equal slices the first one contains the others
    tree, order, module = *_nest(all_slices), slices.name[tree.parent[forward]]
    places = dict(zip(module[::-1].tolist(), slices.name[forward][::-1].tolist(), strict=True))
    nested = all_slices.take(order)
    return OwnerTree(tree, nested.name, nested.kind, own_roles(context, nested), places)


def _nest(slices: Slices) -> tuple[Tree, I64]:
    """Nest slices that are in no order."""
    by_start = np.argsort(slices.start_ns, kind="stable")
    tree, order = Tree.build(slices.thread[by_start], slices.start_ns[by_start], slices.dur_ns[by_start])
    return tree, by_start[order]


def _forward_passes(context: Context, tree: Tree, slices: Slices) -> Bool:
    """Functions that are the forward pass of the module that calls them; their time belongs to the module."""
    function = np.isin(slices.kind, (OwnerKind.FUNCTION, OwnerKind.LIBRARY))
    forward = function & context.trace.names.where(_is_forward)[slices.name]
    of_module = take_or(slices.kind, tree.parent, OwnerKind.MARK) == OwnerKind.MODULE
    is_forward_pass: Bool = forward & of_module
    return is_forward_pass


def _is_forward(name: str) -> bool:
    return name.endswith("): forward")


def _owns(found: Critical, tree: Tree, slices: Slices, role: I64) -> Bool:
    """Which slices own time: all but functions of libraries that take little or only pass a call on.

    A function of a library with a role is an owner in any case, if nothing around it has that role already.
    """
    library = slices.kind == OwnerKind.LIBRARY
    if not library.any():
        return np.ones(len(slices), np.bool_)
    time = found.kept.within(tree.start_ns, tree.end_ns)
    label = ranked(slices.name)[1]
    total = sum_by(label[outer := tree.outermost(label)], time[outer], int(label.max()) + 1)
    heavy = total[label] >= FAIR_SHARE * found.kept.length
    passed = _is_passed_on(tree, label, time, total)
    telling = heavy | ~library
    around = tree.nearest(telling | ~passed)
    nearest = take_or(around, tree.parent, NO_PARENT)
    is_repetition = passed & take_or(telling, nearest, False)
    around_role = take_or(role, take_or(tree.nearest(role > 0), tree.parent, NO_PARENT), 0)
    begins_role = library & (role > 0) & (role != around_role)
    owns: Bool = begins_role | (telling & ~(library & is_repetition))
    return owns


def _is_passed_on(tree: Tree, label: I64, time: I64, total: I64) -> Bool:
    """Which slices, together with others of their label, take nearly all of the time of the label around them."""
    nested = np.flatnonzero(tree.parent != NO_PARENT)
    around = label[tree.parent[nested]]
    pair = group(around, label[nested])[1]
    shares = sum_by(pair, time[nested], len(nested))[pair]
    passed = np.zeros(len(tree), np.bool_)
    passed[nested] = (shares >= PASSED_ON * total[around]) | (around == label[nested])
    return passed


def _homeless(context: Context, found: Critical, chosen: Slices) -> Slices:
    """The outermost operators and runtime calls that start outside of owners; on autograd's thread its evaluations."""
    host, launches = context.trace.host, context.trace.launches
    evaluated = context.trace.names.where(_is_told_by_autograd)[host.name]
    collective = context.trace.names.where(host_activity.is_communicating)[host.name]
    leaves = (host_activity.operator_rows(context) & ~is_mark(context)) | collective
    leaves &= is_among(host.thread, found.threads)
    rows = np.flatnonzero(leaves & (evaluated | (host.thread != found.engine)))
    calls = np.flatnonzero(is_among(launches.thread, found.threads) & (launches.thread != found.engine))
    parts = ((OwnerKind.OPERATOR, host, rows), (OwnerKind.CALL, launches, calls))
    slices = Slices.join(Slices.of(kind, table, _outside(found, chosen, table, rows)) for kind, table, rows in parts)
    tree, order = _nest(slices)
    return slices.take(order[tree.parent == NO_PARENT])


def _outside(found: Critical, chosen: Slices, table: HostEvents | Launches, rows: I64) -> I64:
    """Those of some rows of a table that lie near the steps that count, and start outside of the chosen slices."""
    rows = rows[found.near(table.start_ns[rows], table.end_ns[rows])]
    free = np.ones(len(rows), np.bool_)
    of_thread = rows_by(table.thread[rows])
    for thread, own in members(chosen.thread):
        here = of_thread(thread)
        owned = Intervals.union(chosen.start_ns[own], (chosen.start_ns + chosen.dur_ns)[own])
        free[here] = ~owned.contains(table.start_ns[rows[here]])
    return rows[free]


def _is_told_by_autograd(name: str) -> bool:
    """Whether an operator on autograd's thread is an owner: an evaluated function, or work of a library."""
    return not name.startswith("aten::")


def _engine(found: Critical) -> Slices:
    """The times in which autograd's thread works."""
    times, thread = found.episodes, -1 if found.engine is None else found.engine
    count = len(times)
    return Slices(
        np.full(count, thread, np.int32),
        times.start,
        times.end - times.start,
        np.full(count, NO_PARENT, np.int64),
        np.full(count, OwnerKind.AUTOGRAD, np.uint8),
    )
