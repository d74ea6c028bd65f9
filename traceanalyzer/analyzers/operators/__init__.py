"""Which operators cost most, and with which input shapes?

Self time is the time of an operator without the operators that it calls; host self time is also without its runtime
calls. Device time is the duration of the events that its runtime calls launched, each in full, even if they overlap.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from traceanalyzer.structure.analysis import OPERATORS, Analysis
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.module_calls import owners
from traceanalyzer.structure.operator_times import NodeTimes, node_times
from traceanalyzer.structure.sums import group, sum_by
from traceanalyzer.trace.distinct import distinct, ranked
from traceanalyzer.trace.table import I64, Array, Bool
from traceanalyzer.trace.tree import NO_PARENT


class Operator(msgspec.Struct, frozen=True):
    """All calls of one operator that start in the chosen steps, or anywhere. Recursive calls count twice in totals."""

    name: str
    """Name of the operator as recorded."""
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


class OperatorByShape(msgspec.Struct, frozen=True):
    """All calls of one operator with the same input shapes and types."""

    name: str
    """Name of the operator as recorded."""
    input_shapes: str
    """Input shapes as recorded, as JSON; empty where they were not recorded."""
    input_types: str
    """Input types as recorded, as JSON; empty where they were not recorded."""
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


class Operators(msgspec.Struct, frozen=True):
    """All operators of the trace by name."""

    rows: tuple[Operator, ...]
    """One row per operator, the most device self time first (host self time where nothing ran on a device)."""


class OperatorsByShape(msgspec.Struct, frozen=True):
    """Operators by name, input shapes and input types."""

    rows: tuple[OperatorByShape, ...]
    """One row per operator, input shapes and input types, in the same order as by name."""


def by_name(context: Context) -> Operators:
    """One row per operator."""
    names, figures = (context.once(_grouped)[key] for key in ("names", "figures"))
    rows = [Operator(context.trace.names[name], *values) for name, values in _summed(names, figures)]
    cost = _cost(context)
    return Operators(tuple(sorted(rows, key=lambda r: (-getattr(r, cost), r.name))))


def by_shape(context: Context) -> OperatorsByShape:
    """One row per operator, input shapes and input types."""
    trace, groups = context.trace, context.once(_grouped)
    rows = [
        OperatorByShape(trace.names[name], trace.shapes[shape], trace.types[kind], *values)
        for name, shape, kind, values in zip(
            *(groups[key].tolist() for key in ("names", "shapes", "types", "figures")), strict=True
        )
    ]
    cost = _cost(context)
    order = sorted(rows, key=lambda r: (-getattr(r, cost), r.name, r.input_shapes, r.input_types))
    return OperatorsByShape(tuple(order))


def _cost(context: Context) -> str:
    return "device_self_ns" if len(context.trace.device) else "host_self_ns"


def _grouped(context: Context) -> dict[str, Array]:
    """Codes of name, shapes and types of each group, and its calls and four times."""
    trace, host, times = context.trace, context.host, context.once(node_times)
    nodes = np.flatnonzero(host.is_row & context.in_scope(host.tree.start_ns))
    row = host.row[nodes]
    keys = (host.name[nodes], trace.host.shapes[row], trace.host.types[row])
    first, groups = group(*keys)
    columns = [sum_by(groups, getattr(times, field)[nodes], len(first)) for field in NodeTimes.__struct_fields__]
    columns.append(sum_by(groups, np.where(_beside(context)[nodes], times.host_self_ns[nodes], 0), len(first)))
    names, shapes, types = (key[first] for key in keys)
    return {
        "names": names,
        "shapes": shapes,
        "types": types,
        "figures": np.column_stack([sum_by(groups, context.calls_of(nodes), len(first)), *columns]),
    }


def _beside(context: Context) -> Bool:
    """Nodes on threads that neither make steps nor evaluate functions for autograd.

    Where no step is marked, the thread whose outermost nodes take longest makes them.
    """
    host, tree = context.host, context.host.tree
    thread = tree.thread
    makes = distinct(thread[host.kind == NodeKind.STEP])
    if not len(makes) and len(tree):
        outermost = tree.parent == NO_PARENT
        makes = np.array([np.bincount(thread[outermost], (tree.end_ns - tree.start_ns)[outermost]).argmax()])
    beside: Bool = ~np.isin(thread, np.append(makes, thread[context.once(owners).is_evaluation]))
    return beside


def _summed(names: I64, figures: I64) -> Iterator[tuple[int, list[int]]]:
    """The figures of each name over all its shapes."""
    codes, groups = ranked(names)
    sums = np.zeros((len(codes), figures.shape[1]), np.int64)
    np.add.at(sums, groups, figures)
    yield from zip(codes.tolist(), sums.tolist(), strict=True)


ANALYSES = (
    Analysis(100, "operators", Operators, by_name, needs=(OPERATORS,)),
    Analysis(110, "operators_by_shape", OperatorsByShape, by_shape, needs=(OPERATORS,)),
)
