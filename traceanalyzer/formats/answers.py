"""Formats of what commands answer besides reports: a prediction, a difference."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TextIO

import msgspec

from traceanalyzer.errors import UsageError
from traceanalyzer.formats.language import Language
from traceanalyzer.report.model import Generator
from traceanalyzer.report.section import Section

if TYPE_CHECKING:
    from traceanalyzer.formats.html.difference import Opening

_PAGE_ROWS = 20


class Answer(msgspec.Struct, frozen=True):
    """What is answered, in words of one language."""

    data: msgspec.Struct
    """What its JSON holds."""
    kind: str
    """What it is, in messages about formats that it does not have."""
    formats: tuple[str, ...]
    """Some of `terminal`, `markdown`, `html` and `json`."""
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
    """Rows of a table, except in Markdown, which decides itself, and on pages."""
    language: Language
    opening: Callable[[], Iterable[str]] = tuple
    """Blocks of Markdown before its sections, which are all folded then."""
    top_of_page: Callable[[], Opening | None] = lambda: None
    """What is above its sections on a page."""
    heading: Callable[[], str] | None = None
    """What its Markdown begins with; None for the title."""

    def render(self, form: str, top: int | None = None) -> str:
        """The answer as text.

        Args:
            form: One of `formats`.
            top: Rows of each table; the format's own default if None. JSON always contains all rows.

        Raises:
            UsageError: It has no such format.
        """
        if form not in self.formats:
            raise UsageError(f"{form}: no such format of a {self.kind}; use one of {', '.join(self.formats)}")
        if form == "json":
            return msgspec.json.format(msgspec.json.encode(self.data), indent=1).decode() + "\n"
        if form == "markdown":
            from traceanalyzer.formats import markdown  # noqa: PLC0415 - jinja2 is slow to import

            above = tuple(self.opening())
            title = self.title if self.heading is None else self.heading()
            return markdown.fitted(self.mark, self.generator, title, self.sections, self.language, top, opening=above)
        if form == "html":
            from traceanalyzer.formats import html  # noqa: PLC0415 - jinja2 is slow to import

            shown = self.sections(top or _PAGE_ROWS)
            return html.plain(self.generator, self.title, shown, self.language, opening=self.top_of_page())
        from traceanalyzer.formats import terminal  # noqa: PLC0415 - rich is slow to import

        return terminal.plain(lambda stream: self.show(stream, top, is_plain=True))

    def show(self, stream: TextIO, top: int | None = None, *, is_plain: bool = False) -> None:
        """Write it to a stream, in colour where that is a terminal that wants it."""
        from traceanalyzer.formats import terminal  # noqa: PLC0415 - rich is slow to import

        shown = self.sections(top or self.top)
        terminal.show_sections(self.header, shown, stream, plain=is_plain, language=self.language)
