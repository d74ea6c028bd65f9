"""An Excel workbook for people: the verdict first, times in milliseconds, the tables of related sections on one sheet.

Programs read the CSV files of `spreadsheet`, with one table a file and integers of nanoseconds.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from traceanalyzer import sections
from traceanalyzer.formats import cards, spreadsheet
from traceanalyzer.formats.language import ENGLISH, Language
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.names import clean
from traceanalyzer.report.section import Section, SectionTable, Topic
from traceanalyzer.sections import several_runs

_ALL = 10**9
"""More rows than any table has."""
_SHEET_ROWS = 1_048_576
"""Most rows that a workbook allows."""
_CELL = 32_767
"""Most characters that a workbook allows in a cell."""
_CREATED = datetime(2000, 1, 1, tzinfo=UTC)
"""Date of creation in the file; it is fixed, so that the same report gives the same bytes."""
_NS_PER_MS = 1_000_000
_NUMBERS = {"ns": "#,##0.000", "share": "0.0%", "count": "#,##0", "bytes": "#,##0"}
"""How numbers look by unit, as Excel writes it; times are in milliseconds."""
_NAME_WIDTH, _WIDTH = 60, 16
"""Widths of the first column and of the others, in characters."""

_MS = Text("workbook-ms", "{title} [ms]", note="head of a column of times in milliseconds")
_BYTES = Text("workbook-bytes", "{title} [bytes]", note="head of a column of sizes")
_UNIT = Text("workbook-unit", "Unit", note="head of a column with the unit of each row, such as ms")
_AT_LEAST = Text("workbook-saves-low", "Saves at least [ms per step]")
_AT_MOST = Text("workbook-saves-high", "Saves at most [ms per step]")
_WHAT = Text("workbook-what", "What was found")

_SHEETS: dict[Text, tuple[Topic, ...]] = {
    Text("workbook-summary", "Summary", note="name of a sheet"): (Topic.SUMMARY,),
    Text("workbook-steps", "Steps", note="name of a sheet"): (Topic.STORY, Topic.RUNS, Topic.PHASES, Topic.STEPS),
    Text("workbook-ranks", "Ranks", note="name of a sheet"): (Topic.RANKS, Topic.COMMUNICATION),
    Text("workbook-gpu", "GPU", note="name of a sheet"): (Topic.GPU, Topic.ACCELERATORS, Topic.KERNELS),
    Text("workbook-operators", "Operators", note="name of a sheet"): (Topic.OPERATORS,),
    Text("workbook-host", "CPU", note="name of a sheet"): (Topic.HOST,),
    Text("workbook-modules", "Modules", note="name of a sheet"): (Topic.MODULES,),
    Text("workbook-more", "More", note="name of a sheet"): (Topic.MEMORY, Topic.MORE, Topic.QUALITY),
}
"""Names of the sheets, at most 31 characters in each language, and the topics of their sections."""


@dataclass(frozen=True)
class _Row:
    """One row of a sheet: values with their units, in bold where it is a title or a head."""

    values: tuple[Any, ...] = ()
    units: tuple[str, ...] = ()
    """Unit of each value, as of `SectionColumn`; "" where there is none, and for all that follow."""
    is_bold: bool = False


def workbook(report: Report, language: Language = ENGLISH) -> bytes:
    """An Excel workbook of at most eight sheets; equal reports give equal bytes."""
    import xlsxwriter  # noqa: PLC0415 - slow to import, and only workbooks need it

    language = language.of_report(report)
    file = io.BytesIO()
    book = xlsxwriter.Workbook(file, {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False})
    book.set_properties({"created": _CREATED, "comments": f"traceanalyzer {report.generator.version}"})
    looks = {unit: book.add_format({"num_format": form}) for unit, form in _NUMBERS.items()}
    bold = book.add_format({"bold": True})
    shown = sections.build(report, _ALL)
    for name, topics in _SHEETS.items():
        of_sheet = [section for section in shown if section.topic in topics]
        if not of_sheet:
            continue
        sheet = book.add_worksheet(language.text(name))
        _write(sheet, list(_rows(of_sheet, report, language)), looks, bold)
    if not book.worksheets():
        book.add_worksheet(language.text(next(iter(_SHEETS))))
    book.close()
    return file.getvalue()


def _write(sheet: Any, rows: list[_Row], looks: Mapping[str, Any], bold: Any) -> None:
    """Fill a sheet of the workbook, with the formats of its numbers by their units and that of titles."""
    sheet.set_column(0, 0, _NAME_WIDTH)
    sheet.set_column(1, max(len(row.values) for row in rows), _WIDTH)
    for number, row in enumerate(rows[:_SHEET_ROWS]):
        for column, value in enumerate(row.values):
            if isinstance(value, str):
                sheet.write_string(number, column, value[:_CELL], bold if row.is_bold else None)
            elif value is not None:
                sheet.write_number(number, column, value, looks.get(row.units[column]))


def _rows(of_sheet: list[Section], report: Report, language: Language) -> Iterator[_Row]:
    """What a sheet says: of each section its title, sentences, findings and tables, with an empty row between."""
    for section in of_sheet:
        yield _Row((clean(language.text(section.title)),), is_bold=True)
        yield from (_Row((clean(language.text(message)),)) for message in section.messages)
        if section.findings:
            yield from _of_findings(report, language)
        for table in section.tables:
            yield from _of_table(table, language)
            yield _Row()
        yield _Row()


def _of_findings(report: Report, language: Language) -> Iterator[_Row]:
    """All findings, each with what it saves and what to do."""
    head = (cards.FINDING, cards.SEVERITY, _AT_LEAST, _AT_MOST, cards.WHAT_TO_DO, _WHAT)
    yield _Row(tuple(language.text(title) for title in head), is_bold=True)
    for finding in several_runs.findings(report).findings:
        shown = cards.card(finding, language)
        saved = finding.saving.wall_ns_per_step if finding.saving else (None, None)
        values = (shown.title, shown.severity, *saved, shown.advice, shown.summary)
        units = ("", "", "ns", "ns", "", "")
        yield _Row(tuple(_cell(value, unit, language) for value, unit in zip(values, units, strict=True)), units)


def _of_table(table: SectionTable, language: Language) -> Iterator[_Row]:
    """A table with its head; where each row has a unit of its own, the last column names it."""
    heads = {"ns": _MS, "bytes": _BYTES}
    titles = [
        language.text(heads[column.unit], title=column.title)
        if column.unit in heads and not table.row_units
        else language.text(column.title)
        for column in table.columns
    ]
    yield _Row((*map(clean, titles), *([language.text(_UNIT)] if table.row_units else [])), is_bold=True)
    for number, row in enumerate(table.rows):
        units = tuple(table.unit(number, column) for column in range(len(row)))
        cells = [_cell(value, unit, language) for value, unit in zip(row, units, strict=True)]
        named = [{"ns": "ms"}.get(table.row_units[number], table.row_units[number])] if table.row_units else []
        yield _Row((*cells, *named), (*units, *("" for _ in named)))


def _cell(value: Any, unit: str, language: Language) -> str | int | float | None:
    """A plain number, times in milliseconds; or a text without control characters."""
    if isinstance(value, bool):
        return language.quantity(value, "bool")
    if value is None:
        return None
    if isinstance(value, int | float):
        exact = spreadsheet.number(value, unit)
        return exact / _NS_PER_MS if unit == "ns" else exact
    return clean(language.quantity(value, ""))
