"""Which forward passes extended the graph of autograd for nothing?"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.knowledge import marks
from traceanalyzer.structure import host_activity
from traceanalyzer.structure.autograd import backward, graph, optimizer_starts
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.module_calls import device_time, owners
from traceanalyzer.structure.sums import count_by, group
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.table import I32, I64, Bool
from traceanalyzer.trace.tree import NO_PARENT

_SHOWN = 10


class UnusedForward(msgspec.Struct, frozen=True):
    """A module that runs on inputs of one shape more often than its outputs reach a backward pass."""

    name: str
    """Name of the module as recorded."""
    input_shapes: str
    """Input shapes of its first operator as recorded; empty where they were not recorded."""
    calls: int
    """Number of its calls before updates that extend the graph of autograd."""
    unused_calls: int
    """Number of these calls that no function evaluated by autograd belongs to."""
    updates: int
    """Number of updates before which there are such calls, beside others that reach a backward pass."""
    device_ns: int
    """Device time in ns of what the unused calls launched."""
    host_ns: int
    """Duration of the unused calls in ns."""
    start_ns: int
    """Start of the first unused call in ns since the first event."""


class Roots(msgspec.Struct, frozen=True):
    """Outermost calls of modules (or of wrappers of the whole model, where modules were not recorded)."""

    name: I32
    instance: I64
    thread: I32
    start_ns: I64
    end_ns: I64
    of_graph: I64
    """For each function of the graph, the call in which it was created, or -1."""


def roots(context: Context) -> Roots:
    """Find the outermost calls, without recomputation within the backward pass."""
    return _modules(context) if (context.host.kind == NodeKind.MODULE).any() else _wrappers(context)


def _modules(context: Context) -> Roots:
    host, tree, found = context.host, context.host.tree, context.once(owners)
    above = np.append(tree.nearest(found.is_module | found.is_evaluation), NO_PARENT)
    is_root: Bool = found.is_module & (above[tree.parent] == NO_PARENT)
    nodes = np.flatnonzero(is_root)
    root = tree.nearest(is_root)[context.once(graph).node]
    frames, row = context.trace.frames, host.row[nodes]
    number = np.where(root == NO_PARENT, NO_PARENT, np.searchsorted(nodes, root))
    name, thread = host.name[nodes], frames.thread[row]
    return Roots(name, frames.module_id[row], thread, tree.start_ns[nodes], tree.end_ns[nodes], number)


def _wrappers(context: Context) -> Roots:
    table = context.trace.host
    rows = np.flatnonzero(context.trace.names.where(marks.DATA_PARALLEL.__contains__)[table.name])
    created = context.host.row[context.once(graph).node]
    row = host_activity.innermost(table, rows, table.thread[created], table.start_ns[created])
    number = np.where(row == NO_PARENT, NO_PARENT, np.searchsorted(rows, row))
    start = table.start_ns[rows]
    none = np.zeros(len(rows), np.int64)
    return Roots(table.name[rows], none, table.thread[rows], start, start + table.dur_ns[rows], number)


def find(context: Context) -> tuple[UnusedForward, ...]:
    """Modules with unused calls, those with most device time first."""
    calls, created, passes = context.once(roots), context.once(graph), context.once(backward)
    steps = context.once(optimizer_starts)[0]
    known = calls.of_graph >= 0
    if not known.any() or not len(passes) or not len(steps):
        return ()
    extends, first = np.unique(calls.of_graph[known], return_index=True)
    low, high = (reduce(created.sequence[known], calls.of_graph[known], extends) for reduce in (_least, _greatest))
    update = np.searchsorted(steps, calls.start_ns[extends])
    judged = (update < len(steps)) & (calls.start_ns[extends] < passes.start_ns[-1])
    judged &= context.in_scope(calls.start_ns[extends])
    shapes = _shapes(context, created.node[known][first])
    functions = count_by(np.searchsorted(extends, calls.of_graph[known]), len(extends))
    keys = (calls.name[extends], calls.instance[extends], shapes, functions)
    evaluated = _evaluated(context, low, high)
    example, kind = group(*keys)
    rows = []
    for number in range(len(example)):
        own = judged & (kind == number)
        useful = distinct(update[own & evaluated])
        lost = own & ~evaluated & np.isin(update, useful)
        if lost.any():
            shape = context.trace.shapes[shapes[example[number]]]
            rows.append(_row(context, calls, extends, own, lost, len(distinct(update[lost])), shape))
    return tuple(sorted(rows, key=lambda row: (-row.device_ns, -row.host_ns, row.name, row.start_ns))[:_SHOWN])


def _least(values: I64, groups: I64, numbers: I64) -> I64:
    found = np.full(len(numbers), np.iinfo(np.int64).max)
    np.minimum.at(found, np.searchsorted(numbers, groups), values)
    return found


def _greatest(values: I64, groups: I64, numbers: I64) -> I64:
    found = np.full(len(numbers), -1, np.int64)
    np.maximum.at(found, np.searchsorted(numbers, groups), values)
    return found


def _evaluated(context: Context, low: I64, high: I64) -> Bool:
    """Whether autograd evaluated a function with a number of each range."""
    host, table = context.host, context.trace.host
    nodes = np.flatnonzero(context.once(owners).is_evaluation)
    numbers = np.sort(table.sequence[host.row[nodes]])
    found: Bool = np.searchsorted(numbers, high, side="right") > np.searchsorted(numbers, low, side="left")
    return found


def _shapes(context: Context, nodes: I64) -> I64:
    shapes: I64 = context.trace.host.shapes[context.host.row[nodes]].astype(np.int64)
    return shapes


def _row(
    context: Context, calls: Roots, extends: I64, own: Bool, lost: Bool, updates: int, shapes: str
) -> UnusedForward:
    launches = context.trace.launches
    unused = extends[lost]
    device = 0
    for call in unused.tolist():
        inside = slice(*np.searchsorted(launches.start_ns, (calls.start_ns[call], calls.end_ns[call])).tolist())
        device += int(context.once(device_time)[inside][launches.thread[inside] == calls.thread[call]].sum())
    return UnusedForward(
        name=context.trace.names[calls.name[unused[0]]],
        input_shapes=shapes,
        calls=int(own.sum()),
        unused_calls=len(unused),
        updates=updates,
        device_ns=device,
        host_ns=int((calls.end_ns[unused] - calls.start_ns[unused]).sum()),
        start_ns=int(calls.start_ns[unused].min()),
    )
