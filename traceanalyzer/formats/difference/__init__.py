"""Formats of a difference: the terminal, Markdown for a pull request, and JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TextIO

from traceanalyzer.formats.answers import Answer, check
from traceanalyzer.formats.difference import sections
from traceanalyzer.formats.language import ENGLISH, Language
from traceanalyzer.formats.names import clean
from traceanalyzer.report.difference import Difference, Side
from traceanalyzer.report.message import Text
from traceanalyzer.report.section import Section

FORMATS = ("terminal", "markdown", "json")

MARK = "<!-- traceanalyzer diff"
_TOP = 5
_TITLE = Text("diff-title", "{base} compared with {head}", "names of files or runs; base is before, head is after")
_HEADER = Text("diff-header", "{base} -> {head}", "names of files or runs; base is before, head is after")


def render(difference: Difference, format: str, top: int | None = None, language: Language = ENGLISH) -> str:  # noqa: A002
    """Render a difference as text.

    Args:
        difference: The difference.
        format: One of `FORMATS`.
        top: Number of rows of each table; None for the default of the format. JSON always contains all rows.
        language: Language of the texts.

    Raises:
        UsageError: There is no such format.
    """
    check(format, FORMATS, "difference")
    return _answer(difference, language).render(format, top)


def show(
    difference: Difference, stream: TextIO = sys.stdout, top: int | None = None, language: Language = ENGLISH
) -> None:
    """Write the first screen to a stream, in colour on a terminal that supports it."""
    _answer(difference, language).show(stream, top)


def _answer(difference: Difference, language: Language) -> Answer:
    base, head = _name(difference.base), _name(difference.head)

    def header(width: int) -> str:
        from traceanalyzer.formats import terminal  # noqa: PLC0415 - rich is slow to import

        room = (width - 4) // 2
        return language.text(_HEADER, base=terminal.fit(base, room), head=terminal.fit(head, room))

    title = language.text(_TITLE, base=base[:200], head=head[:200])

    def shown(rows: int) -> Iterator[Section]:
        return sections.build(difference, rows)

    return Answer(difference, difference.generator, MARK, title, header, shown, _TOP, language)


def _name(side: Side) -> str:
    return clean(f"{side.name}#{side.run}" if side.run else side.name)
