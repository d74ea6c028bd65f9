"""When do the parts of training happen: forward, backward, `zero_grad`, `step`?

Of the forward pass the operators that extended the graph of autograd count. The profiler writes on every operator the
number that the next function of the graph will have, so the last operator before the number grows created it. A
backward pass is a run of evaluations by autograd with nothing of the others between them; where numbers are
recorded, a new one begins with a higher number than the one before.
"""

from __future__ import annotations

from collections import Counter

import msgspec
import numpy as np

from traceanalyzer.knowledge import marks
from traceanalyzer.structure import host_activity
from traceanalyzer.structure.context import Context, cached
from traceanalyzer.structure.host_tree import NodeKind, nest
from traceanalyzer.structure.module_calls import evaluations, owners
from traceanalyzer.structure.sums import Columns
from traceanalyzer.trace.distinct import ascending, distinct, ranked
from traceanalyzer.trace.table import I32, I64, UNKNOWN, Bool
from traceanalyzer.trace.tree import NO_PARENT

_ZERO_GRAD = "Optimizer.zero_grad"
_OF_PROGRAM = (NodeKind.STEP, NodeKind.DATALOADER, NodeKind.OPTIMIZER)
"""Marks that only the thread of a program's own loop has."""


class AutogradGraph(msgspec.Struct, frozen=True):
    """Operators of the forward pass that created a function of the graph, in the order of their start."""

    node: I64
    """Position in the host tree."""
    start_ns: I64
    sequence: I64
    """Number of the function."""


class Backward(Columns, frozen=True):
    """Backward passes in the order of their start."""

    start_ns: I64
    end_ns: I64
    functions: I64
    """Number of functions that autograd evaluated in each pass."""


def graph(context: Context) -> AutogradGraph:
    """Functions that the forward pass created, recomputation within the backward pass and loaders excepted."""
    host, table = context.host, context.trace.host
    nodes = np.flatnonzero(host.kind != NodeKind.MODULE)
    row = host.row[nodes]
    forward = (table.sequence[row] != UNKNOWN) & (table.forward_thread[row] <= 0)
    nodes, row = nodes[forward], row[forward]  # by thread, there in the order of time
    sequence, thread = table.sequence[row], table.thread[row]
    grows = _creates(sequence, thread)
    nodes, sequence = nodes[grows], sequence[grows]
    nodes, sequence = _outside(context, nodes, sequence)
    order = np.argsort(host.tree.start_ns[nodes], kind="stable")
    return AutogradGraph(nodes[order], host.tree.start_ns[nodes[order]], sequence[order])


def _creates(sequence: I64, thread: I32) -> Bool:
    """Which operators create a function of the graph: each last one before the number of its thread grows."""
    same = thread[1:] == thread[:-1]
    grows = np.append((np.diff(sequence) > 0) & same, False)[: len(thread)]
    last: Bool = np.append(~same, True)[: len(thread)]
    return grows | (last & np.isin(thread, thread[grows]))


def _outside(context: Context, nodes: I64, sequence: I64) -> tuple[I64, I64]:
    """Leave out nodes inside evaluations, loaders, and optimizers (but for the closures that they call)."""
    host, table = context.host, context.trace.host
    loaders = host.kind == NodeKind.DATALOADER
    within = context.cached(owners).evaluation
    within = host.tree.nearest(context.cached(owners).is_evaluation | loaders) if loaders.any() else within
    row = host.row[nodes]
    call = host_activity.innermost(table, context.cached(updates), table.thread[row], table.start_ns[row])
    kept = (within[nodes] == NO_PARENT) & (call == NO_PARENT)
    return nodes[kept], sequence[kept]


def optimizer_starts(context: Context) -> tuple[I64, I64]:
    """Starts of the calls of `step`, and of `zero_grad`."""
    host, names = context.trace.host, context.trace.names
    rows = context.cached(ranges)
    found = [
        np.sort(host.start_ns[rows[names.where(kind)[host.name[rows]]]])
        for kind in (marks.is_optimizer_step, is_zero_grad)
    ]
    return found[0], found[1]


def backward(context: Context) -> Backward:
    """Find backward passes: runs of evaluations by autograd."""
    tree, table = context.host.tree, context.trace.host
    nodes = np.flatnonzero(context.cached(owners).is_evaluation)
    nodes = nodes[np.argsort(tree.start_ns[nodes], kind="stable")]
    if not len(nodes):
        return Backward(*(np.empty(0, np.int64) for _ in range(3)))
    start = tree.start_ns[nodes]
    others = np.sort(np.concatenate((_forward_starts(context), *context.cached(optimizer_starts))))
    run = np.searchsorted(others, start)
    run = np.cumsum(np.append(False, run[1:] != run[:-1]))
    sequence = table.sequence[context.host.row[nodes]]
    first = np.flatnonzero(np.append(True, run[1:] != run[:-1]))
    highest = np.maximum.reduceat(sequence, first)
    # Autograd works downwards: a run that does not begin above the one before continues it.
    begins = np.append(True, (highest[1:] > highest[:-1]) | (highest[1:] == UNKNOWN))
    begins[1:] |= _stepped(context, start[first])
    first = first[begins]
    end = np.maximum.reduceat(tree.end_ns[nodes], first)
    return Backward(start[first], end, np.diff(np.append(first, len(nodes))))


def _forward_starts(context: Context) -> I64:
    """Starts of functions that forward passes create; without numbers of autograd, of operators on other threads."""
    tree, created = context.host.tree, context.cached(graph)
    if len(created.node):
        return created.start_ns
    evaluating = distinct(tree.thread[context.cached(owners).is_evaluation])
    outermost = (context.host.kind == NodeKind.OPERATOR) & (tree.parent == NO_PARENT)
    starts: I64 = tree.start_ns[outermost & ~np.isin(tree.thread, evaluating)]
    return starts


def _stepped(context: Context, start: I64) -> Bool:
    """Whether a call of an optimizer lies between each run and the one before."""
    calls = np.sort(np.concatenate(context.cached(optimizer_starts)))
    before = np.searchsorted(calls, start)
    is_stepped: Bool = before[1:] != before[:-1]
    return is_stepped


def ranges(context: Context) -> I64:
    """Rows of the host table that are calls of an optimizer and lie in no other such call."""
    host = context.trace.host
    tree, rows = nest(host, np.flatnonzero(context.trace.names.where(marks.is_optimizer)[host.name]))
    return ascending(rows[tree.parent == NO_PARENT])


@cached
def outermost(context: Context) -> I64:
    """Operators in scope that the program calls itself: in no evaluation, optimizer, loader or other operator."""
    host, tree, table = context.host, context.host.tree, context.trace.host
    evaluation = context.cached(owners).is_evaluation
    around = host.is_row | evaluation | (host.kind == NodeKind.DATALOADER)
    nodes = np.flatnonzero(host.is_row & ~evaluation & (tree.around(around) == 0))
    nodes = nodes[context.in_scope(tree.start_ns[nodes])]
    row = host.row[nodes]
    autograd_range = host_activity.innermost(table, context.cached(ranges), table.thread[row], table.start_ns[row])
    found: I64 = nodes[autograd_range == NO_PARENT]
    return found


def has_closure(context: Context, calls: I64) -> Bool:
    """Which calls contain the start of an evaluation by autograd, on any thread."""
    host = context.trace.host
    start = ascending(context.host.tree.start_ns[context.cached(evaluations)])
    return np.searchsorted(start, host.start_ns[calls]) < np.searchsorted(start, host.end_ns[calls])


def updates(context: Context) -> I64:
    """The `ranges` without those that contain a closure of the program."""
    rows = context.cached(ranges)
    return rows[~has_closure(context, rows)]


def is_zero_grad(name: str) -> bool:
    """Whether a range is a call of `zero_grad`, by its name `Optimizer.zero_grad#<class>.zero_grad`."""
    return name.startswith(_ZERO_GRAD)


def engines(context: Context) -> dict[int, int]:
    """For each thread of autograd's own, the thread of its process that calls for the backward pass.

    A thread that evaluates functions is autograd's own if it does nothing else of a training.
    """
    threads = context.host.tree.thread
    loops = Counter(_threads(context.trace.host.thread[np.isin(context.kind, _OF_PROGRAM)]))
    forward = _count(threads[context.cached(graph).node])
    evaluating = _threads(threads[context.cached(owners).is_evaluation])
    own = [thread for thread in evaluating if thread not in loops and thread not in forward]
    calling: dict[str, int] = {}
    working = _count(threads[context.host.kind == NodeKind.OPERATOR])
    waiting = _threads(context.cached(host_activity.waits).thread)
    candidates = loops.keys() | forward.keys() | _marked(context) | working.keys() | set(waiting)
    for thread in sorted(candidates, key=lambda t: (t in loops, forward[t], working[t], -t)):
        if thread not in own:
            calling[context.trace.threads[thread].pid] = thread
    pids = {thread: context.trace.threads[thread].pid for thread in own}
    return {thread: calling[pid] for thread, pid in pids.items() if pid in calling}


def critical_threads(context: Context) -> tuple[int, ...]:
    """The thread that launches most, and, where it waits for autograd, the busiest thread of autograd's own.

    The thread of the program stands first. Empty where nothing is known to be launched.
    """
    launching, waiting = host_activity.launching_threads(context), context.cached(engines)
    if not launching:
        return ()
    main = waiting.get(launching[0], launching[0])
    engine = next((thread for thread in launching if waiting.get(thread) == main), None)
    return (main,) if engine is None else (main, engine)


def _marked(context: Context) -> set[int]:
    """Threads that have annotations."""
    return set(_threads(context.trace.host.thread[context.kind == NodeKind.NONE]))


def _threads(column: I32) -> list[int]:
    threads: list[int] = distinct(column).tolist()
    return threads


def _count(column: I32) -> Counter[int]:
    numbers, rank = ranked(column)
    return Counter(dict(zip(numbers.tolist(), np.bincount(rank, minlength=len(numbers)).tolist(), strict=True)))
