"""The forward and the backward pass of a training without marks for them, by autograd's events.

A forward pass lasts from the first operator that extends the graph of autograd to the last one before a backward pass,
an optimizer, a wait for a batch or a step begins. A backward pass lasts while autograd evaluates. In traces of 2021
operators have no numbers that show which ones extend the graph: then it is the longest run of operators before a
backward pass that none of these interrupts.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.analyzers.phases.costs import device_idle, in_typical_steps, launch_marks, windows
from traceanalyzer.knowledge import marks
from traceanalyzer.structure.autograd import backward, critical_threads, engines, graph, optimizer_starts
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.mark_forest import forest, mark_rows
from traceanalyzer.structure.module_calls import device_time, owners
from traceanalyzer.structure.sums import group, least_by, members, most_by, rows_by, sum_by
from traceanalyzer.trace.distinct import distinct, moments
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, Array, take_or
from traceanalyzer.trace.tree import NO_PARENT

FORWARD, BACKWARD = marks.PASSES


class Spans(msgspec.Struct, frozen=True):
    """When threads were in a phase; of one thread they do not overlap."""

    thread: I64
    start_ns: I64
    end_ns: I64
    calls: int


def is_training(context: Context) -> bool:
    """Whether autograd computed gradients."""
    return bool(context.in_scope(context.cached(backward).start_ns).any())


def missing_phases(context: Context) -> list[str]:
    """Which of the two passes of a training no mark shows."""
    if not is_training(context):
        return []
    host, names = context.trace.host, context.trace.names
    marked = [names[code] for code in distinct(host.name[mark_rows(context)]).tolist()]
    told = {phase for name in marked for phase in marks.passes(name)}
    return [phase for phase in marks.PASSES if phase not in told]


def spans(context: Context, phase: str) -> Spans:
    """When the program was in the forward or the backward pass."""
    passes = _forward(context) if phase == FORWARD else _backward(context)
    kept = context.in_scope(passes.start_ns) & (passes.end_ns > passes.start_ns)
    calls = passes.calls if kept.all() else int(kept.sum())
    return Spans(passes.thread[kept], passes.start_ns[kept], passes.end_ns[kept], calls)


def _backward(context: Context) -> Spans:
    """The evaluations of each pass on each thread, from the first to the last."""
    tree, passes = context.host.tree, context.cached(backward)
    nodes = np.flatnonzero(context.cached(owners).is_evaluation)
    segment = np.searchsorted(passes.start_ns, tree.start_ns[nodes], side="right") - 1
    return _spanned(tree.thread[nodes], segment, tree.start_ns[nodes], tree.end_ns[nodes])


def _forward(context: Context) -> Spans:
    """The operators that extended the graph, with those around them, between two events that end a forward pass."""
    host, tree = context.host, context.host.tree
    is_operator = (host.kind == NodeKind.OPERATOR) | (host.kind == NodeKind.PYTHON)
    around = tree.nearest(is_operator & (take_or(tree.nearest(is_operator), tree.parent, NO_PARENT) == NO_PARENT))
    nodes = context.cached(graph).node
    nodes = nodes if len(nodes) else _before_backward(context)
    outer = np.where(around[nodes] == NO_PARENT, nodes, around[nodes])
    ends = _ends_of_forward(context)
    segment = np.searchsorted(ends, tree.start_ns[nodes], side="right")
    low, high = np.append(np.iinfo(np.int64).min, ends)[segment], np.append(ends, np.iinfo(np.int64).max)[segment]
    start, end = np.maximum(tree.start_ns[outer], low), np.minimum(tree.end_ns[outer], high)
    return _spanned(tree.thread[nodes], segment, start, end)


def _before_backward(context: Context) -> I64:
    """For operators without sequence numbers: the longest run of operators before each backward pass."""
    host, tree, passes = context.host, context.host.tree, context.cached(backward)
    calls = context.trace.names.where(marks.is_optimizer)[host.name] | (host.kind == NodeKind.DATALOADER)
    evaluations = context.cached(owners).is_evaluation
    threads = [*context.cached(engines).values()] or distinct(tree.thread[evaluations])
    plain = host.is_row & np.isin(tree.thread, threads)
    outermost = plain & (take_or(tree.nearest(plain), tree.parent, NO_PARENT) == NO_PARENT)
    nodes = np.flatnonzero(outermost & (tree.nearest(calls | evaluations) == NO_PARENT))
    run = np.searchsorted(_ends_of_forward(context), tree.start_ns[nodes], side="right")
    first, of_node = group(run)
    time = sum_by(of_node, (tree.end_ns - tree.start_ns)[nodes], len(first))
    following = np.searchsorted(passes.start_ns, tree.start_ns[nodes[first]], side="right")
    order = np.lexsort((time, following))
    longest = order[np.append(np.diff(following[order]) > 0, True)[: len(order)]]
    return nodes[np.isin(of_node, longest[following[longest] < len(passes)])]


def _ends_of_forward(context: Context) -> I64:
    """Times at which a forward pass is over, ascending."""
    host, passes, steps = context.trace.host, context.cached(backward), context.cached(windows)
    waits = host.start_ns[context.kind == NodeKind.DATALOADER]
    borders = (passes.start_ns, passes.end_ns, *context.cached(optimizer_starts), waits, steps.start_ns, steps.end_ns)
    return moments(*borders)


def _spanned(thread: Array, segment: I64, start: I64, end: I64) -> Spans:
    """From the first start to the last end of each segment on each thread."""
    first, of_node = group(thread, segment)
    low, high = least_by(of_node, start, len(first)), most_by(of_node, end, len(first))
    return Spans(thread[first].astype(np.int64), low, high, len(distinct(segment)))


def columns(context: Context, spans: Spans) -> dict[str, int | bool | None]:
    """The sums of a phase, as `Sums` has them of marks."""
    total = _device_sums(context, spans) | _host_sums(context, spans)
    critical, steady = context.cached(critical_threads), context.cached(in_typical_steps)
    host = int((spans.end_ns - spans.start_ns).sum())
    steady_host = int(steady.times.within(spans.start_ns, spans.end_ns).sum())
    return total | {
        "calls": spans.calls,
        "recursive_calls": 0,
        "depth": 0,
        "threads": len(distinct(spans.thread)),
        "host": host,
        "host_self": host - total["marked"],
        "host_in_typical": steady_host,
        "host_self_in_typical": steady_host - total["marked_in_typical"],
        "idle_self": None,
        "has_idle": bool(np.isin(spans.thread, critical).any()),
    }


def _device_sums(context: Context, spans: Spans) -> dict[str, int]:
    """The device time that was launched in spans, and the part of it that no mark inside launched."""
    forest_marks, launches = context.cached(forest), context.trace.launches
    device, mark_of = context.cached(device_time), context.cached(launch_marks)
    in_steps, steady = context.cached(windows).contain(launches.start_ns), context.cached(in_typical_steps)
    parts = [f"{name}{part}" for name in ("device", "device_self") for part in ("", "_in_steps", "_in_typical")]
    total = dict.fromkeys(parts, 0)
    launching = np.flatnonzero(device)
    launching_of = rows_by(launches.thread[launching])
    for thread, rows in members(spans.thread):
        start = spans.start_ns[rows]
        launched = launching[launching_of(thread)]
        span = _span(start, spans.end_ns[rows], launches.start_ns[launched])
        launched, span = launched[span >= 0], span[span >= 0]
        mark = mark_of[launched]
        is_nested = take_or(forest_marks.thread, mark, NO_PARENT) == thread
        is_nested &= take_or(forest_marks.start_ns, mark, 0) >= start[span]
        for name, counted in (("device", launched), ("device_self", launched[~is_nested])):
            total[name] += int(device[counted].sum())
            total[f"{name}_in_steps"] += int(device[counted[in_steps[counted]]].sum())
            total[f"{name}_in_typical"] += int(steady.device[counted].sum())
    return total


def _host_sums(context: Context, spans: Spans) -> dict[str, int]:
    """The time in spans in which there are marks, and in which a device is idle."""
    forest_marks, critical = context.cached(forest), context.cached(critical_threads)
    steady = context.cached(in_typical_steps)
    total = dict.fromkeys(("idle", "idle_in_typical", "marked", "marked_in_typical"), 0)
    marks_of = rows_by(forest_marks.thread)
    for thread, rows in members(spans.thread):
        start, end = spans.start_ns[rows], spans.end_ns[rows]
        marks = marks_of(thread)
        inside = marks[_span(start, end, forest_marks.start_ns[marks]) >= 0]
        marked = Intervals.union(forest_marks.start_ns[inside], forest_marks.end_ns[inside])
        total["marked"] += int(marked.within(start, end).sum())
        total["marked_in_typical"] += int((marked & steady.times).within(start, end).sum())
        if thread in critical:
            total["idle"] += int(context.cached(device_idle).within(start, end).sum())
            total["idle_in_typical"] += int(steady.idle.within(start, end).sum())
    return total


def _span(start: I64, end: I64, times: I64) -> I64:
    """The span that contains each point in time, -1 for none."""
    row = np.searchsorted(start, times, side="right") - 1
    return np.where((row >= 0) & (times < take_or(end, row, 0)), row, -1)
