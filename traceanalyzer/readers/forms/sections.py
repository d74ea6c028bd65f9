"""Joins the tables of a tool that prints one for each part of a program: each part becomes a row with its own time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from traceanalyzer.readers.forms.descriptions import Form, forms
from traceanalyzer.readers.forms.tables import container_of, make_row, make_table
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
    """One table: a row for each part, and the functions of parts that contain no other, which would count twice."""
    outer = {name: container_of(name, form, sections) for name in sections}
    containers = set(outer.values())
    times = {name: _time(table) for name, table in sections.items()}
    rows: list[TableRow] = []
    for name, table in sections.items():
        time = times[name]
        if time is not None:
            rows.append(make_row(table.line, name, form.row, time, is_nested=True, within=outer[name]))
        if name not in containers:
            rows += [replace(row, within=name if len(sections) > 1 else None) for row in table.rows]
    whole = sum(time for name, time in times.items() if time is not None and outer[name] is None)
    first = next(iter(sections.values()))
    return make_table(form, first.line, first.title if len(sections) == 1 else None, rows, whole)


def _time(table: ProfilerTable) -> int | None:
    """The time of a part: as printed above its functions, else of the longest of them."""
    printed = table.totals.self_cpu_ns
    return max((row.cpu_total_ns or 0 for row in table.rows), default=None) if printed is None else printed
