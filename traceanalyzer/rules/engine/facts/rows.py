"""Operators and kernels that rules judge, whether a trace or a table has them."""

from __future__ import annotations

import msgspec

from traceanalyzer.analyzers import operators
from traceanalyzer.trace.document import TableRow


class OperatorFact(msgspec.Struct, frozen=True):
    """All calls of one operator (of one list of shapes where it has shapes); sums over all steps."""

    name: str
    shapes: str | None
    """JSON or Python text of a list, as recorded; None where they are summed over."""
    types: str | None
    """JSON list as recorded; None where unknown (tables print none)."""
    calls: int
    device_self_ns: int
    device_total_ns: int
    host_self_ns: int
    host_total_ns: int
    beside_ns: int = 0
    """Part of `host_self_ns` on threads other than the one that makes the steps; 0 if unknown, as in tables."""

    @property
    def claim(self) -> str:
        """Key of a change's claims for the time of these calls."""
        return f"operator:{self.name}|{self.shapes}"


class KernelFact(msgspec.Struct, frozen=True):
    """All launches of one kernel without those from before the recording; sums over all steps."""

    name: str
    calls: int
    total_ns: int
    tensor_cores: bool | None


def from_trace(row: operators.Operator | operators.OperatorByShape) -> OperatorFact:
    """The operator of a trace."""
    shapes, types = (row.input_shapes, row.input_types) if isinstance(row, operators.OperatorByShape) else (None, None)
    return OperatorFact(
        name=row.name,
        shapes=shapes or None,
        types=types or None,
        calls=row.calls,
        device_self_ns=row.device_self_ns,
        device_total_ns=row.device_total_ns,
        host_self_ns=row.host_self_ns,
        host_total_ns=row.host_total_ns,
        beside_ns=row.beside_ns,
    )


def from_table(row: TableRow) -> OperatorFact:
    """The operator of a row of a table; figures that are not in the row are 0."""
    return OperatorFact(
        name=row.name,
        shapes=row.input_shapes or None,
        types=None,
        calls=row.calls or 0,
        device_self_ns=row.self_device_ns or 0,
        device_total_ns=row.device_total_ns or row.self_device_ns or 0,
        host_self_ns=row.self_cpu_ns or 0,
        host_total_ns=row.cpu_total_ns or row.self_cpu_ns or 0,
    )
