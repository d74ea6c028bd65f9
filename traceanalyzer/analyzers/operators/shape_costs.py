"""What does an operator cost per shape, and does a call of the same size cost less?

As `tables.shape_costs`, for a trace: two calls of one operator that read and write the same number of elements and
bytes, give an output of the same size and do the same number of operations should cost the same, whatever the order
or layout of their operands.
"""

from __future__ import annotations

import msgspec

from traceanalyzer.analyzers.operators import OperatorByShape, by_shape
from traceanalyzer.knowledge import op_models
from traceanalyzer.knowledge.op_shapes import implied, parse
from traceanalyzer.report.message import Text
from traceanalyzer.structure.analysis import KERNELS, SHAPES, Analysis
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.operator_times import Peer, Priced, peers

_ROWS = 200
"""Rows in the result (own choice: what comes after them is below a thousandth of the device time in real traces)."""

_NO_SHAPES = Text(
    "skip-no-shapes",
    "the trace has no input shapes: record them with record_shapes=True",
    "record_shapes=True is code",
)


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
    """The cheapest call of the same operator and size; null if none is cheaper."""


class ShapeCosts(msgspec.Struct, frozen=True):
    """The calls with the most device time, those first."""

    rows: tuple[ShapeCost, ...]
    """The rows with the most device time, the most first; the list ends at a limit."""


def analyze(context: Context) -> ShapeCosts:
    """One row per operator, input shapes and input types that put something on the device."""
    ran = [row for row in context.once(by_shape).rows if row.device_self_ns and row.input_shapes]
    sizes = [_size(row) for row in ran]
    cheapest = peers(
        [
            Priced((row.name, *size) if size else None, row.input_shapes, row.calls, row.device_self_ns)
            for row, size in zip(ran, sizes, strict=True)
        ]
    )
    costs = [_cost(*entry) for entry in zip(ran, sizes, cheapest, strict=True)]
    return ShapeCosts(tuple(costs[:_ROWS]))


_Size = tuple[int, int, int | None, int | None]
"""Elements of the output, elements moved, bytes moved, operations."""


def _size(row: OperatorByShape) -> _Size | None:
    shapes = parse(row.input_shapes)
    found = implied(row.name, shapes) if shapes else None
    if found is None:
        return None
    call = op_models.parse(row.name, row.input_shapes, row.input_types)
    work = op_models.work(call) if call else None
    return found.output, found.moved, work.bytes if work else None, work.flops if work else None


def _cost(row: OperatorByShape, size: _Size | None, peer: Peer | None) -> ShapeCost:
    output, moved, moved_bytes, _ = size or (None, None, None, None)
    return ShapeCost(
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
    )


ANALYSES = (Analysis(380, "shape_costs", ShapeCosts, analyze, needs=(KERNELS, SHAPES)),)
