"""What a terminal shows of sections: paragraphs, bars, tables and findings, and how much of them fits on a screen.

If a line is too long, names are shortened. Chinese breaks at any character, other scripts at blanks, but never at
no-break spaces, such as those before units.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from os.path import commonprefix

import msgspec
from msgspec.structs import replace
from rich.cells import cell_len, chop_cells, set_cell_size
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text as RichText

from traceanalyzer.formats.cards import Card, card, seen
from traceanalyzer.formats.language import Language, unbroken
from traceanalyzer.knowledge.first_match import AnyOf
from traceanalyzer.report import units
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Finding
from traceanalyzer.report.names import clean, clipped, shorten
from traceanalyzer.report.section import Section, SectionColumn, SectionPart, SectionTable
from traceanalyzer.sections.outcome import first as first_findings

_WIDE = "\u2e80-\u303f\u3041-\u33ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef"
_CLOSING = "、。〉》」』】〕〗〙〛，．：；！？）］｝"
"""Characters that must not begin a line."""

_OPENING = "〈《「『【〔〖〘〚（［｛"
"""Characters that must not end a line."""

NO_BREAK = "\u00a0"
_PIECE = AnyOf(
    rf"[{_OPENING}]*[{_WIDE}][{_CLOSING}]*",
    rf"(?:{NO_BREAK}|[^\s{_WIDE}])+[{_CLOSING}]*",
    rf"[^\S{NO_BREAK}]+",
    flags=0,
)
_FIRST_WIDE = "\u2e80"
_NARROW_PIECE = re.compile(rf"(?:\S|{NO_BREAK})+|[^\S{NO_BREAK}]+")
"""The same of texts that have none of these characters, compiled in a hundredth of the time."""


def wrap(text: str, width: int) -> list[str]:
    """The lines of a paragraph; words longer than a line are split."""
    lines = []
    line = ""
    for piece in _pieces(text, width):
        if cell_len(line + piece.rstrip()) > width and line:
            lines.append(line.rstrip())
            line = ""
        line += piece if line else piece.lstrip()
    return [*lines, line.rstrip()] if line.strip() or not lines else lines


def _pieces(text: str, width: int) -> Iterator[str]:
    """Unbreakable parts of a text, none of them longer than a line."""
    is_narrow = text.isascii() or max(text) < _FIRST_WIDE
    for match in (_NARROW_PIECE if is_narrow else _PIECE.compiled).finditer(text):
        yield from chop_cells(match[0], width) if cell_len(match[0]) > width else (match[0],)


INDENT = (0, 0, 0, 2)

_MORE_COLUMNS = Text(
    "terminal-more-columns",
    "{hidden:count} more columns are in the other formats.",
    one="{hidden:count} more column is in the other formats.",
)
_BAR_WIDTH = 36
_IN_BARS = {"ns": "plain_ns", "bytes": "plain_bytes"}
"""Units of quantities beside bars, which need no decimals."""
_LEAST_NAME = 16
_MOST_TEXT = 40
"""Most cells of a text beside numbers that would not fit otherwise."""
_GAP = 2
NOISE = re.compile(r"^void |\(anonymous namespace\)::")
"""Uninformative words at the start of many kernel names."""

_LONGEST = 2000
"""Most characters of a paragraph (own choice: one screen)."""

_MORE_FINDINGS = Text(
    "terminal-more-findings",
    "{hidden:count} more findings are in the other formats.",
    one="{hidden:count} more finding is in the other formats.",
)
_STYLES = {"critical": "bold red", "high": "red", "medium": "yellow", "low": "green", "info": "dim"}


_SENTENCE = re.compile(r"[.!?](?=\s+[^\sa-z]|\s*\Z)|[。！？]")
"""The end of a sentence; an abbreviation within one is followed by a small letter."""


def paragraph(text: str, width: int, indent: int = 0, *, style: str = "", lines: int | None = None) -> RichText:
    """Wrap a text to lines of the width of the console.

    Args:
        text: The text, which may contain names in a trace.
        width: Columns of the console.
        indent: Number of blanks before each line.
        style: Style of rich.
        lines: Most lines, but for those that the first sentence has; None for no limit.
    """
    text = unbroken(text)
    cleaned = NO_BREAK.join(clipped(part, _LONGEST) for part in text.split(NO_BREAK))
    wrapped = [line.replace(NO_BREAK, " ") for line in wrap(shorten(cleaned, _LONGEST), max(1, width - indent))]
    if lines is not None and len(wrapped) > lines:
        whole = _whole_sentences(wrapped[:lines]) or _first_sentence(wrapped)
        wrapped = whole or [*wrapped[: lines - 1], wrap(wrapped[lines - 1], max(1, width - indent - 3))[0] + "..."]
    return RichText("\n".join(" " * indent + line for line in wrapped), style=style, no_wrap=True, overflow="crop")


def _whole_sentences(lines: list[str]) -> list[str]:
    """The lines up to the last end of a sentence, none without one: half a piece of advice may be the wrong half."""
    for number in range(len(lines), 0, -1):
        ends = [match.end() for match in _SENTENCE.finditer(lines[number - 1])]
        if ends:
            return [*lines[: number - 1], lines[number - 1][: ends[-1]]]
    return []


def _first_sentence(lines: list[str]) -> list[str]:
    """The lines up to the first end of a sentence, none without one."""
    for number, line in enumerate(lines):
        if match := _SENTENCE.search(line):
            return [*lines[:number], line[: match.end()]]
    return []


def bars(parts: tuple[SectionPart, ...], width: int, language: Language, *, is_ascii: bool) -> RenderableType:
    """Draw the pieces of a whole, those below one percent left out: label, value, share, bar."""
    full, sliver = ("#", ".") if is_ascii else ("\u2588", "\u258f")
    shares = units.adding_up([part.share for part in parts])
    worth = [number for number, share in enumerate(shares) if share > 0] or [*range(len(parts))]
    parts = tuple(parts[number] for number in worth)
    rows = [
        (
            language.text(part.label),
            language.quantity(part.value, _IN_BARS.get(part.unit, part.unit)),
            language.quantity(shares[number], "percent"),
        )
        for number, part in zip(worth, parts, strict=True)
    ]
    grid = RichTable(box=None, show_header=False, pad_edge=False, padding=(0, _GAP, 0, 0))
    label, *numbers = (max(map(cell_len, column)) + _GAP for column in zip(*rows, strict=True))
    room = width - INDENT[3] - sum(numbers)
    grid.add_column(no_wrap=True, max_width=max(1, min(label, room - 1) - _GAP))  # labels give way to numbers, too
    for justify in ("right", "right", "left"):
        grid.add_column(justify=justify, no_wrap=True)
    room = max(1, min(_BAR_WIDTH, room - label))
    for part, row in zip(parts, rows, strict=True):
        grid.add_row(*row, RichText(full * round(min(1.0, part.share) * room) or sliver, style="cyan"))
    return Padding(grid, INDENT, expand=False)


def table(shown: SectionTable, width: int, language: Language) -> Iterator[RenderableType]:
    """Draw the columns that fit, and the number of the others; long texts give way to numbers first."""
    columns = wanted = [(i, column) for i, column in enumerate(shown.columns) if not column.is_extra]
    if not _fits(shown, columns, width, language):
        shown = replace(shown, rows=tuple(_shortened(shown, number, language) for number in range(len(shown.rows))))
    while len(columns) > 2 and not _fits(shown, columns, width, language):
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
    cells = [_column(shown, i, column, name, language) for i, column in columns]
    for row in zip(*cells, strict=True):
        grid.add_row(*row)
    yield Padding(grid, INDENT, expand=False)
    if len(columns) < len(wanted):
        said = language.text(_MORE_COLUMNS, hidden=len(wanted) - len(columns))
        yield Padding(RichText(said, style="dim"), INDENT, expand=False)


def _fits(shown: SectionTable, columns: list[tuple[int, SectionColumn]], width: int, language: Language) -> bool:
    return _room(shown, columns, width, language) >= _LEAST_NAME * _names(columns)


def _shortened(shown: SectionTable, number: int, language: Language) -> tuple[object, ...]:
    """A row whose texts leave room for numbers."""
    return tuple(
        cut_off(_value(shown, number, i, language), _MOST_TEXT)
        if not column.is_name and shown.unit(number, i) == ""
        else value
        for i, (column, value) in enumerate(zip(shown.columns, shown.rows[number], strict=True))
    )


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


def _column(shown: SectionTable, i: int, column: SectionColumn, width: int, language: Language) -> list[str]:
    texts = [_value(shown, number, i, language) for number in range(len(shown.rows))]
    return told_apart([NOISE.sub("", text) for text in texts], width) if column.is_name else texts


def told_apart(names: Sequence[str], width: int) -> list[str]:
    """Names of at most `width` cells; where two would look alike, from shortly before their first difference on."""
    fitted = [fit(name, width) for name in names]
    alike: defaultdict[str, set[str]] = defaultdict(set)
    for name, short in zip(names, fitted, strict=True):
        alike[short].add(name)
    head = width // 3
    for number, name in enumerate(names):
        if len(alike[fitted[number]]) > 1:
            common = commonprefix([*alike[fitted[number]]])  # noqa: RUF071 - these are no paths
            begin = max(head, len(common) - _BEFORE_DIFFERENCE)
            fitted[number] = cut_off(f"{name[:head]}...{name[begin:]}", width)
    return fitted


_BEFORE_DIFFERENCE = 3
"""Characters that two names have in common before the part that tells them apart (own choice)."""


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


def findings(found: tuple[Finding, ...], width: int, language: Language, level: Level) -> Iterator[RenderableType]:
    """Draw the first findings, and the number of the others.

    Args:
        found: Findings in the order of the report.
        width: Columns of the console.
        language: Language of the texts.
        level: Level of detail. A brief one shows only the saving, a line of code or sentence of advice, and, where
            there is room, two lines of what was seen.
    """
    shown = first_findings(found)
    for number, finding in enumerate(shown, 1):
        yield from _card(number, card(finding, language), _STYLES.get(finding.severity, ""), width, level)
    hidden = len(found) - len(shown)
    if hidden > 0:
        yield paragraph(language.text(_MORE_FINDINGS, hidden=hidden), width, 2, style="dim")


def _card(number: int, shown: Card, style: str, width: int, level: Level) -> Iterator[RenderableType]:
    run = f"{shown.run}: " if shown.run else ""
    title = paragraph(f"{number}. {run}{shown.action}", width, 2, style="bold", lines=2)
    title.highlight_words([f"{number}."], style)
    yield title
    if shown.saves:
        yield paragraph(shown.saves, width, 5, style="bold" if shown.question else "bold green")
    if level.is_brief:
        yield paragraph(shown.fix, width, 5, style="cyan" if shown.is_code else "", lines=2)
        for line in shown.lines[:1]:
            yield paragraph(line, width, 5, style="dim", lines=1)
        if level.has_observations:
            yield paragraph(seen(shown), width, 5, style="dim", lines=3 if shown.reason else 2)
        return
    yield paragraph(shown.summary, width, 5)
    yield paragraph(shown.advice, width, 5)
    for line in (*(shown.code or "").split("\n"), *shown.lines):
        if line.strip():
            indent = 7 + len(line) - len(line.lstrip(" "))
            yield paragraph(line, width, min(indent, width // 2), style="cyan")


LINES = 40
"""Number of lines of a screen (own choice: what a window of a terminal shows at once)."""


_FEW_ROWS = 2
"""Rows of a table that are not worth their place where there is little, unless it is essential (own choice)."""


class Level(msgspec.Struct, frozen=True):
    """Level of detail of each section."""

    rows: int | None = None
    """Most rows of a table; None for the requested number."""
    is_brief: bool = False
    """Whether findings show only the saving and the fix."""
    has_facts: bool = True
    has_essential: bool = True
    """Whether essential facts are shown even if others are left out."""
    has_parts: bool = True
    """Whether the pieces of a whole are shown as bars."""
    messages: int = 50
    """Most messages of a section."""
    lines: int | None = None
    """Most lines of a message."""
    has_observations: bool = True
    """Whether brief findings show what was seen, or the saving and the fix alone."""
    has_tables: bool = True
    """Whether essential sections keep their tables."""


LEVELS = (
    Level(),
    Level(is_brief=True),
    Level(is_brief=True, has_facts=False, messages=4, lines=3),
    Level(rows=4, is_brief=True, has_facts=False, messages=4, lines=3),
    Level(rows=3, is_brief=True, has_facts=False, messages=3, lines=3),
    Level(rows=2, is_brief=True, has_facts=False, messages=3, lines=3),
    Level(rows=2, is_brief=True, has_facts=False, messages=2, lines=2),
)


def attempts(shown: tuple[Section, ...]) -> Iterator[tuple[Level, tuple[Section, ...], tuple[Section, ...]]]:
    """Attempts in order: the level of detail, the sections to show, and the sections left out.

    A section of which a level leaves nothing is left out, instead of being a title alone.
    """
    for level, kept, left_out in _attempts(shown):
        silent = [section for section in kept if _is_empty(cut(section, level)) and not _is_empty(section)]
        yield (
            level,
            tuple(section for section in kept if section not in silent),
            tuple(section for section in shown if section in silent or section in left_out),
        )


def _is_empty(section: Section) -> bool:
    """Whether a section has nothing but its title."""
    return not (section.messages or section.facts or section.parts or section.tables or section.findings)


def _attempts(shown: tuple[Section, ...]) -> Iterator[tuple[Level, tuple[Section, ...], tuple[Section, ...]]]:
    for level in LEVELS:
        yield level, shown, ()
    least = LEVELS[-1]
    optional = [section for section in shown if not section.is_essential]
    for first in range(len(optional) - 1, -1, -1):
        left_out = optional[first:]
        yield least, tuple(section for section in shown if section not in left_out), tuple(left_out)
    essential = tuple(section for section in shown if section.is_essential)
    yield replace(least, has_essential=False), essential, tuple(optional)
    yield replace(least, has_essential=False, messages=1), essential, tuple(optional)
    least = replace(least, has_essential=False, has_parts=False, messages=1)
    yield least, essential, tuple(optional)
    least = replace(least, has_observations=False)
    yield least, essential, tuple(optional)
    useless = tuple(section for section in essential if section.id == "no_gain")
    rest = tuple(section for section in essential if section not in useless)
    yield least, rest, (*useless, *optional)
    yield replace(least, has_tables=False), rest, (*useless, *optional)


def cut(section: Section, level: Level) -> Section:
    """Reduce a section to a level; tables that are no rankings are not shortened."""
    few = 0 if section.is_essential else _FEW_ROWS
    has_tables = level.has_tables or not section.is_essential
    worth = [t for t in section.tables if has_tables and (not level.is_brief or t.total_rows > few)]
    tables = tuple(t if t.row_units or t.is_whole else replace(t, rows=t.rows[: level.rows]) for t in worth)
    facts = tuple(fact for fact in section.facts if level.has_facts or (fact.is_essential and level.has_essential))
    parts = section.parts if level.has_parts else ()
    return replace(section, tables=tables, messages=section.messages[: level.messages], facts=facts, parts=parts)


def visible(section: Section, level: Level) -> tuple[object, ...]:
    """What a level decides of a section; where two levels decide the same, the section looks the same."""
    shown = cut(section, level)
    return (
        tuple(len(table.rows) for table in shown.tables),
        len(shown.facts),
        len(shown.parts),
        len(shown.messages),
        level.lines if shown.messages else None,
        (level.is_brief, level.has_observations) if shown.findings else None,
    )
