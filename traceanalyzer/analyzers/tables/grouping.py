"""Which tables belong to the same run?

Tables with the same totals were printed from the same profile (sorted by CPU, sorted by device, grouped by
shape) and are joined into one view; tables with other totals are another run, before or after a change.
"""

from __future__ import annotations

import re
from functools import cached_property

import msgspec

from traceanalyzer.analyzers.tables import rows as joined
from traceanalyzer.analyzers.tables.kinds import RowKind
from traceanalyzer.trace.document import ProfilerTable, TableDocument, TableRow

MOST_COMPARED = 4
"""Own choice: as many totals may be of runs before and after changes, and can be read side by side."""
_RANK = re.compile(r"\brank[\s:=#_-]{0,2}(\d{1,6})\b", re.IGNORECASE)


class RunView(msgspec.Struct, frozen=True, dict=True):
    """The tables of one run, joined into one view."""

    id: str
    title: str | None
    tables: tuple[ProfilerTable, ...]
    positions: tuple[int, ...]

    @cached_property
    def by_name(self) -> list[tuple[TableRow, RowKind]]:
        """Each event once, whatever its tables are grouped by."""
        return joined.by_name(self.tables)

    @cached_property
    def by_shape(self) -> list[TableRow]:
        """Each operator once for each of its shapes."""
        return joined.by_shape(self.tables)


def group(document: TableDocument) -> tuple[RunView, ...]:
    """Group tables into runs by equal totals; a table without totals belongs to the one before it."""
    members: list[tuple[object, list[int]]] = []
    for position, table in enumerate(document.tables):
        totals = (table.totals.self_cpu_ns, table.totals.self_device_ns, table.totals.device_total_ns)
        known = any(value is not None for value in totals)
        same = [entry for entry in members if known and entry[0] == totals]
        if same:
            same[0][1].append(position)
        elif not known and members and _continues(document, members[-1][1][-1], position):
            members[-1][1].append(position)
        else:
            members.append((totals if known else position, [position]))
    titles = [_title(document, positions) for _, positions in members]
    return tuple(
        RunView(id, title, tuple(document.tables[position] for position in positions), tuple(positions))
        for id, title, (_, positions) in zip(_ids(titles), titles, members, strict=True)  # noqa: A001 - the field's name
    )


def _ids(titles: list[str | None]) -> list[str]:
    """Ranks if every heading names another one; otherwise a few are runs, and the meaning of many is unknown."""
    ranks = [match[1] for title in titles if (match := _RANK.search(title or ""))]
    if len(titles) > 1 and len(set(ranks)) == len(titles):
        return [f"rank-{rank}" for rank in ranks]
    word = "run" if len(titles) <= MOST_COMPARED else "table"
    return [f"{word}-{number}" for number in range(1, len(titles) + 1)]


def _continues(document: TableDocument, before: int, position: int) -> bool:
    """Whether a table without totals stands under the same heading as the one before it."""
    section = document.tables[position].section
    return section is not None and section == document.tables[before].section


def _title(document: TableDocument, positions: list[int]) -> str | None:
    tables = [document.tables[position] for position in positions]
    return next((table.section for table in tables if table.section), None) or tables[0].title
