"""What do the tables and logs of other tools say: how long do parts of a program take, and how do figures change?"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from traceanalyzer.analyzers.tables.kinds import RowKind
from traceanalyzer.trace.document import TableDocument, TableRow


class PrintedPart(msgspec.Struct, frozen=True):
    """A part of a program as a tool names it: a timer, a range, an action, a function, a line, or a call."""

    name: str
    """Name as printed."""
    kind: str
    """What the row is: `phase`, `function`, `line`, `call`, or the head of its column in a table made by a person."""
    part: str | None
    """What the part does: `loader` (waiting for data), `result` (waiting for what a device computes), `forward`,
    `backward`, `update`, `communication`, `evaluation`, `checkpoint`; null where its name does not tell."""
    within: str | None
    """Name of the part that contains it; null where none is known to."""
    calls: int | None
    """Number of calls; null where it is not printed."""
    time_ns: int
    """Time in ns, with what it contains."""
    self_ns: int | None
    """Time in ns without what it contains; null where it is not printed."""
    share: float | None
    """Share of the whole time (0 to 1); null where the whole is unknown."""


class PrintedFigures(msgspec.Struct, frozen=True):
    """A figure that a tool prints again and again."""

    tool: str
    """Name of the tool."""
    name: str
    """Name as printed, with the device that it is of."""
    unit: str
    """Unit as printed."""
    values: int
    """Number of values."""
    least: float
    """Least of the values."""
    mean: float
    """Mean of the values."""
    most: float
    """Greatest of the values."""
    last: float
    """Last of the values."""


def parts_of(rows: Sequence[tuple[TableRow, RowKind]], whole: int | None) -> tuple[PrintedPart, ...]:
    """The parts of a program that rows of another tool's table stand for, the longest first.

    Args:
        rows: The rows of a run with their kinds.
        whole: Time of the whole program in ns; None if it is unknown.
    """
    found = [
        _part(row, whole)
        for row, kind in rows
        if row.form_row is not None and kind in (RowKind.PHASE, RowKind.RUNTIME) and row.cpu_total_ns is not None
    ]
    return tuple(sorted(found, key=lambda part: (-(part.self_ns or 0), -part.time_ns, part.name)))


def _part(row: TableRow, whole: int | None) -> PrintedPart:
    time, own = row.cpu_total_ns or 0, row.self_cpu_ns
    shown = time if own is None else own
    share = shown / whole if whole else row.cpu_total_share
    return PrintedPart(row.name, row.form_row or "", row.part, row.within, row.calls, time, own, share)


def figures_of(document: TableDocument) -> tuple[PrintedFigures, ...]:
    """The figures of a document, in its order."""
    return tuple(
        PrintedFigures(one.tool, one.name, one.unit, one.values, one.least, one.mean, one.most, one.last)
        for one in document.figures
    )
