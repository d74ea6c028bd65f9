"""Where is the work of devices launched from: marks, modules and operators around each launch, in typical steps?

Two recordings are compared by it (docs/diff.md): a kernel belongs to the lowest caller that both have, so that eager
and compiled programs, two GPUs, or two versions of torch are compared row by row, whatever their kernels are called.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec
import numpy as np

from traceanalyzer.structure import host_tree
from traceanalyzer.structure.analysis import KERNELS, Analysis
from traceanalyzer.structure.context import Context, device_events_in_scope
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.mark_forest import MANY, pattern
from traceanalyzer.structure.sums import count_by, group, sum_by
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.table import I32, I64, Array, Bool, take_or
from traceanalyzer.trace.tree import NO_PARENT, Tree

DEEPEST = 24
"""Levels of callers that are distinguished; what is deeper belongs to the last of them (own choice)."""


class Caller(msgspec.Struct, frozen=True):
    """Calls of one name inside the same other calls."""

    name: str
    """Name of the mark, module or operator as recorded; with `*` for numbers, where many differ in these only."""
    parent: int | None
    """Position in the rows of the caller around it; null at the top."""
    calls: int
    """Number of calls that start in typical steps."""
    launched: tuple[tuple[int, int, int], ...]
    """What it launches itself: position of the name, number of events, and their duration in ns, most first."""


class Callers(msgspec.Struct, frozen=True):
    """All callers of what devices do in typical steps."""

    rows: tuple[Caller, ...]
    """Parents before their children; the first has no name and launches what no other does."""
    names: tuple[str, ...]
    """Names of kernels, copies and fills."""

    def name(self, position: int) -> str:
        """A name by its position; empty where a saved report has no such name."""
        return self.names[position] if 0 <= position < len(self.names) else ""


def analyze(context: Context) -> Callers:
    """The callers of every device event that starts in a typical step."""
    trace = context.trace
    of_name, labels = _labels(context)
    tree, is_call = _calls(context, of_name)
    caller_of, parent, label = _places(tree, of_name[tree.name], is_call)
    events = np.flatnonzero(device_events_in_scope(context))
    node = _around_launches(trace, tree.tree, context.links.launch[events])
    launched, names = _launched(trace, events, take_or(caller_of, node, 0))
    counted = is_call & context.in_scope(tree.tree.start_ns)
    calls = count_by(caller_of[counted], len(parent))
    place_labels = ["", *(labels[code] for code in label[1:].tolist())]
    return Callers(tuple(_callers(parent, place_labels, calls, launched)), names)


def _callers(
    parent: I32, labels: list[str], calls: I64, launched: dict[int, list[tuple[int, int, int]]]
) -> Iterator[Caller]:
    """The places that launch something and those around them; the first one is around all and has no label."""
    position = _with_ancestors(parent, launched)
    for place in position:
        entries = sorted(launched.get(place, ()), key=lambda entry: (-entry[2], entry[0]))
        above = position[int(parent[place])] if place else None
        yield Caller(labels[place], above, int(calls[place]), tuple(entries))


def _launched(
    trace: Trace, events: I64, caller: Array
) -> tuple[dict[int, list[tuple[int, int, int]]], tuple[str, ...]]:
    """What each caller launched.

    Args:
        trace: The recording.
        events: Rows of the events on the device.
        caller: The caller of each.

    Returns:
        By caller, the number of the name, the events and their time in ns; and the names, by their first run.
    """
    codes = trace.device.name[events]
    first, groups = group(caller, codes)
    time = sum_by(groups, trace.device.dur_ns[events], len(first))
    count = count_by(groups, len(first))
    names, number = _in_order_of_first_run(codes[first], first)
    launched: dict[int, list[tuple[int, int, int]]] = {}
    for row, *figures in np.column_stack((caller[first], number, count, time)).tolist():
        launched.setdefault(row, []).append((figures[0], figures[1], figures[2]))
    return launched, tuple(trace.names[code] for code in names.tolist())


def _in_order_of_first_run(codes: I32, first: I64) -> tuple[I32, I64]:
    """The distinct codes by their first run, whatever they are called; and for each entry the position of its code."""
    used, appeared, code = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first[appeared])
    return used[order], np.argsort(order)[code.ravel()]


def _calls(context: Context, of_name: I32) -> tuple[host_tree.HostTree, Bool]:
    """Marks, modules and operators, nested; and which of the nodes are that, not steps."""
    kind, host = context.kind, context.host
    others = (NodeKind.STEP, NodeKind.PYTHON)
    if not np.isin(kind, (NodeKind.NONE, NodeKind.PYTHON)).any() and not host.tree.clipped:
        return host, host.kind != NodeKind.STEP  # the tree of operators has all
    chosen = np.where(kind == NodeKind.NONE, np.uint8(NodeKind.OPERATOR), kind)
    chosen[np.isin(kind, others)] = NodeKind.NONE
    fewer = chosen.copy()
    fewer[host.row[_launching_nothing(context, of_name) & (host.kind != NodeKind.MODULE)]] = NodeKind.NONE
    found = host_tree.build(context.trace, fewer)
    if host.tree.clipped or found.tree.clipped:  # what is inside what depends on all
        found = host_tree.build(context.trace, chosen)
    return found, np.ones(len(found.tree), np.bool_)


def _launching_nothing(context: Context, of_name: I32) -> Bool:
    """Nodes of labels that never launch anything, and what is in them: more than half of all, which no row shows.

    What is beside a call of its parent's name is kept, because only a call that is alone stands for its parent.
    """
    host, tree = context.host, context.host.tree
    launch = distinct(context.links.launch)
    launching = context.links.innermost[launch[launch != NO_PARENT]]
    launches = np.bincount(launching[launching != NO_PARENT], minlength=len(tree))
    label = of_name[host.name]
    label_launches = np.zeros(int(of_name.max(initial=0)) + 1, np.bool_)
    label_launches[label[tree.sums(launches) > 0]] = True
    calls_itself = np.zeros(len(tree) + 1, np.bool_)
    calls_itself[tree.parent[host.name == take_or(host.name, tree.parent, -1)]] = True
    calls_itself[NO_PARENT] = False
    alone = ~label_launches[label] & ~calls_itself[tree.parent]
    nothing: Bool = alone | (tree.around(alone) > 0)
    return nothing


def _around_launches(trace: Trace, tree: Tree, launches: I64) -> I64:
    """For each launch the innermost call around it, -1 for none or an unknown launch."""
    thread = take_or(trace.launches.thread, launches, NO_PARENT)
    return tree.innermost(thread, take_or(trace.launches.start_ns, launches, 0))


def _labels(context: Context) -> tuple[I32, list[str]]:
    """The number of the label of each name, and the labels: names, or their patterns if too many are alike."""
    is_shown = ~np.isin(context.host.kind, (NodeKind.STEP, NodeKind.PYTHON))
    marks = context.trace.host.name[context.kind == NodeKind.NONE]
    codes = distinct(np.concatenate((context.host.name[is_shown], marks)))
    shown = _shown([context.trace.names[code] for code in codes.tolist()])
    labels = list(dict.fromkeys(shown))
    number = {label: position for position, label in enumerate(labels)}
    of_name = np.zeros(len(context.trace.names), np.int32)
    of_name[codes] = [number[label] for label in shown]
    return of_name, labels


def _shown(names: list[str]) -> list[str]:
    """The label of each name: its pattern where more than `MANY` names have that, else itself."""
    if len(names) <= MANY:
        return names
    patterns = list(map(pattern, names))
    counts = Counter(patterns)
    return [own if counts[own] > MANY else name for name, own in zip(names, patterns, strict=True)]


def _places(calls: host_tree.HostTree, label: I32, is_call: Bool) -> tuple[I32, I32, I32]:
    """For each call its place; for each place the one around it and its label. The first place is around all.

    What is no call has the place around it.
    """
    tree = calls.tree
    nearest = tree.nearest(is_call)
    parent = take_or(nearest, tree.parent, NO_PARENT)
    level = tree.depth - tree.around(~is_call)
    place = np.zeros(len(label), np.int32)
    parents = [np.zeros(1, np.int32)]
    labels = [np.full(1, NO_PARENT, np.int32)]
    count = 1
    for depth in range(int(level.max(initial=-1)) + 1):  # so the places around are known
        rows = np.flatnonzero((level == depth) & is_call)
        place_around = take_or(place, parent[rows], np.int32(0))
        place[rows] = place_around
        has_own = ~calls.merged[rows] & (depth < DEEPEST)
        rows = rows[has_own]
        place_around = place_around[has_own]
        first, groups = group(place_around, label[rows])
        place[rows] = count + groups
        parents.append(place_around[first])
        labels.append(label[rows][first])
        count += len(first)
    return take_or(place, nearest, np.int32(0)), np.concatenate(parents), np.concatenate(labels)


def _with_ancestors(parent: I32, launched: dict[int, list[tuple[int, int, int]]]) -> dict[int, int]:
    """The places that launch something and those around them, each with its position among them."""
    kept = {0}
    for row in launched:
        while row not in kept:
            kept.add(row)
            row = int(parent[row])  # noqa: PLW2901 - the way up
    return {row: position for position, row in enumerate(sorted(kept))}


ANALYSES = (Analysis(365, "callers", Callers, analyze, needs=(KERNELS,), is_of_steps=True, is_for_files=True),)
