"""Turns cells into a row: values by column, and a count of those that could not be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from traceanalyzer.readers.key_averages.cells import NUMERIC, Cells
from traceanalyzer.readers.key_averages.header import PrintedColumn
from traceanalyzer.readers.key_averages.tail import shapes_are_cut
from traceanalyzer.readers.key_averages.values import ValueKind, read_value
from traceanalyzer.trace.document import TableRow

VALUE_UNREADABLE = "read-table-value-unreadable"
ROW_CUT = "read-table-row-cut"


def make_row(
    line: int, columns: Sequence[PrintedColumn], cells: Cells, frames: Sequence[str], losses: Counter[str]
) -> TableRow:
    """Build the row that the cells describe.

    Args:
        line: 1-based line of the document.
        columns: Columns of the table, `name` first.
        cells: Texts by column; None after the end of a short row.
        frames: Further stack frames.
        losses: Counts cells that could not be read and rows that end early; updated in place.
    """
    fields: dict[str, Any] = {}
    resolution: dict[str, int] = {}
    for column, text in zip(columns, _unswapped(columns, cells), strict=True):
        if column.id is None or text is None:
            continue
        if column.kind is ValueKind.TEXT:
            fields[column.id] = text
        elif column.kind is ValueKind.SHAPES:
            fields |= {column.id: text or None, "shapes_truncated": shapes_are_cut(text)}
        elif column.kind is ValueKind.SOURCE:
            fields[column.id] = (text, *frames) if text else tuple(frames)
        elif value := read_value(column.kind, text, column.scale):
            fields[column.id] = value.value
            if value.step is not None:
                resolution[column.id] = value.step
        else:
            losses[VALUE_UNREADABLE] += 1
        if column.id == "cpu_total_share" and text == "0":
            fields["is_async"] = True
    if any(text is None for column, text in zip(columns, cells, strict=True) if column.kind in NUMERIC):
        losses[ROW_CUT] += 1
    return TableRow(
        line=line,
        name_truncated=fields["name"].endswith("..."),
        resolution=resolution,
        **fields,
    )


def _unswapped(columns: Sequence[PrintedColumn], cells: Cells) -> Cells:
    """Swap source and FLOPs back, because torch prints their values and their names in different orders."""
    places = {column.kind: i for i, column in enumerate(columns)}
    source, flops = places.get(ValueKind.SOURCE), places.get(ValueKind.FLOPS)
    if source is None or flops is None:
        return cells
    looks_like_flops = cells[source] and read_value(ValueKind.FLOPS, cells[source] or "")
    if not looks_like_flops or (cells[flops] and read_value(ValueKind.FLOPS, cells[flops] or "")):
        return cells
    cells = cells.copy()
    cells[source], cells[flops] = cells[flops] or "", cells[source]
    return cells
