"""Which forward passes run once more without autograd, on inputs of the same shapes as the pass that trains?

Without recorded modules nothing names a network, so it is known by its operators: the program calls the same ones,
in the same order, on inputs of the same shapes and types, once where autograd records and once where it does not.
The profiler writes numbers of autograd on every operator, except where autograd is off.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec
import numpy as np

from traceanalyzer.knowledge.inputs import Inputs
from traceanalyzer.structure.autograd import backward, graph, optimizer_starts, outermost
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import Occurrences, event_set
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.module_calls import device_time
from traceanalyzer.structure.sums import group
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.table import I64, UNKNOWN, Bool, take_or
from traceanalyzer.trace.tree import NO_PARENT

LEAST = 5
"""Least number of operators that identify a forward pass (own choice: fewer recur by chance)."""
_ALIKE = 0.8
"""Least part of the operators of the pass that trains, from its first on (own choice: a loss may differ)."""
_UPDATING = frozenset({"aten::lerp_", "aten::mul_", "aten::add_", "aten::copy_"})
_UPDATING_LISTS = frozenset({"aten::_foreach_lerp_", "aten::_foreach_add_", "aten::_foreach_copy_"})
_FIRST = 0xE000
"""Code point of the first character that stands for an operator; those below it include surrogates."""
_LAST = 0x10FFFF
"""Number of the last letter of Unicode."""


class RepeatedForward(msgspec.Struct, frozen=True):
    """Forward passes without autograd beside passes of the same operators that train."""

    passes: int
    """Number of passes without autograd."""
    updates: int
    """Number of updates between which there are such passes."""
    operators: int
    """Number of operators of the longest of them that the program calls itself."""
    device_ns: int
    """Device time in ns of what the passes launched."""
    host_ns: int
    """Time in ns from the start of the first to the end of the last operator of each pass, summed."""
    name: str
    """First operator of the first pass."""
    input_shapes: str
    """Its input shapes as recorded; empty where they were not recorded."""
    start_ns: int
    """Start of the first pass in ns since the first event."""


class _Calls(msgspec.Struct, frozen=True):
    """Operators that the program calls itself on the thread that trains, in the order of their start."""

    node: I64
    start_ns: I64
    end_ns: I64
    letter: I64
    """A number for each operator with its shapes and types."""
    records: Bool
    """Whether autograd records."""
    text: str
    """The letters, with another one where autograd records or inputs are unknown, so that these are not found."""


def find(context: Context) -> RepeatedForward | None:
    """Find such passes; None if there are none, or where inputs were not recorded."""
    found = _found(context)
    return _summed(context, *found) if found is not None and found[1] else None


@event_set
def repeated_at(context: Context) -> Iterator[Occurrences]:
    """When such passes run on the host."""
    found = _found(context)
    if found is not None and found[1]:
        calls, (firsts, lasts) = found[0], np.array(found[1]).T
        thread = context.host.tree.thread[calls.node[firsts]].astype(np.int64)
        yield Occurrences("host", "forward", thread, calls.start_ns[firsts], calls.end_ns[lasts])


def _found(context: Context) -> tuple[_Calls, list[tuple[int, int]]] | None:
    """All calls, and the first and last of each such pass."""
    passes = context.cached(backward)
    steps = context.cached(optimizer_starts)[0]
    if len(passes) < 2 or len(steps) < 2:
        return None
    calls = _calls(context)
    if _recomputes(context) or _averages(context, calls):
        return None
    last_of: dict[int, int] = {}
    before = np.append(0, passes.end_ns[:-1])
    after = np.append(passes.start_ns[1:], np.iinfo(np.int64).max)
    bounds = (np.searchsorted(calls.start_ns, times).tolist() for times in (before, passes.start_ns, after))
    for begins, trains, ends in zip(*bounds, strict=True):
        pattern = _pattern(calls, context.cached(graph).start_ns, begins, trains)
        for first in _occurrences(calls.text, pattern, begins, ends):
            last_of.setdefault(first, _last(calls, first, pattern))
    is_trained = _of_trained_networks(context, calls)
    return calls, [(first, last) for first, last in sorted(last_of.items()) if is_trained[first]]


def _calls(context: Context) -> _Calls:
    """Operators outside of evaluations, optimizers, loaders and other operators."""
    host, table = context.host, context.trace.host
    nodes = outermost(context)
    thread = table.thread[host.row[nodes]]
    trains = thread[table.sequence[host.row[nodes]] != UNKNOWN]
    nodes = nodes[thread == np.bincount(trains).argmax()] if len(trains) else nodes[:0]
    nodes = nodes[np.argsort(host.tree.start_ns[nodes], kind="stable")]
    row = host.row[nodes]
    first, letter = group(host.name[nodes], table.shapes[row], table.types[row])
    records = table.sequence[row] != UNKNOWN
    has_shapes = np.array([bool(text) for text in context.trace.shapes], np.bool_)[table.shapes[row]]
    letters = np.where(records | ~has_shapes, 0, letter + _FIRST)
    are_too_many = len(first) + _FIRST > _LAST
    text = "" if are_too_many else "".join(map(chr, letters.tolist()))
    return _Calls(nodes, host.tree.start_ns[nodes], host.tree.end_ns[nodes], letter, records, text)


def _recomputes(context: Context) -> bool:
    """Whether checkpointing runs parts of the forward pass without autograd, to repeat them in the backward pass."""
    names = context.trace.names
    return bool(names.where(lambda name: "CheckpointFunction" in name)[context.host.name].any())


def _may_be_tensor(shapes: str) -> bool:
    """Whether the first input may have axes, as far as recorded."""
    return Inputs(shapes).shape(0) != ()


def _averages(context: Context, calls: _Calls) -> bool:
    """Whether the program keeps a moving average of its parameters: the network of that runs without autograd."""
    host, trace = context.host, context.trace
    nodes = calls.node[~calls.records]
    updates = trace.names.where(_UPDATING.__contains__)[host.name[nodes]]
    tensors = trace.shapes.where(_may_be_tensor)
    single = int((updates & tensors[trace.host.shapes[host.row[nodes]]]).sum())
    on_lists = trace.names.where(_UPDATING_LISTS.__contains__)[host.name[nodes]].any()
    return bool(on_lists) or single >= LEAST * max(1, len(context.cached(backward)))


def _pattern(calls: _Calls, creates_ns: I64, begins: int, ends: int) -> str:
    """The letters of a forward pass, from the first operator that extends the graph on.

    Args:
        calls: All calls.
        creates_ns: Starts of the operators that extend the graph, ascending.
        begins: The first call after the backward pass before.
        ends: The first call after the start of the backward pass.
    """
    if begins >= ends:
        return ""
    created = take_or(creates_ns, np.searchsorted(creates_ns, calls.start_ns[begins]), np.iinfo(np.int64).max)
    first = max(begins, int(np.searchsorted(calls.start_ns, created, side="right")) - 1)
    own = calls.letter[first:ends][calls.records[first:ends]]
    return "".join(map(chr, (own + _FIRST).tolist()))


def _occurrences(text: str, pattern: str, begins: int, ends: int) -> list[int]:
    """Where a text has, between two positions, at least as much of a pattern's beginning as makes it known."""
    length = math.ceil(_ALIKE * len(pattern))
    if length < LEAST:
        return []
    found = []
    at = text.find(pattern[:length], begins, ends)
    while at >= 0:
        found.append(at)
        at = text.find(pattern[:length], at + length, ends)
    return found


def _last(calls: _Calls, first: int, pattern: str) -> int:
    """The last call of an occurrence: as many as agree with the pattern."""
    length = next(
        (n for n, (a, b) in enumerate(zip(calls.text[first : first + len(pattern)], pattern, strict=False)) if a != b),
        min(len(pattern), len(calls.text) - first),
    )
    return first + length - 1


def _of_trained_networks(context: Context, calls: _Calls) -> Bool:
    """Calls for which no recorded module shows that they belong to another network than the trained one."""
    if not (context.host.kind == NodeKind.MODULE).any():
        return np.ones(len(calls.node), np.bool_)
    host, tree = context.host, context.host.tree
    modules: Bool = host.kind == NodeKind.MODULE
    roots = modules & (tree.around(modules) == 0)
    root = tree.nearest(roots)[calls.node]
    frame = np.where(root == NO_PARENT, NO_PARENT, take_or(host.row, root, 0))
    network = take_or(context.trace.frames.module_id, frame, UNKNOWN)
    is_trained: Bool = (root == NO_PARENT) | np.isin(network, network[calls.records & (root != NO_PARENT)])
    return is_trained


def _summed(context: Context, calls: _Calls, pairs: list[tuple[int, int]]) -> RepeatedForward:
    firsts, lasts = (np.array(ends) for ends in zip(*pairs, strict=True))
    start = calls.start_ns[firsts]
    end = calls.end_ns[lasts]
    launches = context.trace.launches
    device = context.cached(device_time)
    spans = zip(*(np.searchsorted(launches.start_ns, times).tolist() for times in (start, end)), strict=True)
    node = int(calls.node[firsts[0]])
    return RepeatedForward(
        passes=len(pairs),
        updates=len(distinct(np.searchsorted(context.cached(optimizer_starts)[0], start))),
        operators=int((lasts - firsts).max()) + 1,
        device_ns=sum(int(device[a:b].sum()) for a, b in spans),
        host_ns=int((end - start).sum()),
        name=context.trace.names[context.host.name[node]],
        input_shapes=context.trace.shapes[context.trace.host.shapes[context.host.row[node]]],
        start_ns=int(start.min()),
    )
