"""What does an operator cost per shape, and does a call of the same size cost less?

Two calls of one operator that move the same number of elements and give an output of the same size should
cost the same, whatever the order or layout of their operands. Where one costs far more, the cheaper one shows
what is possible on this device, without any data sheet.
"""

from __future__ import annotations

from collections import defaultdict

import msgspec

from traceanalyzer.trace.document import TableRow
from traceanalyzer.trace.op_shapes import Implied, implied, parse


class Peer(msgspec.Struct, frozen=True):
    """A cheaper call of the same operator and size, in the same table."""

    input_shapes: str
    device_ns_per_call: float
    saving_ns: float
    """What all calls together would save at the peer's price."""


class ShapeCost(msgspec.Struct, frozen=True):
    """All calls of one operator with one list of input shapes."""

    name: str
    input_shapes: str
    shapes_truncated: bool
    calls: int
    device_ns: int
    device_ns_per_call: float
    host_ns: int | None
    host_ns_per_call: float | None
    output_elements: int | None
    """Implied by the shapes; null where the operator has no model or the list is cut."""
    elements_moved: int | None
    """Read and written, each tensor once."""
    bytes_at_4_per_element: int | None
    """Tables print no types; this is the traffic of float32."""
    peer: Peer | None


def analyze(rows: list[TableRow]) -> tuple[ShapeCost, ...]:
    """Costs of operator rows of tables grouped by input shapes, the most device time first."""
    priced = [row for row in rows if row.calls and row.self_device_ns is not None and row.input_shapes]
    sizes = {id(row): _implied(row) for row in priced}
    cheapest: dict[tuple[str, Implied], TableRow] = {}
    by_size: defaultdict[tuple[str, Implied], list[TableRow]] = defaultdict(list)
    for row in priced:
        size = sizes[id(row)]
        if size is not None and row.self_device_ns:
            by_size[row.name, size].append(row)
    for key, members in by_size.items():
        cheapest[key] = min(members, key=_price)
    costs = []
    for row in priced:
        size = sizes[id(row)]
        best = cheapest.get((row.name, size)) if size is not None else None
        costs.append(_cost(row, size, best if best is not row else None))
    return tuple(sorted(costs, key=lambda c: (-c.device_ns, -(c.host_ns or 0), c.name, c.input_shapes)))


def _implied(row: TableRow) -> Implied | None:
    shapes = None if row.shapes_truncated or row.name_truncated else parse(row.input_shapes)
    return implied(row.name, shapes) if shapes else None


def _price(row: TableRow) -> float:
    return (row.self_device_ns or 0) / (row.calls or 1)


def _cost(row: TableRow, size: Implied | None, best: TableRow | None) -> ShapeCost:
    calls, device = row.calls or 0, row.self_device_ns or 0
    peer = None
    if best is not None and _price(best) < _price(row):
        peer = Peer(best.input_shapes or "", _price(best), device - _price(best) * calls)
    return ShapeCost(
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
