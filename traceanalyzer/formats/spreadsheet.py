"""Every table of a report with all its rows, as CSV files: plain numbers, units in column heads."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from traceanalyzer import sections
from traceanalyzer.formats import cards
from traceanalyzer.formats.language import ENGLISH, Language
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.names import clean, inert
from traceanalyzer.report.section import SectionColumn, SectionTable
from traceanalyzer.sections import several_runs

_WITH_UNIT = Text("spreadsheet-column", "{title} [{unit}]", note="head of a column; unit is ns, bytes or share")
_UNITS = ("ns", "bytes", "share")
"""Units to name in column heads; shares are fractions of 1."""
_DECIMALS = {"ns": 3, "bytes": 3}
"""Decimals of means by unit: a thousandth of the integers that were measured."""
_OTHER_DECIMALS = 6


def column_head(column: SectionColumn, table: SectionTable, language: Language) -> str:
    """Title of a column with the unit of its values, if all have one unit."""
    title = clean(language.text(column.title))
    return title if table.row_units else with_unit(title, column.unit, language)


def with_unit(title: str, unit: str, language: Language) -> str:
    """A title with a unit."""
    return language.text(_WITH_UNIT, title=title, unit=unit) if unit in _UNITS else title


def number(value: float, unit: str) -> int | float:
    """A number without floating-point noise: 0.3 for 0.30000000000000004, and 12 for 12.0."""
    if isinstance(value, int):
        return value
    decimals = _DECIMALS.get(unit, _OTHER_DECIMALS)
    rounded = round(value, decimals) if abs(value) >= 1 else float(f"{value:.{decimals}g}")
    return int(rounded) if rounded.is_integer() else rounded


_ALL = 10**9
"""More rows than any table has."""

_SAVES_LOW = Text("spreadsheet-saves-low", "Saves at least")
_SAVES_HIGH = Text("spreadsheet-saves-high", "Saves at most")
_RULE = Text("spreadsheet-rule", "Rule")
_RUN = Text("spreadsheet-run", "Run", note="one of several measurements in a text")
_SUMMARY = Text("spreadsheet-summary", "Summary")

Cell = str | int | float | None


@dataclass(frozen=True)
class Sheet:
    """One table of plain values: times in ns, sizes in bytes, shares as fractions."""

    name: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def sheets(report: Report, language: Language = ENGLISH) -> Iterator[Sheet]:
    """The findings, then every table of every section."""
    language = language.of_report(report)
    if report.findings:
        yield _findings(report, language)
    taken: dict[str, int] = {}
    for section in sections.build(report, _ALL):
        for table in section.tables:
            taken[table.id] = taken.get(table.id, 0) + 1
            suffix = f"_{taken[table.id]}" if taken[table.id] > 1 else ""
            yield _sheet(table, table.id + suffix, language)


def csv_files(report: Report, language: Language = ENGLISH) -> dict[str, str]:
    """Names of files and their text (RFC 4180)."""
    return {f"{sheet.name}.csv": _csv(sheet) for sheet in sheets(report, language)}


def _sheet(table: SectionTable, name: str, language: Language) -> Sheet:
    head = tuple(column_head(column, table, language) for column in table.columns)
    rows = tuple(
        tuple(_value(value, table.unit(number, i), language) for i, value in enumerate(row))
        for number, row in enumerate(table.rows)
    )
    return Sheet(name, head, rows)


def _value(value: Any, unit: str, language: Language) -> Cell:
    """Convert a value: plain numbers, names without control characters."""
    if isinstance(value, bool):
        return language.quantity(value, "bool")
    if value is None:
        return None
    if isinstance(value, int | float):
        return number(value, unit)
    return clean(language.quantity(value, ""))


def _findings(report: Report, language: Language) -> Sheet:
    times = tuple(with_unit(language.text(t), "ns", language) for t in (_SAVES_LOW, _SAVES_HIGH))
    titles = (cards.FINDING, cards.SEVERITY, _RULE, _RUN)
    head = (
        *(language.text(title) for title in titles),
        *times,
        language.text(_SUMMARY),
        language.text(cards.WHAT_TO_DO),
    )
    rows = []
    for finding in several_runs.findings(report).findings:
        shown = cards.card(finding, language)
        low, high = finding.saving.wall_ns_per_step if finding.saving else (None, None)
        row = (shown.title, shown.severity, finding.rule, finding.run, low, high, shown.summary, shown.advice)
        rows.append(tuple(_value(value, "ns", language) for value in row))
    return Sheet("findings", head, tuple(rows))


def _csv(sheet: Sheet) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerows(
        [inert(cell) if isinstance(cell, str) else cell for cell in row] for row in (sheet.head, *sheet.rows)
    )
    return text.getvalue()
