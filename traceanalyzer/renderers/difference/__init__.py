"""Formats of a difference: the terminal, Markdown for a pull request, and JSON."""

from __future__ import annotations

import sys
from typing import TextIO

import msgspec

from traceanalyzer.errors import UsageError
from traceanalyzer.renderers.difference import sections
from traceanalyzer.renderers.language import ENGLISH, Language
from traceanalyzer.renderers.names import clean
from traceanalyzer.report.comparability import Side
from traceanalyzer.report.difference import Difference
from traceanalyzer.report.message import Text

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
    if format == "json":
        return msgspec.json.format(msgspec.json.encode(difference), indent=1).decode() + "\n"
    if format == "markdown":
        return _markdown(difference, top, language)
    if format == "terminal":
        from traceanalyzer.renderers import terminal  # noqa: PLC0415 - rich is slow to import

        return terminal.plain(lambda stream: show(difference, stream, top, language, is_plain=True))
    raise UsageError(f"{format}: no such format of a difference; use one of {', '.join(FORMATS)}")


def show(
    difference: Difference,
    stream: TextIO = sys.stdout,
    top: int | None = None,
    language: Language = ENGLISH,
    *,
    is_plain: bool = False,
) -> None:
    """Write the first screen to a stream, in colour on a terminal that supports it."""
    from traceanalyzer.renderers import terminal  # noqa: PLC0415 - rich is slow to import

    def header(width: int) -> str:
        room = (width - 4) // 2
        base, head = (terminal.fit(_name(side), room) for side in (difference.base, difference.head))
        return language.text(_HEADER, base=base, head=head)

    shown = sections.build(difference, _TOP if top is None else top)
    terminal.show_sections(header, shown, stream, plain=is_plain, language=language)


def _markdown(difference: Difference, top: int | None, language: Language) -> str:
    from traceanalyzer.renderers import markdown  # noqa: PLC0415 - jinja2 is slow to import

    title = language.text(_TITLE, base=_name(difference.base)[:200], head=_name(difference.head)[:200])
    return markdown.fitted(
        MARK, difference.generator, title, lambda rows: sections.build(difference, rows), language, top
    )


def _name(side: Side) -> str:
    return clean(f"{side.name}#{side.run}" if side.run else side.name)
