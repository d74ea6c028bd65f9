"""The forward and the backward pass of a training without marks for them, by autograd's events.

A forward pass lasts from the first operator that extends the graph of autograd to the last one before a backward pass,
an optimizer, a wait for a batch or a step begins. A backward pass lasts while autograd evaluates. In traces of 2021
operators have no numbers that show which ones extend the graph: then it is the longest run of operators before a
backward pass that none of these interrupts.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.analyzers.phases.costs import (
    device_idle,
    in_typical_steps,
    launch_marks,
    windows,
)
from traceanalyzer.knowledge import marks
from traceanalyzer.structure.autograd import (
    backward,
    critical_threads,
    engines,
    graph,
    optimizer_starts,
)
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.mark_forest import forest, mark_rows
from traceanalyzer.structure.module_calls import device_time, owners
from traceanalyzer.structure.sums import group, least_by, members, most_by, rows_by, sum_by
from traceanalyzer.trace.distinct import distinct, moments
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, Array, Bool, take_or
from traceanalyzer.trace.tables import Launches
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
    tree = context.host.tree
    passes = context.cached(backward)
    nodes = np.flatnonzero(context.cached(owners).is_evaluation)
    start = tree.start_ns[nodes]
    segment = np.searchsorted(passes.start_ns, start, side="right") - 1
    return _spanned(tree.thread[nodes], segment, start, tree.end_ns[nodes])


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
    earliest = np.append(np.iinfo(np.int64).min, ends)[segment]
    latest = np.append(ends, np.iinfo(np.int64).max)[segment]
    start = np.maximum(tree.start_ns[outer], earliest)
    end = np.minimum(tree.end_ns[outer], latest)
    return _spanned(tree.thread[nodes], segment, start, end)


def _before_backward(context: Context) -> I64:
    """For operators without sequence numbers: the longest run of operators before each backward pass."""
    tree = context.host.tree
    passes = context.cached(backward)
    nodes = _outermost_operators(context)
    first, run = group(np.searchsorted(_ends_of_forward(context), tree.start_ns[nodes], side="right"))
    time = sum_by(run, tree.end_ns[nodes] - tree.start_ns[nodes], len(first))
    following_pass = np.searchsorted(passes.start_ns, tree.start_ns[nodes[first]], side="right")
    order = np.lexsort((time, following_pass))
    is_longest = np.append(np.diff(following_pass[order]) > 0, True)[: len(order)]
    longest = order[is_longest]
    return nodes[np.isin(run, longest[following_pass[longest] < len(passes)])]


def _outermost_operators(context: Context) -> I64:
    """Operators of the threads that train, in no operator, evaluation, optimizer or loader."""
    host, tree = context.host, context.host.tree
    calls = context.trace.names.where(marks.is_optimizer)[host.name] | (host.kind == NodeKind.DATALOADER)
    evaluations = context.cached(owners).is_evaluation
    threads = [*context.cached(engines).values()] or distinct(tree.thread[evaluations])
    plain = host.is_row & np.isin(tree.thread, threads)
    outermost = plain & (take_or(tree.nearest(plain), tree.parent, NO_PARENT) == NO_PARENT)
    return np.flatnonzero(outermost & (tree.nearest(calls | evaluations) == NO_PARENT))


def _ends_of_forward(context: Context) -> I64:
    """Times at which a forward pass is over, ascending."""
    host = context.trace.host
    passes = context.cached(backward)
    steps = context.cached(windows)
    waits = host.start_ns[context.kind == NodeKind.DATALOADER]
    borders = (
        passes.start_ns,
        passes.end_ns,
        *context.cached(optimizer_starts),
        waits,
        steps.start_ns,
        steps.end_ns,
    )
    return moments(*borders)


def _spanned(thread: Array, segment: I64, start: I64, end: I64) -> Spans:
    """From the first start to the last end of each segment on each thread."""
    first, of_node = group(thread, segment)
    begin = least_by(of_node, start, len(first))
    last = most_by(of_node, end, len(first))
    return Spans(thread[first].astype(np.int64), begin, last, len(distinct(segment)))


def columns(context: Context, spans: Spans) -> dict[str, int | bool | None]:
    """The sums of a phase, as `Sums` has them of marks."""
    total = _device_sums(context, spans) | _host_sums(context, spans)
    critical = context.cached(critical_threads)
    steady = context.cached(in_typical_steps)
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
    device = context.cached(device_time)
    launching = np.flatnonzero(device)
    launched, span = _within(spans, context.trace.launches, launching)
    is_own = ~_are_marked(context, spans, launched, span)
    in_steps = context.cached(windows).contain(context.trace.launches.start_ns[launched])
    time = device[launched]
    typical = context.cached(in_typical_steps).device[launched]
    sums = {}
    for name, counted in (("device", np.ones_like(is_own)), ("device_self", is_own)):
        sums[name] = int(time[counted].sum())
        sums[f"{name}_in_steps"] = int(time[counted & in_steps].sum())
        sums[f"{name}_in_typical"] = int(typical[counted].sum())
    return sums


def _within(spans: Spans, launches: Launches, rows: I64) -> tuple[I64, I64]:
    """Which of some launches lie in spans of their thread, and in which."""
    span_of = np.full(len(rows), -1, np.int64)
    positions_of = rows_by(launches.thread[rows])
    for thread, of_thread in members(spans.thread):
        positions = positions_of(thread)
        times = launches.start_ns[rows[positions]]
        span = _span(spans.start_ns[of_thread], spans.end_ns[of_thread], times)
        span_of[positions] = np.where(span >= 0, of_thread[span], -1)
    inside = span_of >= 0
    return rows[inside], span_of[inside]


def _are_marked(context: Context, spans: Spans, launched: I64, span: I64) -> Bool:
    """Which launches in spans lie in a mark of the span's thread that begins within the span."""
    marks = context.cached(forest)
    mark = context.cached(launch_marks)[launched]
    is_on_thread = take_or(marks.thread, mark, NO_PARENT) == spans.thread[span]
    are_marked: Bool = is_on_thread & (take_or(marks.start_ns, mark, 0) >= spans.start_ns[span])
    return are_marked


def _host_sums(context: Context, spans: Spans) -> dict[str, int]:
    """The time in spans in which there are marks, and in which a device is idle."""
    forest_marks = context.cached(forest)
    critical = context.cached(critical_threads)
    steady = context.cached(in_typical_steps)
    total = dict.fromkeys(("idle", "idle_in_typical", "marked", "marked_in_typical"), 0)
    marks_of = rows_by(forest_marks.thread)
    for thread, rows in members(spans.thread):
        start = spans.start_ns[rows]
        end = spans.end_ns[rows]
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
