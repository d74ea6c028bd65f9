"""Which tables does the document contain? Every row and every column, as printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from traceanalyzer.analyzers.tables.grouping import RunView
from traceanalyzer.analyzers.tables.kinds import classify
from traceanalyzer.trace.document import ProfilerTable, TableDocument, TableRow

_ALWAYS = ("line", "name_truncated", "shapes_truncated")


class PrintedTotals(msgspec.Struct, frozen=True):
    """The lines below a table; null where they are not printed."""

    self_cpu_ns: int | None
    """Printed total of the self CPU time in ns; null where it is not printed."""
    self_device_ns: int | None
    """Printed total of the self device time in ns; null where it is not printed."""


class PrintedTable(msgspec.Struct, frozen=True):
    """One table of the document."""

    title: str | None
    """Nearest heading above the table, without its decoration; null if there is none."""
    line: int
    """Line of the table's header in the document, counted from 1."""
    columns: tuple[str, ...]
    """Ids of the known columns in the order in which they are printed."""
    device: str | None
    """Device as printed, such as CUDA, XPU or NPU; null if none is printed."""
    rows: tuple[dict[str, Any], ...]
    """Rows in the printed order: for each its kind, its line, and a value for each column; null is not printed or not
    readable."""
    totals: PrintedTotals
    """The totals that are printed below the table."""
    complete: bool
    """Whether the end of the table was seen; torch may have cut rows all the same (row_limit)."""
    run: str
    """Id of the run that the table belongs to, as in the analysis `runs`."""


def analyze(document: TableDocument, views: Sequence[RunView]) -> tuple[PrintedTable, ...]:
    """All tables in the order of the document."""
    run_of = {id(table): view.id for view in views for table in view.tables}
    return tuple(_table(table, run_of[id(table)]) for table in document.tables)


def _table(table: ProfilerTable, run: str) -> PrintedTable:
    return PrintedTable(
        title=table.title,
        line=table.line,
        columns=table.columns,
        device=table.device,
        rows=tuple(
            {"kind": kind.value, **_values(row, table.columns)}
            for row, kind in zip(table.rows, classify(table.rows), strict=True)
        ),
        totals=PrintedTotals(table.totals.self_cpu_ns, table.totals.self_device_ns),
        complete=table.complete,
        run=run,
    )


def _values(row: TableRow, columns: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(row, name) for name in (*_ALWAYS, *columns)}
