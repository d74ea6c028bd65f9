"""Draws tables and bars on a terminal: names give way when the line is full, numbers never."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.cells import cell_len
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text as RichText

from traceanalyzer.renderers.language import Language
from traceanalyzer.renderers.names import clean, shorten
from traceanalyzer.report.message import Text
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
"""Words that begin the names of most kernels and say nothing."""

_KEPT = {
    "run_operators": ("runs-name", "runs-calls", "runs-device-self", "runs-share", "runs-host-self", "runs-host-share"),
    "phases": (
        "phases-name",
        "phases-calls",
        *(f"phases-{figure}{of}" for figure in ("host", "device", "idle") for of in ("", "-per-step")),
    ),
    "gpu": (
        "gpu-device",
        "gpu-utilization",
        "gpu-busy",
        "gpu-sm-efficiency",
        "gpu-occupancy",
        "gpu-tensor-cores",
    ),
    "operators": (
        "operators-name",
        "operators-calls",
        "operators-device-self",
        "operators-device-share",
        "operators-host-self",
        "operators-host-share",
    ),
    "kernels": ("kernels-name", "kernels-calls", "kernels-total", "kernels-share", "kernels-mean"),
}
"""Columns that fit 80 characters; the others are in the other formats."""


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
    """Draw the columns that fit, and say how many do not."""
    kept = _KEPT.get(shown.id)
    columns = [(i, c) for i, c in enumerate(shown.columns) if kept is None or c.title.id in kept]
    while len(columns) > 2 and _room(shown, columns, width, language) < _LEAST_NAME * _names(columns):
        columns.pop()
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
    if kept is None and len(columns) < len(shown.columns):
        said = language.text(_MORE_COLUMNS, hidden=len(shown.columns) - len(columns))
        yield Padding(RichText(said, style="dim"), INDENT, expand=False)


def _names(columns: list[tuple[int, SectionColumn]]) -> int:
    return sum(column.is_name for _, column in columns)


def _room(shown: SectionTable, columns: list[tuple[int, SectionColumn]], width: int, language: Language) -> int:
    """Cells that the other columns leave for names; each column but the last has blanks after it."""
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
