"""Draws the content of sections: paragraphs, bars, tables and findings. If a line is too long, names are shortened."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.cells import cell_len, set_cell_size
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text as RichText

from traceanalyzer.formats.cards import Card, card
from traceanalyzer.formats.language import Language
from traceanalyzer.formats.names import clean, clipped, shorten
from traceanalyzer.formats.wrapping import NO_BREAK, wrap
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Finding
from traceanalyzer.report.section import SectionColumn, SectionPart, SectionTable

INDENT = (0, 0, 0, 2)

_MORE_COLUMNS = Text(
    "terminal-more-columns",
    "{hidden:count} more columns are in the other formats.",
    one="{hidden:count} more column is in the other formats.",
)
_BAR_WIDTH = 36
_LEAST_NAME = 16
_GAP = 2
NOISE = re.compile(r"^void |\(anonymous namespace\)::")
"""Uninformative words at the start of many kernel names."""

_BEFORE_UNIT = re.compile(r"(?<=[0-9]) (?=(?:%|[mun]?s|B|[KMGT]iB)(?![A-Za-z]))")
"""Pattern of the blank between number and unit in an English text."""
_LONGEST = 2000
"""Most characters of a paragraph (own choice: one screen)."""

SHOWN = 3
"""Number of findings on the screen; other formats show all."""

_MORE_FINDINGS = Text(
    "terminal-more-findings",
    "{hidden:count} more findings are in the other formats.",
    one="{hidden:count} more finding is in the other formats.",
)
_STYLES = {"critical": "bold red", "high": "red", "medium": "yellow", "low": "green", "info": "dim"}


def paragraph(text: str, width: int, indent: int = 0, *, style: str = "", lines: int | None = None) -> RichText:
    """Wrap a text to lines of the width of the console.

    Args:
        text: The text, which may contain names in a trace.
        width: Columns of the console.
        indent: Number of blanks before each line.
        style: Style of rich.
        lines: Most lines; None for no limit.
    """
    text = _BEFORE_UNIT.sub(NO_BREAK, text)
    cleaned = NO_BREAK.join(clipped(part, _LONGEST) for part in text.split(NO_BREAK))
    wrapped = [line.replace(NO_BREAK, " ") for line in wrap(shorten(cleaned, _LONGEST), max(1, width - indent))]
    if lines is not None and len(wrapped) > lines:
        wrapped = wrapped[:lines]
        wrapped[-1] = wrap(wrapped[-1], max(1, width - indent - 3))[0] + "..."
    return RichText("\n".join(" " * indent + line for line in wrapped), style=style, no_wrap=True, overflow="crop")


def bars(parts: tuple[SectionPart, ...], width: int, language: Language, *, is_ascii: bool) -> RenderableType:
    """Draw the pieces of a whole: label, value, share, bar."""
    full, sliver = ("#", ".") if is_ascii else ("\u2588", "\u258f")
    rows = [
        (language.text(p.label), language.quantity(p.value, p.unit), language.quantity(p.share, "share")) for p in parts
    ]
    grid = RichTable(box=None, show_header=False, pad_edge=False, padding=(0, _GAP, 0, 0))
    for justify in ("left", "right", "right", "left"):
        grid.add_column(justify=justify, no_wrap=True)
    others = sum(max(map(cell_len, column)) + _GAP for column in zip(*rows, strict=True))
    room = max(1, min(_BAR_WIDTH, width - INDENT[3] - others))
    for part, row in zip(parts, rows, strict=True):
        grid.add_row(*row, RichText(full * round(min(1.0, part.share) * room) or sliver, style="cyan"))
    return Padding(grid, INDENT, expand=False)


def table(shown: SectionTable, width: int, language: Language) -> Iterator[RenderableType]:
    """Draw the columns that fit, and the number of the others."""
    columns = wanted = [(i, column) for i, column in enumerate(shown.columns) if not column.is_extra]
    while len(columns) > 2 and _room(shown, columns, width, language) < _LEAST_NAME * _names(columns):
        columns = columns[:-1]
    grid = RichTable(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
    for _, column in columns:
        grid.add_column(
            clean(language.text(column.title)),
            justify="left" if column.is_name or column.unit == "" else "right",
            no_wrap=True,
            overflow="crop",
        )
    name = max(_LEAST_NAME, _room(shown, columns, width, language) // max(1, _names(columns)))
    for number in range(len(shown.rows)):
        grid.add_row(*(_cell(shown, number, i, column, name, language) for i, column in columns))
    yield Padding(grid, INDENT, expand=False)
    if len(columns) < len(wanted):
        said = language.text(_MORE_COLUMNS, hidden=len(wanted) - len(columns))
        yield Padding(RichText(said, style="dim"), INDENT, expand=False)


def _names(columns: list[tuple[int, SectionColumn]]) -> int:
    return sum(column.is_name for _, column in columns)


def _room(shown: SectionTable, columns: list[tuple[int, SectionColumn]], width: int, language: Language) -> int:
    """Width that the other columns leave for names, in cells; each column but the last is followed by blanks."""
    others = INDENT[3] + _GAP * (len(columns) - 1)
    for i, column in columns:
        if not column.is_name:
            cells = [_value(shown, number, i, language) for number in range(len(shown.rows))]
            others += max(map(cell_len, [*cells, clean(language.text(column.title))]))
    return width - others


def _value(shown: SectionTable, number: int, i: int, language: Language) -> str:
    return clean(language.quantity(shown.rows[number][i], shown.unit(number, i)))


def _cell(shown: SectionTable, number: int, i: int, column: SectionColumn, width: int, language: Language) -> str:
    text = _value(shown, number, i, language)
    return fit(NOISE.sub("", text), width) if column.is_name else text


def fit(name: str, width: int) -> str:
    """Shorten a name to at most `width` cells; a Chinese character takes two."""
    limit = width
    while cell_len(fitted := shorten(name, limit)) > width:
        limit -= 1
    return fitted


def cut_off(text: str, width: int) -> str:
    """Cut off a text after at most `width` cells."""
    if cell_len(text) <= width:
        return text
    return f"{set_cell_size(text, max(0, width - 3)).rstrip()}..."


def findings(
    found: tuple[Finding, ...], width: int, language: Language, *, is_brief: bool = False
) -> Iterator[RenderableType]:
    """Draw the first findings, and the number of the others.

    Args:
        found: Findings in the order of the report.
        width: Columns of the console.
        language: Language of the texts.
        is_brief: Whether to show only the saving and a line of code, or the advice if there is no code.
    """
    for number, finding in enumerate(found[:SHOWN], 1):
        yield from _card(number, card(finding, language), _STYLES.get(finding.severity, ""), width, is_brief)
    hidden = len(found) - SHOWN
    if hidden > 0:
        yield paragraph(language.text(_MORE_FINDINGS, hidden=hidden), width, 2, style="dim")


def _card(number: int, shown: Card, style: str, width: int, is_brief: bool) -> Iterator[RenderableType]:
    run = f"{shown.run}: " if shown.run else ""
    title = paragraph(f"{number}. {run}{shown.title}  [{shown.severity}]", width, 2, style="bold", lines=2)
    title.highlight_words([f"[{shown.severity}]"], style)
    yield title
    if shown.saves:
        yield paragraph(shown.saves, width, 5, style="bold green")
    if not is_brief:
        yield paragraph(shown.summary, width, 5)
    if not is_brief or not shown.code:
        yield paragraph(shown.advice, width, 5, lines=2 if is_brief else None)
    for line in (shown.code or "").split("\n")[: 2 if is_brief else None]:
        if line.strip():
            indent = 7 + len(line) - len(line.lstrip(" "))
            yield paragraph(line, width, min(indent, width // 2), style="cyan", lines=2 if is_brief else None)
