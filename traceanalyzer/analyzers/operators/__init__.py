"""Which operators cost most, and with which input shapes?

Self time is the time of an operator without the operators that it calls; host self time is also without its runtime
calls. Device time is the duration of the events that its runtime calls launched, each in full, even if they overlap.

As in `tables.shape_costs`: two calls of one operator that read and write the same number of elements and bytes, give an
output of the same size and do the same number of operations should cost the same, whatever the order or layout of their
operands.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from traceanalyzer.knowledge import op_models
from traceanalyzer.knowledge.inputs import Inputs
from traceanalyzer.knowledge.op_shapes import implied
from traceanalyzer.structure import host_activity, typical
from traceanalyzer.structure.analysis import KERNELS, OPERATORS, SHAPES, Analysis
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import Occurrences, event_set
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.module_calls import owners
from traceanalyzer.structure.operator_times import Peer, Priced, node_times, peers
from traceanalyzer.structure.sums import count_by, group, sum_by
from traceanalyzer.trace.distinct import distinct, is_among
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.table import I64, Bool
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

_OVER_THE_BUS = frozenset({"HtoD", "DtoH"})
_ROWS = 200
"""Rows in the result (own choice: what comes after them is below a thousandth of the device time in real traces)."""


class OperatorTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of calls of an operator; as keywords they follow the fields with which a row begins."""

    calls: int
    """Number of calls, whoever made them."""
    device_self_ns: int
    """Device time in ns of what its own runtime calls launched, each in full, overlap or not."""
    device_total_ns: int
    """Device time in ns of what it and the operators that it calls launched, each in full."""
    host_self_ns: int
    """Duration of the calls in ns, without the operators and runtime calls inside."""
    host_total_ns: int
    """Duration of the calls in ns."""
    beside_ns: int = 0
    """Part of `host_self_ns` on threads other than the one that makes the steps and those of autograd."""
    in_backward: int = 0
    """Part of `calls` that autograd makes to evaluate functions of a backward pass."""


_FIGURES = OperatorTimes.__struct_fields__


class Operator(OperatorTimes, frozen=True):
    """All calls of one operator that start in the chosen steps, or anywhere. Recursive calls count twice in totals."""

    name: str
    """Name of the operator as recorded."""


class OperatorByShape(OperatorTimes, frozen=True):
    """All calls of one operator with the same input shapes and types."""

    name: str
    """Name of the operator as recorded."""
    input_shapes: str
    """Input shapes as recorded, as JSON; empty where they were not recorded."""
    input_types: str
    """Input types as recorded, as JSON; empty where they were not recorded."""


class Operators(msgspec.Struct, frozen=True):
    """All operators of the trace by name."""

    rows: tuple[Operator, ...]
    """One row per operator, the most device self time first (host self time where nothing ran on a device)."""
    in_steps: tuple[Operator, ...] | None = None
    """The same of what starts in typical steps; null where everything does, and in reports of old versions."""


class OperatorsByShape(msgspec.Struct, frozen=True):
    """Operators by name, input shapes and input types."""

    rows: tuple[OperatorByShape, ...]
    """One row per operator, input shapes and input types, in the same order as by name."""
    in_steps: tuple[OperatorByShape, ...] | None = None
    """The same of what starts in typical steps; null where everything does, and in reports of old versions."""


def by_name(context: Context) -> Operators:
    """One row per operator."""
    return Operators(*typical.beside(context, _rows_by_name))


def _rows_by_name(context: Context) -> tuple[Operator, ...]:
    sums: dict[str, list[int]] = {}
    for row in context.cached(_rows_by_shape):
        own = sums.setdefault(row.name, [0] * len(_FIGURES))
        for place, field in enumerate(_FIGURES):
            own[place] += getattr(row, field)
    rows = [Operator(name=name, **dict(zip(_FIGURES, own, strict=True))) for name, own in sums.items()]
    cost = _cost(context)
    return tuple(sorted(rows, key=lambda r: (-getattr(r, cost), r.name)))


def by_shape(context: Context) -> OperatorsByShape:
    """One row per operator, input shapes and input types."""
    found = OperatorsByShape(*typical.beside(context, _rows_by_shape))
    context.release(_calls, _totals)
    return found


@event_set
def operators_at(context: Context, rows: tuple[tuple[str, str | None, str | None], ...]) -> Iterator[Occurrences]:
    """When operators of some names, shapes and types run, without those that they call.

    As in the tables, only on threads that make the steps.
    """
    host, trace = context.host, context.trace
    nodes = [np.empty(0, np.int64)]
    for name, shapes, types in rows:
        named = np.flatnonzero((host.name == trace.names.code(name)) & (host.kind == NodeKind.OPERATOR))
        row = host.row[named]
        inputs = (trace.shapes.code(shapes or ""), trace.types.code(types or ""))
        nodes.append(named[(trace.host.shapes[row] == inputs[0]) & (trace.host.types[row] == inputs[1])])
    found = distinct(np.concatenate(nodes))
    found = found[~context.cached(_beside)[found]]
    yield Occurrences.of_nodes(context, rows[0][0], found).without_inner(context, found)


@event_set
def whole_calls_at(context: Context, name: str) -> Iterator[Occurrences]:
    """When an operator runs, with all that it calls."""
    host = context.host
    named = (host.name == context.trace.names.code(name)) & (host.kind == NodeKind.OPERATOR)
    yield Occurrences.of_nodes(context, name, np.flatnonzero(named))


def _rows_by_shape(context: Context) -> tuple[OperatorByShape, ...]:
    host = context.trace.host
    nodes, _, first = context.cached(_calls)
    outside = np.flatnonzero(~context.called_in_scope(context.host.tree.start_ns[nodes]))
    sums = context.cached(_totals) - _sums(context, outside)
    occurs = np.flatnonzero(sums[:, -1])
    node = nodes[first[occurs]]
    row = context.host.row[node]
    codes = np.column_stack((context.host.name[node], host.shapes[row], host.types[row]))
    rows = [_row(context.trace, *of_row) for of_row in zip(codes.tolist(), sums[occurs, :-1].tolist(), strict=True)]
    cost = _cost(context)
    return tuple(sorted(rows, key=lambda r: (-getattr(r, cost), r.name, r.input_shapes, r.input_types)))


def _row(trace: Trace, codes: list[int], figures: list[int]) -> OperatorByShape:
    name, shapes, types = codes
    by_field = dict(zip(_FIGURES, figures, strict=True))
    return OperatorByShape(trace.names[name], trace.shapes[shapes], trace.types[types], **by_field)


def _totals(context: Context) -> I64:
    """The sums of all calls, in the chosen steps or not: few are outside, so that these are taken off."""
    return _sums(context, slice(None))


def _sums(context: Context, rows: I64 | slice) -> I64:
    """By operator, input shapes and input types the figures of some calls, and how many they are."""
    nodes, groups, first = context.cached(_calls)
    of = groups[rows]
    chosen = nodes[rows]
    figures = [sum_by(of, _figure(context, field, chosen), len(first)) for field in _FIGURES]
    return np.column_stack([*figures, count_by(of, len(first))])


def _calls(context: Context) -> tuple[I64, I64, I64]:
    """The nodes of the host tree that are calls of operators, by operator, input shapes and input types.

    Returns:
        The nodes, the group of each, and of each group the place of its first node among them.
    """
    nodes = np.flatnonzero(context.host.is_row)
    row = context.host.row[nodes]
    host = context.trace.host
    first, groups = group(context.host.name[nodes], host.shapes[row], host.types[row])
    return nodes, groups, first


def _cost(context: Context) -> str:
    """The field that ranks operators."""
    return "device_self_ns" if len(context.trace.device) else "host_self_ns"


def _figure(context: Context, field: str, nodes: I64) -> I64:
    """A figure of some nodes, by the name of its field in rows."""
    times = context.cached(node_times)
    tree = context.host.tree
    if field == "calls":
        return context.calls_of(nodes)
    if field == "host_total_ns":
        return tree.dur_ns[nodes]
    if field == "beside_ns":
        return np.where(context.cached(_beside)[nodes], times.host_self_ns[nodes], 0)
    if field == "in_backward":
        return np.where(context.cached(owners).evaluation[nodes] != NO_PARENT, context.calls_of(nodes), 0)
    figures: I64 = getattr(times, field)[nodes]
    return figures


def _beside(context: Context) -> Bool:
    """Nodes on threads that neither make steps nor evaluate functions for autograd.

    Where no step is marked, the thread whose outermost nodes take longest makes them.
    """
    host, tree = context.host, context.host.tree
    thread = tree.thread
    makes = distinct(thread[host.kind == NodeKind.STEP])
    if not len(makes) and len(tree):
        outermost = tree.parent == NO_PARENT
        makes = np.array([np.bincount(thread[outermost], tree.dur_ns[outermost]).argmax()])
    return ~is_among(thread, np.append(makes, distinct(thread[context.cached(owners).is_evaluation])))


class ShapeCost(msgspec.Struct, frozen=True):
    """All calls of one operator with one list of input shapes and types."""

    name: str
    """Name of the operator as recorded."""
    input_shapes: str
    """Input shapes as recorded, as JSON."""
    input_types: str
    """Input types as recorded, as JSON; empty where they were not recorded."""
    calls: int
    """Number of calls."""
    device_ns: int
    """Device time in ns of what the operator itself launched."""
    device_ns_per_call: float
    """Mean device time of a call in ns."""
    output_elements: int | None
    """Number of elements of the output, as the shapes imply; null where the operator has no model."""
    elements_moved: int | None
    """Number of elements read and written, each tensor once; null where the operator has no model."""
    bytes_moved: int | None
    """Number of bytes read and written; null where types were not recorded or the operator has no model."""
    peer: Peer | None
    """The cheapest call of the same operator and size; null if none is cheaper, or if most of its device time is copies
    between host and device, which the bus bounds."""
    bus_ns: int = 0
    """Part of `device_ns` in copies between host and device."""


class ShapeCosts(msgspec.Struct, frozen=True):
    """The calls with the most device time, those first."""

    rows: tuple[ShapeCost, ...]
    """The rows with the most device time, the most first; the list ends at a limit."""


def shape_costs(context: Context) -> ShapeCosts:
    """One row per operator, input shapes and input types that put something on the device."""
    ran = [row for row in context.cached(_rows_by_shape) if row.device_self_ns and row.input_shapes]
    sizes = [_size(row) for row in ran]
    bus = _bus_times(context)
    priced = [
        Priced(
            (row.name, *size) if size and 2 * bus.get(_key(row), 0) < row.device_self_ns else None,
            row.input_shapes,
            row.calls,
            row.device_self_ns,
        )
        for row, size in zip(ran, sizes, strict=True)
    ]
    rows = []
    for row, size, peer in list(zip(ran, sizes, peers(priced), strict=True))[:_ROWS]:
        output, moved, moved_bytes, _ = size or (None, None, None, None)
        rows.append(
            ShapeCost(
                name=row.name,
                input_shapes=row.input_shapes,
                input_types=row.input_types,
                calls=row.calls,
                device_ns=row.device_self_ns,
                device_ns_per_call=row.device_self_ns / row.calls,
                output_elements=output,
                elements_moved=moved,
                bytes_moved=moved_bytes,
                peer=peer,
                bus_ns=bus.get(_key(row), 0),
            )
        )
    return ShapeCosts(tuple(rows))


def _key(row: OperatorByShape) -> tuple[str, str, str]:
    return row.name, row.input_shapes, row.input_types


def _bus_times(context: Context) -> dict[tuple[str, str, str], int]:
    """Device time in ns of copies between host and device that operators launch themselves, without those of none.

    By operator, input shapes and input types, of calls in the chosen steps.
    """
    trace, host, tree = context.trace, context.host, context.host.tree
    by_node = _bus_times_by_node(context)
    found = np.flatnonzero(by_node)
    found = found[is_among(found, context.cached(_calls)[0]) & context.called_in_scope(tree.start_ns[found])]
    times: dict[tuple[str, str, str], int] = {}
    for place, row, time in zip(found.tolist(), host.row[found].tolist(), by_node[found].tolist(), strict=True):
        inputs = trace.shapes[int(trace.host.shapes[row])], trace.types[int(trace.host.types[row])]
        key = (trace.names[int(host.name[place])], *inputs)
        times[key] = times.get(key, 0) + time
    return times


def _bus_times_by_node(context: Context) -> I64:
    """Device time in ns of copies between host and device by the node of the host tree that launches them."""
    device, links = context.trace.device, context.links
    crosses = context.trace.names.where(lambda name: host_activity.direction(name) in _OVER_THE_BUS)[device.name]
    copies = np.flatnonzero((device.category == Category.MEMCPY) & crosses & (links.launch != NO_PARENT))
    node = links.node[links.launch[copies]]
    copies, node = copies[node != NO_PARENT], node[node != NO_PARENT]
    return sum_by(context.host.top[node], device.dur_ns[copies], len(context.host.tree))


def _size(row: OperatorByShape) -> tuple[int, int, int | None, int | None] | None:
    """Elements of the output, elements moved, bytes moved, and operations of one call; None without a model."""
    given = Inputs(row.input_shapes, row.input_types)
    found = implied(row.name, given.shapes) if given.shapes else None
    if found is None:
        return None
    call = op_models.call_of(row.name, given)
    work = op_models.work(call) if call else None
    return found.output, found.moved, work.bytes if work else None, work.flops if work else None


_SHAPE_COSTS_QUESTION = "What does an operator cost per shape, and does a call of the same size cost less?"
ANALYSES = (
    Analysis(100, "operators", Operators, by_name, needs=(OPERATORS,)),
    Analysis(110, "operators_by_shape", OperatorsByShape, by_shape, needs=(OPERATORS,)),
    Analysis(
        380,
        "shape_costs",
        ShapeCosts,
        shape_costs,
        needs=(KERNELS, SHAPES),
        is_of_steps=True,
        question=_SHAPE_COSTS_QUESTION,
    ),
)
