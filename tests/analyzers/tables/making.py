"""Tables as plain data, for tests that need no text."""

from __future__ import annotations

from typing import Any

from traceanalyzer.trace.document import ProfilerTable, TableDocument, TableRow, TableTotals

MS = 1_000_000
PLAIN = ("name", "self_cpu_ns", "cpu_total_ns", "self_device_ns", "device_total_ns", "calls")
SHAPED = (*PLAIN, "input_shapes")


def row(name: str, cpu: int | None = 0, device: int | None = None, calls: int = 1, **more: Any) -> TableRow:
    """A row; times are of self and total alike, in ms."""
    host = None if cpu is None else cpu * MS
    on_device = None if device is None else device * MS
    values = {"self_cpu_ns": host, "cpu_total_ns": host, "self_device_ns": on_device, "device_total_ns": on_device}
    return TableRow(line=1, name=name, calls=calls, **(values | more))


def table(*rows: TableRow, cpu: int | None = 100, device: int | None = None, **more: Any) -> ProfilerTable:
    """A table; totals in ms."""
    totals = TableTotals(
        self_cpu_ns=None if cpu is None else cpu * MS, self_device_ns=None if device is None else device * MS
    )
    values: dict[str, Any] = {"title": None, "section": None, "line": 1, "columns": PLAIN, "device": "CUDA"}
    return ProfilerTable(rows=rows, totals=totals, **(values | more))


def document(*tables: ProfilerTable) -> TableDocument:
    """A document of these tables."""
    return TableDocument(name="notes.md", size_bytes=1000, tables=tables)
