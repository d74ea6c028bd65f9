"""Tables of the HTML page: each cell with its text, and its raw value for sorting and CSV."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from traceanalyzer.formats import plain_values
from traceanalyzer.formats.html.detail import PageDetail
from traceanalyzer.formats.language import Language
from traceanalyzer.formats.names import clean, shorten
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.section import SectionColumn, SectionTable

NAME_WIDTH = 72
"""Most characters of a name in a table; a click shows the full name."""


@dataclass(frozen=True)
class Name:
    """A name in the trace: shortened, with the full name if that differs."""

    short: str
    full: str | None


@dataclass(frozen=True)
class HtmlCell:
    """One cell of a table: a name, or a text with its raw value."""

    name: Name | None
    text: str
    raw: str | None
    """Raw value of a number; null for texts and unknown values."""
    bar: str | None
    """Length of a bar in percent, for shares."""


@dataclass(frozen=True)
class Head:
    """The head of one column."""

    title: str
    csv: str
    """Title of the column with the unit of the raw values, for CSV."""
    is_number: bool
    is_name: bool


@dataclass(frozen=True)
class HtmlGrid:
    """A table with all cells and heads prepared."""

    id: str
    title: str
    heads: tuple[Head, ...]
    rows: tuple[tuple[HtmlCell, ...], ...]
    total: int
    is_uniform: bool
    """Whether all values of a column have one unit, so that it can be sorted."""


def name_of(text: str, detail: PageDetail, width: int = NAME_WIDTH) -> Name:
    """Make an untrusted name safe to show."""
    safe = clean(text)
    short = shorten(safe, width)
    return Name(short, None if short == safe else shorten(safe, detail.name))


def grid(table: SectionTable, title: str, language: Language, detail: PageDetail) -> HtmlGrid:
    """Lay out a table of a section."""
    heads = tuple(_head(column, table, language) for column in table.columns)
    rows = tuple(
        tuple(_cell(value, table.unit(number, i), table.columns[i], language, detail) for i, value in enumerate(row))
        for number, row in enumerate(table.rows)
    )
    return HtmlGrid(f"table-{table.id.replace('_', '-')}", title, heads, rows, table.total_rows, not table.row_units)


def _head(column: SectionColumn, table: SectionTable, language: Language) -> Head:
    csv = plain_values.head(column, table, language)
    return Head(clean(language.text(column.title)), csv, column.unit not in ("", "bool"), column.is_name)


def _cell(value: Any, unit: str, column: SectionColumn, language: Language, detail: PageDetail) -> HtmlCell:
    if column.is_name and value is not None and not isinstance(value, Text | Message):
        return HtmlCell(name_of(str(value), detail), "", None, None)
    text = shorten(clean(language.quantity(value, unit)), detail.name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and unit != ""
    bar = f"{100 * min(1, max(0, value)):.1f}" if column.has_bar and is_number else None
    return HtmlCell(None, text, repr(plain_values.number(value, unit)) if is_number else None, bar)
