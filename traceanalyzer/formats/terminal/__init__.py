"""Prints the first screen to a terminal of 80 columns or to a log file."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import accumulate
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.text import Text as RichText

from traceanalyzer import sections
from traceanalyzer.formats.language import ENGLISH, Language
from traceanalyzer.formats.terminal import elements
from traceanalyzer.formats.terminal.elements import LINES, Level, attempts, cut, fit, paragraph, visible
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.names import clean
from traceanalyzer.report.section import Section, Topic
from traceanalyzer.sections.outcome import outcome
from traceanalyzer.sections.steps import writer
from traceanalyzer.trace.model import KINETO

__all__ = ["TOP", "WIDTH", "fit", "plain", "render", "show", "show_sections"]

TOP = 5
WIDTH = 80

_HEADER = Text(
    "terminal-header",
    "{name}: a trace of {span:ns}, {events:count} events",
    one="{name}: a trace of {span:ns}, {events:count} event",
)
_TABLES = Text("terminal-tables", "{name}: profiler tables found: {count:count}")
_OF = Text("terminal-of", "{shown:count} of {total:count}", "rows of a table")
_MORE_MESSAGES = Text(
    "terminal-more-messages", "{hidden:count} more in the other formats", "messages, after the title of a section"
)
_LEFT_OUT = Text("terminal-left-out", "More in the other formats: {titles}.", "titles of sections")
_SENTENCE = 6
"""Most lines of the first messages, such as the headline, which are incomprehensible if cut off."""
_INDENT = 2
_SHORTEST_NAME = 8
"""Columns that the name of a file keeps in the first line, however narrow the screen is."""


class _Console(Console):
    """A console that leaves a closed output to `main`, where Rich would end the program with exit code 1."""

    def on_broken_pipe(self) -> None:
        raise  # noqa: PLE0704 - called while a BrokenPipeError is handled


def render(report: Report, top: int | None = None, width: int = WIDTH, *, language: Language = ENGLISH) -> str:
    """Render the first screen as plain text."""
    return plain(lambda stream: show(report, stream, top=top, width=width, plain=True, language=language))


def plain(draw: Callable[[TextIO], None]) -> str:
    """Run a drawing function, and return what it drew as plain text."""
    stream = io.StringIO()
    draw(stream)
    return stream.getvalue()


def show(
    report: Report,
    stream: TextIO,
    *,
    top: int | None = None,
    width: int | None = None,
    plain: bool = False,
    language: Language = ENGLISH,
) -> None:
    """Write the first screen to a stream, in colour on a terminal that supports it."""
    language = language.of_report(report)
    show_sections(
        lambda columns: _opening(report, columns, language),
        (
            section
            for section in sections.build(report, TOP if top is None else top)
            if not _is_opening(report, section)
        ),
        stream,
        width=width,
        lines=LINES if top is None else None,
        plain=plain,
        language=language,
    )


def show_sections(
    header: Callable[[int], str | RichText],
    shown: Iterable[Section],
    stream: TextIO,
    *,
    width: int | None = None,
    lines: int | None = None,
    plain: bool = False,
    language: Language = ENGLISH,
) -> None:
    """Write a header, made for the width of the console, and the sections that are not details.

    Args:
        header: Function from the number of columns to the first line.
        shown: Sections to write.
        stream: Output stream.
        width: Number of columns; None for that of the terminal, or 80.
        lines: Most lines to write; the least important parts are left out. None for no limit.
        plain: Whether to omit control codes on any stream.
        language: Language of the texts.
    """
    console = _Console(
        file=stream,
        width=width if width else (None if stream.isatty() else WIDTH),
        color_system=None if plain else "auto",
        force_terminal=False if plain else None,
        force_jupyter=False,  # or a cell shows an empty output for each piece that is measured
        highlight=False,
        markup=False,
        emoji=False,
    )

    screen = _Screen(console, header, language)
    for attempt in attempts(tuple(section for section in shown if not section.is_detail)):
        if lines is None or screen.fits(*attempt, lines):
            break
    if console.is_terminal:
        screen.draw(*attempt)
    else:
        text = "".join(screen.texts(*attempt))
        stream.write("\n".join(line.rstrip() for line in text.split("\n")))


class _Screen:
    """Draws attempts on a console; what a section looks like is kept, because most attempts show it alike."""

    def __init__(self, console: Console, header: Callable[[int], str | RichText], language: Language) -> None:
        self._console = console
        self._header = header
        self._language = language
        self._known: dict[tuple[object, ...], str] = {}

    def draw(self, level: Level, kept: Iterable[Section], left_out: tuple[Section, ...]) -> None:
        """Print a header, sections, and the titles of those that are left out."""
        self._begin()
        for section in kept:
            self._section(section, level)
        if left_out:
            self._end(left_out)

    def texts(self, level: Level, kept: Iterable[Section], left_out: tuple[Section, ...]) -> Iterator[str]:
        """The parts of what `draw` prints."""
        yield self._captured(self._begin)
        for section in kept:
            key = (id(section), *visible(section, level))
            if key not in self._known:
                self._known[key] = self._captured(partial(self._section, section, level))
            yield self._known[key]
        if left_out:
            yield self._captured(partial(self._end, left_out))

    def fits(self, level: Level, kept: Iterable[Section], left_out: tuple[Section, ...], lines: int) -> bool:
        """Whether it needs no more lines; the first part that does not fit is the last one that is drawn."""
        return all(needed <= lines for needed in accumulate(t.count("\n") for t in self.texts(level, kept, left_out)))

    def _captured(self, part: Callable[[], None]) -> str:
        with self._console.capture() as capture:
            part()
        return capture.get()

    def _begin(self) -> None:
        header = self._header(self._console.width)
        if isinstance(header, RichText) and self._console.options.ascii_only:  # which would show a question mark
            header = RichText("->").join(header.split("\u2192"))
        self._console.print(RichText(header, style="bold") if isinstance(header, str) else header, soft_wrap=True)

    def _section(self, section: Section, level: Level) -> None:
        self._console.print()
        self._console.print(Group(*_section(section, level, self._console, self._language)))

    def _end(self, left_out: tuple[Section, ...]) -> None:
        titles = self._language.list(self._language.text(section.title) for section in left_out)
        text = self._language.text(_LEFT_OUT, titles=titles)
        self._console.print()
        self._console.print(paragraph(text, self._console.width, style="dim", lines=2))


def _is_opening(report: Report, section: Section) -> bool:
    """Whether the section is what the first lines say: the only headline."""
    return section.id == "headline" and len(report.headlines) == 1


def _opening(report: Report, width: int, language: Language) -> RichText:
    """The first lines: the sentence of the only headline, what qualifies it, all fixes, and what file it is about."""
    facts = _header(report, width, language)
    if len(report.headlines) != 1:
        return RichText(facts, style="bold")
    headline = report.headlines[0]
    lines = [paragraph(language.say(headline.message), width, style="bold")]
    lines += [
        paragraph(language.say(each), width)
        for each in (headline.qualifier, outcome(headline, report.findings))
        if each
    ]
    return RichText("\n").join([*lines, RichText(facts, style="dim")])


def _header(report: Report, width: int, language: Language) -> str:
    name = fit(clean(report.source.name), width // 2)
    if report.trace is not None:
        facts = {"events": report.trace.events, "span": report.trace.span_ns}
        room = width - cell_len(language.text(_HEADER, name="", **facts))
        header = language.text(_HEADER, name=fit(name, max(_SHORTEST_NAME, room)), **facts)
        # who reads a trace of Kineto in C++ need not be told; others leave out what may be missed here
        written = () if report.trace.writer == KINETO else writer(report.trace)
        told = (clean(language.labelled(fact.label, language.quantity(fact.value, fact.unit))) for fact in written)
        return "\n".join((header, *(fit(text, width) for text in told)))
    tables = report.result("tables", tuple)
    return language.text(_TABLES, name=name, count=len(tables)) if tables else name


def _section(section: Section, level: Level, console: Console, language: Language) -> Iterator[RenderableType]:
    shown = cut(section, level)
    yield _title(shown, console.width, language, len(section.messages) - len(shown.messages))
    lines = _SENTENCE if section.topic is Topic.SUMMARY and level.lines else level.lines
    said = [paragraph(language.say(message), console.width, _INDENT, lines=lines) for message in shown.messages]
    if not shown.findings:
        yield from said
    if shown.parts:
        yield elements.bars(shown.parts, console.width, language, is_ascii=console.options.ascii_only)
    for fact in shown.facts:
        text = clean(language.labelled(fact.label, language.quantity(fact.value, fact.unit)))
        yield paragraph(elements.cut_off(text, console.width - 2 * _INDENT), console.width, _INDENT)
    for table in shown.tables:
        yield from elements.table(table, console.width, language)
    yield from elements.findings(shown.findings, console.width, language, level)
    if shown.findings:
        yield from said


def _title(shown: Section, width: int, language: Language, hidden: int) -> RichText:
    """Title of a section, with the number of rows if not all are shown, and of messages that are not."""
    left_out = [
        language.text(_OF, shown=len(table.rows), total=table.total_rows)
        for table in shown.tables
        if len(table.rows) < table.total_rows
    ]
    if hidden:
        left_out.append(language.text(_MORE_MESSAGES, hidden=hidden))
    room = width - sum(cell_len(each) + _INDENT for each in left_out)
    title = RichText(fit(clean(language.text(shown.title)), max(_SHORTEST_NAME, room)), style="bold cyan")
    for each in left_out:
        title.append(" " * _INDENT + each, style="dim")
    return title
