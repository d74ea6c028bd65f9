"""What does an operator cost per shape, and does a call of the same size cost less?

Two calls of one operator that move the same number of elements and give an output of the same size should
cost the same, whatever the order or layout of their operands. Where one costs far more, the cheaper one shows
what is possible on this device, without any data sheet.
"""

from __future__ import annotations

import msgspec

from traceanalyzer.knowledge.op_shapes import Implied, implied, parse
from traceanalyzer.structure.operator_times import Peer, Priced, peers
from traceanalyzer.trace.document import TableRow


class PrintedShapeCost(msgspec.Struct, frozen=True):
    """All calls of one operator with one list of input shapes."""

    name: str
    """Name of the operator as printed."""
    input_shapes: str
    """Input shapes as printed."""
    shapes_truncated: bool
    """Whether the printed list of shapes is cut off."""
    calls: int
    """Number of calls."""
    device_ns: int
    """Self device time of all calls in ns."""
    device_ns_per_call: float
    """Self device time of one call in ns."""
    host_ns: int | None
    """Total CPU time of all calls in ns, with the operators that it calls; null where it is not printed."""
    host_ns_per_call: float | None
    """Total CPU time of one call in ns; null where it is not printed."""
    output_elements: int | None
    """Number of elements of the output, as the shapes imply; null where the operator has no model or the list is
    cut."""
    elements_moved: int | None
    """Number of elements read and written, each tensor once; null where the operator has no model or the list is
    cut."""
    bytes_at_4_per_element: int | None
    """Bytes moved if all elements are float32, because tables print no types; null where the elements are unknown."""
    peer: Peer | None
    """The cheapest call of the same operator and size; null if none is cheaper."""


def analyze(rows: list[TableRow]) -> tuple[PrintedShapeCost, ...]:
    """Costs of operator rows of tables grouped by input shapes, the most device time first."""
    priced = [row for row in rows if row.calls and row.self_device_ns is not None and row.input_shapes]
    sizes = [_implied(row) for row in priced]
    cheapest = peers(
        [
            Priced((row.name, size) if size else None, row.input_shapes or "", row.calls or 1, row.self_device_ns or 0)
            for row, size in zip(priced, sizes, strict=True)
        ]
    )
    costs = [_cost(row, size, peer) for row, size, peer in zip(priced, sizes, cheapest, strict=True)]
    return tuple(sorted(costs, key=lambda c: (-c.device_ns, -(c.host_ns or 0), c.name, c.input_shapes)))


def _implied(row: TableRow) -> Implied | None:
    shapes = None if row.shapes_truncated or row.name_truncated else parse(row.input_shapes)
    return implied(row.name, shapes) if shapes else None


def _cost(row: TableRow, size: Implied | None, peer: Peer | None) -> PrintedShapeCost:
    calls, device = row.calls or 0, row.self_device_ns or 0
    return PrintedShapeCost(
        name=row.name,
        input_shapes=row.input_shapes or "",
        shapes_truncated=row.shapes_truncated,
        calls=calls,
        device_ns=device,
        device_ns_per_call=device / calls,
        host_ns=row.cpu_total_ns,
        host_ns_per_call=None if row.cpu_total_ns is None else row.cpu_total_ns / calls,
        output_elements=size.output if size else None,
        elements_moved=size.moved if size else None,
        bytes_at_4_per_element=4 * size.moved if size else None,
        peer=peer,
    )
