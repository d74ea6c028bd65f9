"""Which copies are made within the memory of a device, or of the host, and which operators cause them?

`aten::copy_` does the work; `contiguous`, `clone`, `reshape`, `repeat` or `to` around it caused it. Copies between
memories belong to another analysis (`copies`). Copies of optimizers, of gradient buckets and of the loader are left
out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from traceanalyzer.knowledge.inputs import Inputs, Shape
from traceanalyzer.knowledge.op_shapes import words
from traceanalyzer.structure import host_activity
from traceanalyzer.structure.analysis import OPERATORS, Analysis
from traceanalyzer.structure.autograd import ranges
from traceanalyzer.structure.context import Context, device_events_in_scope
from traceanalyzer.structure.events import EventSet, Occurrences, event_set
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.module_calls import class_codes, class_name, owners
from traceanalyzer.structure.operator_times import launched_by, node_times
from traceanalyzer.structure.sums import count_by, group, most_by, sum_by
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.table import I64, Bool, take_or
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

_COPY = "aten::copy_"
_ASKING = words(
    "clone contiguous reshape flatten repeat to _to_copy type_as expand_as _reshape_copy unflatten tile copy view_as "
    "ravel float half bfloat16"
)
"""Operators that copy on behalf of their caller."""
_FOREIGN = re.compile(r"AccumulateGrad|torch\.distributed|c10d|[Rr]educer|DistributedDataParallel|fsdp", re.IGNORECASE)
"""Ranges in which copies are part of exchanging or collecting gradients."""
_BEFORE_NS = 20_000
"""Greatest time before a call that counts as part of the call (own choice: Python calls a module and an operator in 5
to 15 us)."""
_OF_COPIES = ("ToCopyBackward0", "ToCopyBackward", "CloneBackward0", "CopyBackwards")
"""Functions of autograd that only copy."""
_SHOWN = 60
"""Rows in the result (own choice: a model has fewer places with relevant copies)."""


class Conversion(msgspec.Struct, frozen=True):
    """All copies of tensors of one shape and type that the same operator caused in the same class of modules."""

    operator: str
    """Name of the outermost operator that only copies, such as `aten::contiguous`; `aten::copy_` if no operator around
    it only copies."""
    caller: str | None
    """Operator or class of modules that called it; null if it was called in a step or outside of everything."""
    input_shapes: str
    """Input shapes of `aten::copy_` as recorded, as JSON; empty where shapes were not recorded."""
    to_type: str | None
    """Element type of the copy as recorded; null where types were not recorded."""
    from_type: str | None
    """Element type of the tensor that was copied; null where types were not recorded."""
    is_backward: bool
    """Whether the autograd engine made the call."""
    on_device: bool
    """True for a copy in the memory of a device, false for one in the memory of the host."""
    calls: int
    """Number of copies."""
    device_ns: int
    """Device time of the copies in ns."""
    host_ns: int
    """Duration of the calls of the operator on the host, in ns."""
    longest_run: int
    """Most calls in a row without another operator between them."""
    start_ns: int
    """Start of the longest call in ns since the first event."""
    python_line: str | None
    """The Python line that made the longest call; null where stacks were not recorded."""
    call_ns: int = 0
    """Duration of the calls on the host in ns, with the evaluation by autograd around each and with the time since the
    operator before it, of which at most 20 us count: about what the program spends to make the calls."""

    @property
    def events(self) -> EventSet:
        """The calls that copy tensors of these shapes and types, whatever asked for them, as a set of events."""
        return EventSet.operator(_COPY, self.input_shapes)

    @property
    def shape(self) -> Shape | None:
        """The shape of the copied tensor; None where it is unknown."""
        return Inputs(self.input_shapes).shape(0)


class Conversions(msgspec.Struct, frozen=True):
    """Copies within one memory, those with most device time first, then those with most host time."""

    rows: tuple[Conversion, ...]
    """The copies with the most device time, at most 60 rows."""
    hidden_rows: int
    """Number of rows with less time that are not in `rows`."""
    device_copies: int = 0
    """Number of all copies within a device's memory (`Memcpy DtoD`), whatever made them."""
    device_copies_here: int = 0
    """Number of these copies that calls of `aten::copy_` in the rows launched. Graphs, compiled code and libraries copy
    without it."""


def analyze(context: Context) -> Conversions:
    """Group the copies by the operator that caused them, shape and type."""
    nodes = _copies(context)
    within = _within_device(context, nodes)
    if not len(nodes):
        return Conversions((), 0, *within)
    asking = _asking(context, nodes)
    keys = _keys(context, nodes, asking)
    first, groups = group(*keys)
    figures, lines = _figures(context, nodes, asking, groups)
    codes = np.column_stack([key[first] for key in keys])
    order = np.lexsort((np.arange(len(first)), -figures["host_ns"], -figures["device_ns"]))
    rows = []
    for number in order[:_SHOWN].tolist():
        of_group = {field: int(values[number]) for field, values in figures.items()}
        rows.append(_row(context.trace, codes[number].tolist(), of_group, lines[number]))
    return Conversions(tuple(rows), max(0, len(first) - _SHOWN), *within)


def _figures(context: Context, nodes: I64, asking: I64, groups: I64) -> tuple[dict[str, I64], Sequence[str | None]]:
    """The figures of each group of copies by their fields, and the line of Python of its longest copy."""
    tree = context.host.tree
    device_ns = context.cached(node_times).device_total_ns[nodes]
    host_ns = tree.dur_ns[asking]
    order = np.lexsort((-host_ns, -device_ns, groups))
    longest = order[np.unique(groups[order], return_index=True)[1]]
    count = len(longest)
    _, start, end = _made(context, asking)
    figures = {
        "calls": count_by(groups, count),
        "device_ns": sum_by(groups, device_ns, count),
        "host_ns": sum_by(groups, host_ns, count),
        "longest_run": _runs(context, asking, groups, count),
        "start_ns": tree.start_ns[asking[longest]],
        "call_ns": sum_by(groups, end - start, count),
    }
    return figures, host_activity.lines_of_nodes(context, asking[longest])


@event_set
def copies_at(context: Context, rows: tuple[Conversion, ...]) -> Iterator[Occurrences]:
    """When some copies run on the device, those that are launched before the step in which they run, too.

    Copies in the memory of the host are the calls that made them.
    """
    nodes, asking = _of_rows(context, rows)
    if rows[0].on_device:
        yield Occurrences.launched_in(context, rows[0].operator, nodes)
    else:
        yield Occurrences.of_nodes(context, rows[0].operator, distinct(asking))


@event_set
def calls_at(context: Context, rows: tuple[Conversion, ...]) -> Iterator[Occurrences]:
    """When the host makes the calls that caused some copies, with what `Conversion.call_ns` counts."""
    yield Occurrences("host", rows[0].operator, *_made(context, distinct(_of_rows(context, rows)[1])))


def _of_rows(context: Context, rows: tuple[Conversion, ...]) -> tuple[I64, I64]:
    """The copies of some rows, and the outermost operators that only copy around them."""
    nodes = _copies(context)
    asking = _asking(context, nodes)
    groups = group(*_keys(context, nodes, asking))[1]
    starts = context.host.tree.start_ns[asking]
    wanted = groups[np.isin(starts, [row.start_ns for row in rows])]
    own = np.isin(groups, wanted)
    return nodes[own], asking[own]


def _within_device(context: Context, nodes: I64) -> tuple[int, int]:
    """How many copies within a device's memory there are, and how many of them these nodes launched."""
    device, names = context.trace.device, context.trace.names
    within = names.where(lambda name: host_activity.direction(name) == "DtoD")[device.name]
    rows = (device.category == Category.MEMCPY) & within & device_events_in_scope(context)
    copies = np.zeros(len(context.host.tree), np.bool_)
    copies[nodes] = True
    return int(rows.sum()), int(copies[launched_by(context, np.flatnonzero(rows))[1]].sum())


def _copies(context: Context) -> I64:
    """Positions of nodes that copy within one memory and belong to the model."""
    host, trace = context.host, context.trace
    names = trace.names
    nodes = np.flatnonzero((host.name == names.code(_COPY)) & ~host.merged)
    nodes = nodes[context.in_scope(host.tree.start_ns[nodes])]
    kept = ~_crossing(context)[nodes]
    foreign = names.where(lambda name: _FOREIGN.search(name) is not None)[host.name]
    foreign |= host.kind == NodeKind.DATALOADER
    kept &= ~(foreign | (host.tree.around(foreign) > 0))[nodes]
    row = host.row[nodes]
    call = host_activity.innermost(trace.host, context.cached(ranges), trace.host.thread[row], trace.host.start_ns[row])
    copies: I64 = nodes[kept & (call == NO_PARENT)]
    return copies


def _crossing(context: Context) -> Bool:
    """Nodes that launch a copy between memories."""
    device, names = context.trace.device, context.trace.names
    crossing = names.where(lambda name: (host_activity.direction(name) or "DtoD") != "DtoD")
    rows = (device.category == Category.MEMCPY) & crossing[device.name]
    launches = np.zeros(len(context.host.tree), np.bool_)
    launches[launched_by(context, np.flatnonzero(rows))[1]] = True
    return launches


def _asks(name: str) -> bool:
    return name.startswith("aten::") and name.removeprefix("aten::") in _ASKING


def _asking(context: Context, nodes: I64) -> I64:
    """For each copy, the outermost operator around it that only copies."""
    host = context.host
    asks = np.append(context.trace.names.where(_asks)[host.name], False)
    return host.tree.nearest(~asks[host.tree.parent])[nodes].astype(np.int64)


def _keys(context: Context, nodes: I64, asking: I64) -> tuple[I64, ...]:
    """Operator that caused the copy, its caller, shapes, types, whether in backward, whether on a device."""
    host, table = context.host, context.trace.host
    caller = host.tree.parent[asking].astype(np.int64)
    plain = np.append(~np.isin(host.kind, (NodeKind.OPERATOR, NodeKind.MODULE)), True)
    of_class = np.append(context.cached(class_codes)[host.name], NO_PARENT)
    evaluation = context.cached(owners).evaluation
    backward = take_or(evaluation, nodes, NO_PARENT) != NO_PARENT
    launched = context.cached(node_times).device_total_ns[nodes] > 0
    row = host.row[nodes]
    return (
        host.name[asking].astype(np.int64),
        np.where(plain[caller], -1, of_class[caller]),
        table.shapes[row].astype(np.int64),
        table.types[row].astype(np.int64),
        backward.astype(np.int64),
        launched.astype(np.int64),
    )


def _runs(context: Context, asking: I64, groups: I64, count: int) -> I64:
    """Per group: the most members that follow each other directly under one parent."""
    tree = context.host.tree
    order = np.argsort(asking, kind="stable")
    calls = asking[order]
    group_of = groups[order]
    before = calls[:-1]
    behind = calls[1:]
    follows = (behind == tree.after[before]) & (tree.parent[behind] == tree.parent[before])
    follows &= group_of[1:] == group_of[:-1]
    starts = np.flatnonzero(np.append(True, ~follows))[: len(calls)]
    lengths = np.diff(np.append(starts, len(calls)))
    return most_by(group_of[starts], lengths, count)


def _made(context: Context, asking: I64) -> tuple[I64, I64, I64]:
    """Thread, start and end of each call, with the time that is only spent to make the call."""
    tree = context.host.tree
    evaluation = context.cached(owners).evaluation[asking]
    converts = context.trace.names.where(lambda name: name.endswith(_OF_COPIES))[context.host.name]
    outer = np.where(take_or(converts, evaluation, False), evaluation, asking)
    siblings = np.flatnonzero(take_or(tree.parent, tree.after, -2) == tree.parent)
    before = np.full(len(tree), NO_PARENT, np.int64)
    before[tree.after[siblings]] = siblings
    start = tree.start_ns[outer]
    ended = np.where(before[outer] == NO_PARENT, start, take_or(tree.end_ns, before[outer], 0))
    waited = np.where(tree.thread[before[outer]] == tree.thread[outer], start - ended, 0)
    return tree.thread[outer].astype(np.int64), start - np.clip(waited, 0, _BEFORE_NS), tree.end_ns[outer]


def _row(trace: Trace, key: list[int], figures: dict[str, int], line: str | None) -> Conversion:
    operator, caller, shapes, types, backward, device = key
    given = Inputs(trace.shapes[shapes], trace.types[types])
    return Conversion(
        operator=trace.names[operator],
        caller=class_name(trace.names[caller]) if caller >= 0 else None,
        input_shapes=trace.shapes[shapes],
        to_type=given.type(0) or None,
        from_type=given.type(1) or None,
        is_backward=bool(backward),
        on_device=bool(device),
        python_line=line,
        **figures,
    )


ANALYSES = (Analysis(500, "conversions", Conversions, analyze, needs=(OPERATORS,), is_of_steps=True),)
