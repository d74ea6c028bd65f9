"""Which forward and backward passes does training make for each update of the parameters, and what are they for?

By the ranges of optimizers, by what autograd evaluates, and by the numbers of the functions that the forward pass
creates: which passes computed gradients that `zero_grad` threw away, and which extended the graph of autograd for
nothing. Where optimizers take turns between two backward passes, it is unknown whose gradients were thrown away, so
this is left out. Everything counts that starts in the chosen steps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np

from traceanalyzer.analyzers.optimizer import backward_pass, exchanges, repeated_passes
from traceanalyzer.analyzers.optimizer.exchanges import Accumulation, Pipeline
from traceanalyzer.analyzers.optimizer.repeated_passes import RepeatedForward
from traceanalyzer.knowledge import marks
from traceanalyzer.report.message import Text
from traceanalyzer.structure import host_activity
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.autograd import Backward, backward, graph, optimizer_starts
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import EventSet, Occurrences, event_set
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.module_calls import device_time, is_accumulation, owners
from traceanalyzer.structure.operator_times import node_times
from traceanalyzer.structure.owners import owner_index
from traceanalyzer.structure.recording.program_steps import count_steps
from traceanalyzer.structure.sums import count_by, group, least_by, members, most_by
from traceanalyzer.trace.distinct import ascending, distinct
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I32, I64, Array, Bool, take_or
from traceanalyzer.trace.tree import NO_PARENT

_USES_GRADIENTS = re.compile(
    r"_foreach_|_fused_|_amp_|norm|clip|clone|stack|cat$|reduce|nccl|(add|sub|mul|div|copy|lerp)_$"
)
"""Operators after a backward pass that read gradients: they are kept, checked, clipped, or stepped along."""
_ACCUMULATION = "torch::autograd::AccumulateGrad"
_DISCARDED_SHOWN = 5
_UNUSED_SHOWN = 10


class Passes(msgspec.Struct, frozen=True):
    """Forward and backward passes of a training, and how their results are used."""

    backward_passes: int
    """Number of backward passes."""
    updates: int
    """Number of calls of `step` of an optimizer."""
    zero_grads: int
    """Number of calls of `zero_grad`."""
    graph_functions: int
    """Number of functions that forward passes added to the graph of autograd."""
    graph_passes: int
    """Most calls of one outermost module that added functions to the graph; steps that did where modules were not
    recorded."""
    graph_host_ns: int
    """Host time in ns of the operators that added them."""
    graph_start_ns: int | None
    """Start of the first of these operators in ns since the first event; null if there is none."""
    discarded: Discarded | None
    """Passes whose gradients `zero_grad` discarded; null if there are none, or if it is unknown."""
    unused: tuple[UnusedForward, ...]
    """Modules with forward passes that no backward pass belongs to, beside others that have one."""
    accumulation: Accumulation | None
    """Updates from several backward passes; null if there are none."""
    added_ns: int = 0
    """Host time in ns in which autograd added gradients to existing gradients of parameters."""
    repeated: RepeatedForward | None = None
    """Forward passes that run once more without autograd; null if there are none."""
    pipeline: Pipeline | None = None
    """Waiting of a stage of a pipeline; null if the program has no pipeline, or it is unknown."""
    added_device_ns: int = 0
    """Device time in ns of adding gradients to existing gradients of parameters."""
    again_ns: int = 0
    """Host time in ns in which autograd differentiates what its own backward passes computed (`create_graph=True`)."""


def analyze(context: Context) -> Passes:
    """Count the passes, and find those whose results are not used."""
    updates, zeroed = context.cached(optimizer_starts)
    tree = context.host.tree
    created = np.flatnonzero(context.in_scope(context.cached(graph).start_ns))
    nodes = context.cached(graph).node[created]
    added = _additions(context)
    added = added[context.in_scope(tree.start_ns[added])]
    return Passes(
        backward_passes=int(context.in_scope(context.cached(backward).start_ns).sum()),
        updates=int(context.in_scope(updates).sum()),
        zero_grads=int(context.in_scope(zeroed).sum()),
        graph_functions=len(nodes),
        graph_passes=_graph_passes(context, created),
        graph_host_ns=int((tree.end_ns - tree.start_ns)[nodes].sum()),
        graph_start_ns=int(tree.start_ns[nodes[0]]) if len(nodes) else None,
        discarded=find_discarded(context),
        unused=find_unused(context),
        accumulation=exchanges.accumulation(context),
        added_ns=int((tree.end_ns - tree.start_ns)[added].sum()),
        added_device_ns=int(context.cached(node_times).device_total_ns[added].sum()),
        again_ns=backward_pass.again_ns(context),
        repeated=repeated_passes.find(context),
        pipeline=exchanges.pipeline(context),
    )


def _additions(context: Context) -> I64:
    """Nodes of additions in place within evaluations that accumulate gradients."""
    host, names = context.host, context.trace.names
    adds = names.where(lambda name: name == "aten::add_")[host.name] & ~host.merged
    accumulates = _accumulates(context)
    return np.flatnonzero(adds & (accumulates | (host.tree.around(accumulates) > 0)))


def _accumulates(context: Context) -> Bool:
    """Nodes of evaluations that add to gradients of parameters."""
    of_names = context.trace.names.where(is_accumulation)[context.host.name]
    found: Bool = context.cached(owners).is_evaluation & of_names
    return found


@event_set
def additions_at(context: Context, beside: EventSet) -> Iterator[Occurrences]:
    """When gradients are added to existing ones, and when other events run, such as calls of zero_grad."""
    yield from beside.found(context)
    yield Occurrences.of_nodes(context, "additions", _additions(context))


def _graph_passes(context: Context, created: I64) -> int:
    """Most calls of one outermost module, or else steps, that created some of these functions of the graph."""
    modules = context.cached(roots)
    start = context.cached(graph).start_ns[created]
    if len(modules.start_ns):
        calls = distinct(modules.of_graph[created][modules.of_graph[created] >= 0])
        kind = group(modules.name[calls], modules.instance[calls])[1]
        return int(np.bincount(kind).max(initial=0))
    return count_steps(context, start)


class Waste(msgspec.Struct, frozen=True):
    """A forward and backward pass whose gradients were not used."""

    start_ns: int
    """Start of the forward part in ns since the first event."""
    functions: int
    """Number of functions that autograd evaluated."""
    device_ns: int
    """Device time in ns of what the forward and the backward part launched."""
    host_ns: int
    """Time in ns from the first operator of the forward part to the end of the backward part."""


class Discarded(msgspec.Struct, frozen=True):
    """Forward and backward passes between an update and a `zero_grad`, with no update between."""

    passes: int
    """Number of passes whose gradients were thrown away."""
    updates: int
    """Number of updates before which that happens."""
    device_ns: int
    """Device time of these passes in ns."""
    host_ns: int
    """Time of these passes on the host in ns, from the first operator of each to its end."""
    examples: tuple[Waste, ...]
    """The passes with the most device time, at most five."""


@event_set
def passes_at(
    context: Context, row: Discarded | UnusedForward | RepeatedForward, *, on_device: bool
) -> Iterator[Occurrences]:
    """When passes whose results are not used run on the host, or what they launched on devices."""
    found = _discarded_at(context) if isinstance(row, Discarded) else repeated_passes.repeated_at().found(context)
    for part in _unused_at(context, row) if isinstance(row, UnusedForward) else found:
        if on_device:
            during = Intervals.union(part.start_ns, part.end_ns)
            called = context.trace.launches.start_ns
            inside = take_or(during.within(called, called + 1) > 0, context.links.launch, missing=False)
            yield Occurrences.on_device(context, part.name, np.flatnonzero(inside))
        else:
            yield part


def _discarded_at(context: Context) -> Iterator[Occurrences]:
    found, _ = _discarded(context)
    start = np.array([waste.start_ns for waste in found], np.int64)
    thread = np.full(len(found), context.cached(owner_index).critical.main, np.int64)
    yield Occurrences("host", "backward", thread, start, start + np.array([waste.host_ns for waste in found], np.int64))


def find_discarded(context: Context) -> Discarded | None:
    """Find passes that end in `zero_grad` instead of an update; None if there are none or it is unknown."""
    found, updates = _discarded(context)
    if not found:
        return None
    ranked = sorted(found, key=lambda waste: (-waste.device_ns, -waste.host_ns, waste.start_ns))
    return Discarded(
        len(found),
        updates,
        sum(waste.device_ns for waste in found),
        sum(waste.host_ns for waste in found),
        tuple(ranked[:_DISCARDED_SHOWN]),
    )


def _discarded(context: Context) -> tuple[list[Waste], int]:
    """Passes that end in `zero_grad`, and before how many updates; none if it is unknown."""
    passes, (steps, zeroed) = context.cached(backward), context.cached(optimizer_starts)
    if not len(passes) or not len(steps) or not len(zeroed) or _take_turns(context):
        return [], 0
    end = np.iinfo(np.int64).max
    step, zero = (take_or(times, np.searchsorted(times, passes.end_ns), end) for times in (steps, zeroed))
    lost = (zero < step) & (step < end) & context.in_scope(passes.start_ns) & _fills_gradients(context, passes)
    lost &= ~np.isin(zero, _used(context, passes, lost, zero))
    found = [_waste(context, passes, number) for number in np.flatnonzero(lost).tolist()]
    return found, len(distinct(step[lost]))


def _fills_gradients(context: Context, passes: Backward) -> Bool:
    """Which passes add to gradients of parameters: what `autograd.grad` returns, `zero_grad` cannot throw away.

    For that autograd evaluates their functions as well, but does not call them.
    """
    called = context.trace.names.where(lambda name: name == _ACCUMULATION)[context.host.name]
    start = ascending(context.host.tree.start_ns[called if called.any() else _accumulates(context)])
    found: Bool = np.searchsorted(start, passes.start_ns) < np.searchsorted(start, passes.end_ns)
    return found if found.any() else ~found


def _take_turns(context: Context) -> bool:
    """Whether several optimizers take turns: some steps follow each other without a backward pass between."""
    passes, (steps, _) = context.cached(backward), context.cached(optimizer_starts)
    passed = np.searchsorted(passes.start_ns, steps)
    return any(a == b for a, b in pairwise(passed.tolist()))


def _used(context: Context, passes: Backward, lost: Bool, zero: I64) -> I64:
    """Times of those calls of `zero_grad` between which and the pass before something reads gradients."""
    host, tree = context.host, context.host.tree
    reads = context.trace.names.where(lambda name: _USES_GRADIENTS.search(name) is not None)
    start = ascending(tree.start_ns[host.is_row & reads[host.name]])
    last = np.full(len(zero), 0, np.int64)
    for number in np.flatnonzero(lost).tolist():  # the last pass before the same call
        last[zero == zero[number]] = passes.end_ns[number]
    between = np.searchsorted(start, zero) > np.searchsorted(start, last)
    return distinct(zero[lost & between])


def _waste(context: Context, passes: Backward, number: int) -> Waste:
    """One pass with the forward part before it."""
    created = context.cached(graph).start_ns
    steps = np.sort(np.concatenate(context.cached(optimizer_starts)))
    start = int(passes.start_ns[number])
    end = int(passes.end_ns[number])
    before = int(passes.end_ns[number - 1]) if number else 0
    boundary = max(before, int(take_or(steps, np.searchsorted(steps, start) - 1, 0)) if len(steps) else 0)
    first = int(np.searchsorted(created, boundary))
    begin = int(created[first]) if first < len(created) and created[first] < start else start
    launched = slice(*np.searchsorted(context.trace.launches.start_ns, (begin, end)).tolist())
    device = int(context.cached(device_time)[launched].sum())
    return Waste(begin, int(passes.functions[number]), device, end - begin)


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
    host = context.host
    tree = context.host.tree
    found = context.cached(owners)
    above = np.append(tree.nearest(found.is_module | found.is_evaluation), NO_PARENT)
    is_root: Bool = found.is_module & (above[tree.parent] == NO_PARENT)
    nodes = np.flatnonzero(is_root)
    root = tree.nearest(is_root)[context.cached(graph).node]
    frames = context.trace.frames
    row = host.row[nodes]
    number = np.where(root == NO_PARENT, NO_PARENT, np.searchsorted(nodes, root))
    name = host.name[nodes]
    thread = frames.thread[row]
    return Roots(name, frames.module_id[row], thread, tree.start_ns[nodes], tree.end_ns[nodes], number)


def _wrappers(context: Context) -> Roots:
    table = context.trace.host
    rows = np.flatnonzero(context.trace.names.where(marks.DATA_PARALLEL.__contains__)[table.name])
    created = context.host.row[context.cached(graph).node]
    row = host_activity.innermost(table, rows, table.thread[created], table.start_ns[created])
    number = np.where(row == NO_PARENT, NO_PARENT, np.searchsorted(rows, row))
    start = table.start_ns[rows]
    none = np.zeros(len(rows), np.int64)
    return Roots(table.name[rows], none, table.thread[rows], start, start + table.dur_ns[rows], number)


def find_unused(context: Context) -> tuple[UnusedForward, ...]:
    """Modules with unused calls, those with most device time first."""
    calls = context.cached(roots)
    rows = [_unused(context, calls, kind) for kind in _unused_calls(context)]
    return tuple(sorted(rows, key=lambda row: (-row.device_ns, -row.host_ns, row.name, row.start_ns))[:_UNUSED_SHOWN])


def _unused_at(context: Context, row: UnusedForward) -> Iterator[Occurrences]:
    calls = context.cached(roots)
    for kind in _unused_calls(context):
        if row.start_ns in calls.start_ns[kind.unused]:
            thread = calls.thread[kind.unused].astype(np.int64)
            yield Occurrences("host", row.name, thread, calls.start_ns[kind.unused], calls.end_ns[kind.unused])


class _UnusedCalls(msgspec.Struct, frozen=True):
    """Calls of one module on inputs of one shape that no function evaluated by autograd belongs to."""

    unused: I64
    """Positions among the outermost calls."""
    calls: int
    """Number of all its calls."""
    updates: int
    shapes: str


def _unused_calls(context: Context) -> list[_UnusedCalls]:
    """Such calls beside others of the same module that reach a backward pass before the same update."""
    calls = context.cached(roots)
    passes = context.cached(backward)
    steps = context.cached(optimizer_starts)[0]
    if not (calls.of_graph >= 0).any() or not len(passes) or not len(steps):
        return []
    extending = _extending_calls(context, calls)
    start = calls.start_ns[extending.call]
    update = np.searchsorted(steps, start)
    judged = np.flatnonzero((update < len(steps)) & (start < passes.start_ns[-1]) & context.in_scope(start))
    unused_calls = []
    for _, rows in members(extending.kind[judged]):
        of_kind = judged[rows]
        unused = _unused_of_kind(of_kind, extending.is_evaluated[of_kind], update)
        if len(unused):
            shapes = context.trace.shapes[extending.shapes[of_kind[0]]]
            updates = len(distinct(update[unused]))
            unused_calls.append(_UnusedCalls(extending.call[unused], len(of_kind), updates, shapes))
    return unused_calls


def _unused_of_kind(calls: I64, is_evaluated: Bool, update: I64) -> I64:
    """The calls that autograd does not evaluate, before updates for which it evaluates others."""
    useful_updates = distinct(update[calls[is_evaluated]])
    return calls[~is_evaluated & np.isin(update[calls], useful_updates)]


class _ExtendingCalls(NamedTuple):
    """The outermost calls that extend the graph of autograd, ascending."""

    call: I64
    """Positions among the outermost calls."""
    shapes: Array
    """Codes of the input shapes of the first operator in each that autograd knows."""
    kind: I64
    """Equal for calls of one module on inputs of one shape that extend the graph by as many functions."""
    is_evaluated: Bool
    """Whether autograd evaluated one of these functions."""


def _extending_calls(context: Context, calls: Roots) -> _ExtendingCalls:
    created = context.cached(graph)
    known = calls.of_graph >= 0
    # A function of the graph has a call around it (of_graph); the numbers of a call's functions are a range.
    extending, first = np.unique(calls.of_graph[known], return_index=True)
    call = np.searchsorted(extending, calls.of_graph[known])
    low = least_by(call, created.sequence[known], len(extending))
    high = most_by(call, created.sequence[known], len(extending))
    shapes = context.trace.host.shapes[context.host.row[created.node[known][first]]]
    functions = count_by(call, len(extending))
    _, kind = group(calls.name[extending], calls.instance[extending], shapes, functions)
    return _ExtendingCalls(extending, shapes, kind, _evaluated(context, low, high))


def _evaluated(context: Context, low: I64, high: I64) -> Bool:
    """Whether autograd evaluated a function with a number of each range."""
    host, table = context.host, context.trace.host
    nodes = np.flatnonzero(context.cached(owners).is_evaluation)
    numbers = np.sort(table.sequence[host.row[nodes]])
    return np.searchsorted(numbers, high, side="right") > np.searchsorted(numbers, low, side="left")


def _unused(context: Context, calls: Roots, kind: _UnusedCalls) -> UnusedForward:
    launches, unused = context.trace.launches, kind.unused
    device = 0
    for call in unused.tolist():
        inside = slice(*np.searchsorted(launches.start_ns, (calls.start_ns[call], calls.end_ns[call])).tolist())
        device += int(context.cached(device_time)[inside][launches.thread[inside] == calls.thread[call]].sum())
    return UnusedForward(
        name=context.trace.names[calls.name[unused[0]]],
        input_shapes=kind.shapes,
        calls=kind.calls,
        unused_calls=len(unused),
        updates=kind.updates,
        device_ns=device,
        host_ns=int((calls.end_ns[unused] - calls.start_ns[unused]).sum()),
        start_ns=int(calls.start_ns[unused].min()),
    )


_AUTOGRAD = Need(
    Text(
        "skip-no-autograd",
        "the trace has no backward pass, and its operators have no sequence numbers of autograd (no gradients, or an "
        "old torch)",
    ),
    lambda context: bool(len(context.cached(backward)) or len(context.cached(graph).node)),
)
ANALYSES = (Analysis(430, "passes", Passes, analyze, needs=(_AUTOGRAD,), is_of_steps=True),)
