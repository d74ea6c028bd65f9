"""Does the backward pass compute activations again that the forward pass computed?

Activation checkpointing (`torch.utils.checkpoint`) runs a part of the forward pass once more within the evaluation of
the first function of autograd that needs it. So operators within an evaluation add functions to the graph, and two that
follow each other there follow each other in the forward pass, too, on inputs of the same shapes. A backward pass that
is itself differentiated (`create_graph=True`) adds functions as well, but those of other operators in another order.
The reentrant variant runs the forward pass without autograd, so that its operators have no numbers of the graph; it is
known by the name of its function (`CheckpointFunctionBackward`), in which it computes before it differentiates.

And does autograd check for anomalies? In anomaly mode (`torch.autograd.set_detect_anomaly`, `detect_anomaly`,
Lightning's `detect_anomaly=True`) autograd formats the Python stack for each function that the forward pass adds to the
graph (`Node` stores it when it is made, torch/csrc/autograd/function.h), and looks for NaN in all that each function of
the backward pass returns (`validate_outputs` in torch/csrc/autograd/engine.cpp): `aten::isnan`, `aten::_is_any_true` or
`aten::any`, and `aten::item`, directly within the evaluation, after the function itself.

A stack is formatted before the operator calls any other, so its time is the time until then, less that of operators
that add no function. An operator that calls no other has no such moment: it gets the median of the others, at most its
duration.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
import numpy as np

from traceanalyzer.knowledge import marks
from traceanalyzer.report.message import Text
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.autograd import graph
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import Occurrences, event_set
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.module_calls import device_time, forward_nodes, is_accumulation, owners
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.structure.sums import group, most_by
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.table import I32, I64, UNKNOWN, Bool, take_or
from traceanalyzer.trace.tree import NO_PARENT

_ALIKE = 0.75
"""Share of the pairs of operators within an evaluation that must follow each other in the forward pass (own choice: the
first operator of a segment may differ, and so may a last one that is stopped early)."""
_FEWEST = 3
"""Operators that a segment has at least (own choice: the backward pass of one function may have two by chance)."""
_NAMES = 8
_TWICE, _REPEATS = "BackwardBackward", "Checkpoint"
"""In names of functions that differentiate a backward pass, and that compute a forward pass again."""
_CHECK = "aten::isnan"
_CHECKPOINT = re.compile(r"Checkpoint(?:Function)?Backward$")


class Recomputation(msgspec.Struct, frozen=True):
    """What is computed again in the backward passes of the typical steps; times in ns are sums over them."""

    steps: int
    """Number of typical steps."""
    segments: int
    """Evaluations of autograd within which a part of the forward pass is computed again."""
    operators: int
    """Operators that the program calls and that are computed again."""
    host_ns: int
    """Host time from the start of each of these evaluations to the end of the last operator that is computed again."""
    device_ns: int | None
    """Device time of everything launched in this host time; null if nothing ran on a device."""
    names: tuple[str, ...]
    """Names of these operators, those that take longest first, at most eight."""
    start_ns: int
    """Start of the longest segment in ns since the first event."""


def recomputation(context: Context) -> Recomputation:
    """Add up the segments."""
    host, tree = context.host, context.host.tree
    found = context.cached(_segments)
    start = tree.start_ns[found.evaluation]
    end = found.end_ns
    duration = tree.end_ns[found.operator] - tree.start_ns[found.operator]
    first, groups = group(host.name[found.operator])
    time = np.bincount(groups, weights=duration)
    order = np.lexsort((np.arange(len(first)), -time))[:_NAMES]
    return Recomputation(
        steps=len(program_steps(context).typical),
        segments=len(start),
        operators=len(found.operator),
        host_ns=int((end - start).sum()),
        device_ns=_device_ns(context, found),
        names=tuple(context.trace.names[code] for code in host.name[found.operator[first[order]]].tolist()),
        start_ns=int(start[(end - start).argmax()]),
    )


def again_ns(context: Context) -> int:
    """Time of evaluations of functions that other evaluations created, but not to compute a forward pass again."""
    host, tree, names = context.host, context.host.tree, context.trace.names
    if not names.where(lambda name: _TWICE in name)[host.name].any():
        return 0
    nodes, source = forward_nodes(context)
    around = take_or(context.cached(owners).evaluation, source, NO_PARENT)
    repeats = take_or(names.where(lambda name: _REPEATS in name)[host.name], around, True)
    again = nodes[(around != NO_PARENT) & ~repeats & context.in_scope(tree.start_ns[nodes])]
    return int((tree.end_ns - tree.start_ns)[again].sum())


class _Segments(msgspec.Struct, frozen=True):
    """Evaluations that compute something again, when each is done with it, and the operators that it repeats."""

    evaluation: I64
    end_ns: I64
    operator: I64


def _segments(context: Context) -> _Segments:
    named, repeating = _of_checkpoints(context), _repeating(context)
    others = ~np.isin(repeating.evaluation, named.evaluation)
    around = context.cached(owners).evaluation
    operators = repeating.operator[np.isin(around[repeating.operator], repeating.evaluation[others])]
    return _Segments(
        np.append(named.evaluation, repeating.evaluation[others]),
        np.append(named.end_ns, repeating.end_ns[others]),
        np.append(named.operator, operators),
    )


def _of_checkpoints(context: Context) -> _Segments:
    """What functions of checkpoints compute themselves, until they differentiate it."""
    host, tree, names = context.host, context.host.tree, context.trace.names
    is_checkpoint = names.where(lambda name: _CHECKPOINT.search(name) is not None)[host.name]
    if not is_checkpoint.any():
        return _Segments(*np.empty((3, 0), np.int64))
    plain = (host.kind == NodeKind.OPERATOR) & ~names.where(_is_frame_of_autograd)[host.name]
    nodes = np.flatnonzero(plain & ~take_or(plain, tree.nearest(plain)[tree.parent], missing=False))
    nodes = nodes[tree.parent[nodes] != NO_PARENT]
    nodes = nodes[is_checkpoint[tree.parent[nodes]] & _is_typical(context, nodes)]
    segment, row = np.unique(context.cached(owners).evaluation[nodes], return_inverse=True)
    if len(segment) and segment[0] == NO_PARENT:  # an event that no evaluation is around
        nodes, segment, row = nodes[row > 0], segment[1:], row[row > 0] - 1
    return _Segments(segment.astype(np.int64), most_by(row, tree.end_ns[nodes], len(segment)), nodes)


def _is_typical(context: Context, nodes: I64) -> Bool:
    """Which of some nodes begin in typical steps; all, if there are none."""
    steps = program_steps(context).typical
    if not len(steps):
        return np.ones(len(nodes), np.bool_)
    typical: Bool = steps.at(context.host.tree.start_ns[nodes]) >= 0
    return typical


def _repeating(context: Context) -> _Segments:
    """Evaluations within which operators of the forward pass follow each other once more."""
    called, evaluation = _called(context)
    inside = evaluation != NO_PARENT
    pair = _pairs_of_kinds(context, called, evaluation)
    forward = distinct(pair[~inside & (pair >= 0)])
    within = np.flatnonzero(inside)
    if not len(within) or not len(forward):
        return _Segments(*np.empty((3, 0), np.int64))
    segment, row = np.unique(evaluation[within], return_inverse=True)
    kept = _repeats(pair[within], forward, row, len(segment)) & _is_typical(context, segment)
    end = most_by(row, context.host.tree.end_ns[called[within]], len(segment))
    return _Segments(segment[kept], end[kept], called[within][kept[row]])


def _pairs_of_kinds(context: Context, called: I64, evaluation: I64) -> I64:
    """For each operator what it and the one before it are, by name and shapes; -1 for the first one at a place."""
    table = context.trace.host
    rows = context.host.row[called]
    _, kind = group(table.name[rows], table.shapes[rows])
    return _pairs(kind, called, evaluation, context.host.tree.thread[called])


def _repeats(pair: I64, forward: I64, segment: I64, count: int) -> Bool:
    """Whether each segment repeats the forward pass: it has enough operators, and most of its pairs occur there."""
    is_known = np.isin(pair, forward) & (pair >= 0)
    operators = np.bincount(segment, minlength=count)
    pairs = np.bincount(segment, weights=pair >= 0, minlength=count)
    alike = np.bincount(segment, weights=is_known, minlength=count)
    repeats: Bool = (operators >= _FEWEST) & (alike >= _ALIKE * pairs) & (pairs >= _FEWEST - 1)
    return repeats


def _called(context: Context) -> tuple[I64, I64]:
    """Operators that add to the graph and that no other operator calls, and the evaluation around each, -1 for none.

    Within an evaluation these are the ones that a function of autograd calls, and that have a number of the graph of
    their own.
    """
    host, table, names = context.host, context.trace.host, context.trace.names
    tree = host.tree
    plain = np.isin(host.kind, (NodeKind.OPERATOR, NodeKind.PYTHON)) & ~names.where(_is_frame_of_autograd)[host.name]
    nodes = np.flatnonzero(plain)
    row = host.row[nodes]
    nodes = nodes[(table.sequence[row] != UNKNOWN) & (table.forward_thread[row] <= 0)]
    adds = np.zeros(len(tree), np.bool_)
    adds[nodes] = True
    nodes = nodes[tree.around(adds)[nodes] == 0]
    return nodes, context.cached(owners).evaluation[nodes]


def _is_frame_of_autograd(name: str) -> bool:
    return marks.is_backward(name) or name.startswith(("autograd::", "torch::autograd::")) or marks.is_wrapper(name)


def _pairs(kind: I64, nodes: I64, evaluation: I64, thread: I32) -> I64:
    """For each operator a number of itself and the one before it, in the same evaluation or on the same thread; -1."""
    found = np.full(len(nodes), -1, np.int64)
    if len(nodes) > 1:
        same = (evaluation[1:] == evaluation[:-1]) & (thread[1:] == thread[:-1])
        found[1:] = np.where(same, kind[1:] * (int(kind.max()) + 1) + kind[:-1], -1)
    return found


@event_set
def recomputed_at(context: Context, *, on_device: bool) -> Iterator[Occurrences]:
    """When typical steps compute parts of the forward pass again: what they launch, or the time on the host."""
    found = context.cached(_segments)
    tree = context.host.tree
    if on_device:
        rows = np.flatnonzero(take_or(_launches(context, found), context.links.launch, missing=False))
        yield Occurrences.on_device(context, "recomputation", rows)
        return
    thread = tree.thread[found.evaluation].astype(np.int64)
    yield Occurrences("host", "recomputation", thread, tree.start_ns[found.evaluation], found.end_ns)


def _device_ns(context: Context, found: _Segments) -> int | None:
    device = context.cached(device_time)
    return int(device[_launches(context, found)].sum()) if device.any() else None


def _launches(context: Context, found: _Segments) -> Bool:
    """Which launches are made while something is computed again."""
    launches, tree = context.trace.launches, context.host.tree
    node = context.cached(owners).launch_node
    evaluation = context.cached(owners).evaluation
    around = np.where(node == NO_PARENT, NO_PARENT, evaluation[node])
    end = np.full(len(tree), -1, np.int64)
    end[found.evaluation] = found.end_ns
    inside: Bool = (around != NO_PARENT) & (launches.start_ns < np.append(end, -1)[around])
    return inside


class NanChecks(msgspec.Struct, frozen=True):
    """What autograd does in anomaly mode; sums over the typical steps, times in ns of the host."""

    steps: int
    """Number of typical steps."""
    functions: int
    """Functions of the backward pass that were evaluated, without those that add to gradients of parameters."""
    checked: int
    """Number of these functions whose results autograd checked for NaN."""
    checks_ns: int
    """Time from the first such check of each function to the end of its evaluation."""
    stacks: int
    """Functions that the forward pass added to the graph."""
    stacks_ns: int
    """Time between the start and the work of operators that extend the graph, beyond the usual time of other
    operators."""
    start_ns: int
    """Start of the first check in ns since the first event."""


def nan_checks(context: Context) -> NanChecks:
    """Add up what checks and stacks take."""
    tree = context.host.tree
    steps = program_steps(context).typical
    found, (nodes, stacks) = context.cached(_checks), _stacks(context)
    return NanChecks(
        steps=len(steps),
        functions=found.functions,
        checked=len(found.evaluation),
        checks_ns=int((tree.end_ns[found.evaluation] - tree.start_ns[found.first]).sum()),
        stacks=len(nodes),
        stacks_ns=int(stacks.sum()),
        start_ns=int(tree.start_ns[found.first].min()),
    )


class _Checks(msgspec.Struct, frozen=True):
    """Evaluations in typical steps whose results were checked, and the first check of each, as nodes."""

    functions: int
    evaluation: I64
    first: I64


def _checks(context: Context) -> _Checks:
    host = context.host
    steps = program_steps(context).typical
    tree, names = host.tree, context.trace.names
    evaluation = context.cached(owners).is_evaluation & ~names.where(is_accumulation)[host.name]
    counted = np.flatnonzero(evaluation)
    counted = counted[steps.at(tree.start_ns[counted]) >= 0] if len(steps) else counted[:0]
    is_counted = np.zeros(len(tree), np.bool_)
    is_counted[counted] = True
    checks = np.flatnonzero((host.name == names.code(_CHECK)) & (tree.parent != NO_PARENT))
    is_first = checks == tree.parent[checks].astype(np.int64) + 1  # hooks come before the function, checks after it
    checks = checks[is_counted[tree.parent[checks]] & ~is_first]
    checked, first = np.unique(tree.parent[checks], return_index=True)
    return _Checks(len(counted), checked.astype(np.int64), checks[first])


@event_set
def nan_checks_at(context: Context) -> Iterator[Occurrences]:
    """When typical steps look for NaN and format stacks."""
    tree = context.host.tree
    found = context.cached(_checks)
    ends = tree.end_ns[found.evaluation]
    yield Occurrences(
        "host", "anomaly mode", tree.thread[found.first].astype(np.int64), tree.start_ns[found.first], ends
    )
    nodes, time = _stacks(context)
    start = tree.start_ns[nodes]
    yield Occurrences("host", "anomaly mode", tree.thread[nodes].astype(np.int64), start, start + time)


def _stacks(context: Context) -> tuple[I64, I64]:
    """Operators of typical steps that add functions to the graph, and how long each formats a stack.

    That is their time before their work, beyond that of operators that add none.
    """
    nodes = context.cached(graph).node
    nodes = nodes[program_steps(context).typical.at(context.host.tree.start_ns[nodes]) >= 0]
    if not len(nodes):
        return nodes, nodes
    before, calls = _time_before_work(context)
    is_evaluation = context.cached(owners).is_evaluation
    tree = context.host.tree
    inside = take_or(is_evaluation, context.cached(owners).evaluation, missing=False)
    operator = np.flatnonzero(inside & calls & ~is_evaluation & ~take_or(is_evaluation, tree.parent, missing=False))
    usual = int(np.median(before[operator])) if len(operator) else 0
    outer = calls[nodes]
    own = np.maximum(0, before[nodes[outer]] - usual)
    time = np.zeros(len(nodes), np.int64)
    if len(own):
        leaves = nodes[~outer]
        time[outer] = own
        time[~outer] = np.minimum(tree.end_ns[leaves] - tree.start_ns[leaves], int(np.median(own)))
    return nodes, time


def _time_before_work(context: Context) -> tuple[I64, Bool]:
    """For each node the time until the first node within it starts, and whether there is one."""
    tree = context.host.tree
    position = np.arange(len(tree))
    calls = tree.after > position + 1
    first = np.minimum(position + 1, len(tree) - 1)
    return np.where(calls, tree.start_ns[first] - tree.start_ns, 0), calls


_NOTHING = Need(
    Text("skip-no-recomputation", "no backward pass of the typical steps computes anything of the forward pass again"),
    lambda context: len(context.cached(_segments).evaluation),
)
_CHECKS = Need(
    Text("skip-no-nan-checks", "the trace has no backward pass in its steps, or autograd looks for no NaN in it"),
    lambda context: len(context.cached(_checks).evaluation),
)
_NAN_CHECKS_QUESTION = "Does autograd check for anomalies, and how much time does this take?"
ANALYSES = (
    Analysis(450, "recomputation", Recomputation, recomputation, needs=(_NOTHING,), is_of_steps=True),
    Analysis(
        440, "nan_checks", NanChecks, nan_checks, needs=(_CHECKS,), is_of_steps=True, question=_NAN_CHECKS_QUESTION
    ),
)
