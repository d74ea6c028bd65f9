"""The first screen, for a terminal of 80 columns or a log file."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text as RichText

from traceanalyzer.renderers import sections, terminal_findings
from traceanalyzer.renderers.language import ENGLISH, Language
from traceanalyzer.renderers.names import clean, shorten
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Column, Part, Section, Table

TOP = 5
WIDTH = 80

_HEADER = Text(
    "terminal-header",
    "{name}: {events:count} events in {span:ns}",
    one="{name}: {events:count} event in {span:ns}",
)
_TABLES = Text("terminal-tables", "{name}: profiler tables found: {count:count}")
_BAR_WIDTH = 36
_NOISE = re.compile(r"^void |\(anonymous namespace\)::")
"""What every other kernel's name begins with, and nobody reads."""

_INDENT = (0, 0, 0, 2)
_KEPT = {
    "run_operators": ("runs-name", "runs-calls", "runs-device-self", "runs-share", "runs-host-self", "runs-host-share"),
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


class _Console(Console):
    """Rich ends the program with exit code 1 when the reader of the output is gone; that is `main`'s to decide."""

    def on_broken_pipe(self) -> None:
        raise  # noqa: PLE0704 - called while a BrokenPipeError is handled


def render(report: Report, top: int | None = None, width: int = WIDTH, *, language: Language = ENGLISH) -> str:
    """The first screen as plain text."""
    return plain(lambda stream: show(report, stream, top=top, width=width, plain=True, language=language))


def plain(draw: Callable[[TextIO], None]) -> str:
    """What is drawn on a stream, without blanks at the ends of lines."""
    stream = io.StringIO()
    draw(stream)
    return "\n".join(line.rstrip() for line in stream.getvalue().split("\n"))


def show(
    report: Report,
    stream: TextIO,
    *,
    top: int | None = None,
    width: int | None = None,
    plain: bool = False,
    language: Language = ENGLISH,
) -> None:
    """Write the first screen to a stream, in colour where that is a terminal that wants it."""
    show_sections(
        lambda columns: _header(report, columns, language),
        sections.build(report, TOP if top is None else top),
        stream,
        width=width,
        plain=plain,
        language=language,
    )


def show_sections(
    header: Callable[[int], str],
    shown: Iterable[Section],
    stream: TextIO,
    *,
    width: int | None = None,
    plain: bool = False,
    language: Language = ENGLISH,
) -> None:
    """Write a header, made for the width of the console, and all sections that are no details."""
    console = _Console(
        file=stream,
        width=width if width else (None if stream.isatty() else WIDTH),
        color_system=None if plain else "auto",
        force_terminal=False if plain else None,
        highlight=False,
        markup=False,
        emoji=False,
    )
    console.print(RichText(header(console.width), style="bold"), soft_wrap=True)
    for section in shown:
        if not section.is_detail:
            console.print()
            console.print(Group(*_section(section, console, language)))


def _header(report: Report, width: int, language: Language) -> str:
    name = fit(clean(report.source.name), width // 2)
    if report.trace is None:
        return language.text(_TABLES, name=name, count=len(report.analyses["tables"]))
    return language.text(_HEADER, name=name, events=report.trace.events, span=report.trace.span_ns)


def _section(section: Section, console: Console, language: Language) -> Iterator[RenderableType]:
    yield RichText(clean(language.text(section.title)), style="bold cyan")
    for message in section.messages:
        yield Padding(RichText(clean(language.say(message))), _INDENT, expand=False)
    if section.parts:
        yield _bars(section.parts, console, language)
    for fact in section.facts:
        text = clean(language.labelled(fact.label, language.quantity(fact.value, fact.unit)))
        yield Padding(RichText(fit(text, console.width - 4)), _INDENT, expand=False)
    for table in section.tables:
        yield _table(table, console, language)
    yield from terminal_findings.draw(section.findings, language)


def _bars(parts: tuple[Part, ...], console: Console, language: Language) -> RenderableType:
    grid = RichTable(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for justify in ("left", "right", "right", "left"):
        grid.add_column(justify=justify, no_wrap=True)
    full, sliver = ("#", ".") if console.options.ascii_only else ("\u2588", "\u258f")
    for part in parts:
        bar = full * round(part.share * _BAR_WIDTH) or sliver
        value, share = language.quantity(part.value, part.unit), language.quantity(part.share, "share")
        grid.add_row(language.text(part.label), value, share, RichText(bar, style="cyan"))
    return Padding(grid, _INDENT, expand=False)


def _table(table: Table, console: Console, language: Language) -> RenderableType:
    kept = _KEPT.get(table.id)
    shown = [(i, c) for i, c in enumerate(table.columns) if kept is None or c.title.id in kept]
    grid = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for _, column in shown:
        grid.add_column(
            clean(language.text(column.title)),
            justify="left" if column.is_name or column.unit == "" else "right",
            no_wrap=True,
            overflow="crop",
        )
    width = _name_width(table, shown, console.width, language)
    for number, row in enumerate(table.rows):
        grid.add_row(*(_cell(language.quantity(row[i], table.unit(number, i)), column, width) for i, column in shown))
    return Padding(grid, _INDENT, expand=False)


def _name_width(table: Table, shown: list[tuple[int, Column]], width: int, language: Language) -> int:
    """What the other columns leave for names; each column but the last has two blanks after it."""
    names = max(1, sum(column.is_name for _, column in shown))
    others = 2 + 2 * (len(shown) - 1)
    for i, column in shown:
        if not column.is_name:
            cells = [language.quantity(row[i], table.unit(number, i)) for number, row in enumerate(table.rows)]
            others += max(map(cell_len, [*cells, language.text(column.title)]))
    return max(16, (width - others) // names)


def _cell(value: str, column: Column, width: int) -> RichText:
    text = clean(value)
    return RichText(fit(_NOISE.sub("", text), width) if column.is_name else text)


def fit(name: str, width: int) -> str:
    """The name in at most `width` cells; a Chinese character takes two."""
    limit = width
    while cell_len(fitted := shorten(name, limit)) > width:
        limit -= 1
    return fitted
