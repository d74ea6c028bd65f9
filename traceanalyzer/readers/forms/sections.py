"""Joins the tables of a tool that prints one for each part of a program: each part becomes a row with its own time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from traceanalyzer.readers.forms.descriptions import Form, forms
from traceanalyzer.readers.forms.tables import make_row, make_table
from traceanalyzer.trace.document import ProfilerTable, TableRow


def joined_sections(tables: Sequence[ProfilerTable]) -> list[ProfilerTable]:
    """The tables, those that a tool prints for the parts of one program joined into one.

    A part that is named a second time begins another report.

    Args:
        tables: Tables of all tools, in their order.
    """
    joined: list[ProfilerTable] = []
    sections: dict[str, ProfilerTable] = {}
    form: Form | None = None
    for table in tables:
        own, name = _section(table)
        if form is not None and (own is not form or name in sections):
            joined.append(_joined(form, sections))
            sections = {}
        form = own
        if own is None:
            joined.append(table)
        else:
            sections[name] = table
    return [*joined, _joined(form, sections)] if form is not None else joined


def _section(table: ProfilerTable) -> tuple[Form | None, str]:
    """The form whose part a table is, and the name of the part; None and an empty name if it is of no such form."""
    for form in forms()["sections"]:
        if form.line and form.of == table.form and (match := form.line.search(table.title or "")):
            return form, match["name"]
    return None, ""


def _joined(form: Form, sections: Mapping[str, ProfilerTable]) -> ProfilerTable:
    """One table: a row for each part, and the functions within it; of one part alone, its functions.

    While one part is profiled, none around it is, so their times add up.
    """
    times = {name: _time(table) for name, table in sections.items()}
    first = next(iter(sections.values()))
    if len(sections) == 1:
        return make_table(form, first.line, first.title, first.rows, next(iter(times.values())))
    rows: list[TableRow] = []
    for name, table in sections.items():
        rows.append(make_row(table.line, name, form.row, times[name]))
        rows += [replace(row, within=name) for row in table.rows]
    return make_table(form, first.line, None, rows, sum(times.values()))


def _time(table: ProfilerTable) -> int:
    """The time of a part: as printed above its functions, else of the longest of them."""
    printed = table.totals.self_cpu_ns
    return max((row.cpu_total_ns or 0 for row in table.rows), default=0) if printed is None else printed
