"""Formats of what commands answer besides reports: a prediction, a difference."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TextIO

import msgspec

from traceanalyzer.errors import UsageError
from traceanalyzer.formats.language import Language
from traceanalyzer.report.model import Generator
from traceanalyzer.report.section import Section


@dataclass(frozen=True)
class Answer:
    """What is answered, in words of one language."""

    data: msgspec.Struct
    """What its JSON holds."""
    generator: Generator
    mark: str
    """How its Markdown begins."""
    title: str
    """Safe to show."""
    header: Callable[[int], str]
    """From the number of columns of a screen to its first line."""
    sections: Callable[[int], Iterable[Section]]
    """From the number of rows of a table to what is shown."""
    top: int
    """Rows of a table, except in Markdown, which decides itself."""
    language: Language

    def render(self, form: str, top: int | None = None) -> str:
        """The answer as text.

        Args:
            form: `terminal`, `markdown`, `html` or `json`.
            top: Rows of a table; the format's own default if None.

        Raises:
            UsageError: There is no such format.
        """
        if form == "json":
            return msgspec.json.format(msgspec.json.encode(self.data), indent=1).decode() + "\n"
        if form == "markdown":
            from traceanalyzer.formats import markdown  # noqa: PLC0415 - jinja2 is slow to import

            return markdown.fitted(self.mark, self.generator, self.title, self.sections, self.language, top)
        if form == "html":
            from traceanalyzer.formats import html  # noqa: PLC0415 - jinja2 is slow to import

            return html.plain(self.generator, self.title, self.sections(top or self.top), self.language)
        if form == "terminal":
            from traceanalyzer.formats import terminal  # noqa: PLC0415 - rich is slow to import

            return terminal.plain(lambda stream: self.show(stream, top, is_plain=True))
        raise UsageError(f"{form}: no such format")

    def show(self, stream: TextIO, top: int | None = None, *, is_plain: bool = False) -> None:
        """Write it to a stream, in colour where that is a terminal that wants it."""
        from traceanalyzer.formats import terminal  # noqa: PLC0415 - rich is slow to import

        shown = self.sections(top or self.top)
        terminal.show_sections(self.header, shown, stream, plain=is_plain, language=self.language)


def check(form: str, formats: Iterable[str], what: str) -> None:
    """Refuse formats that an answer does not have.

    Raises:
        UsageError: It is none of them.
    """
    if form not in formats:
        raise UsageError(f"{form}: no such format of a {what}; use one of {', '.join(formats)}")
