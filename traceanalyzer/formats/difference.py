"""A difference of two reports in all formats: the terminal, Markdown for a pull request, a page, and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from traceanalyzer.formats import difference_sections
from traceanalyzer.formats.answers import Answer
from traceanalyzer.formats.language import ENGLISH, Language
from traceanalyzer.report.difference import Difference, Side
from traceanalyzer.report.message import Text
from traceanalyzer.report.names import clean, word
from traceanalyzer.report.section import Section
from traceanalyzer.sections import story

if TYPE_CHECKING:
    from traceanalyzer.formats.html.difference import Opening

FORMATS = ("terminal", "markdown", "html", "json")

MARK = "<!-- traceanalyzer diff"
_TOP = 5
_TITLE = Text("diff-title", "{base} compared with {head}", "names of files or runs; base is before, head is after")
_HEADER = Text("diff-header", "{base} -> {head}", "names of files or runs; base is before, head is after")


def answer(
    difference: Difference, language: Language = ENGLISH, *, is_story: bool = False, page_url: str | None = None
) -> Answer:
    """The difference in words of a language, to be rendered in one of `FORMATS`.

    Args:
        difference: The difference.
        language: Language of the texts.
        is_story: Whether a story stands before the tables.
        page_url: Address of its page, which the comment links to.
    """
    base = _name(difference.base)
    head = _name(difference.head)

    def header(width: int) -> str:
        from traceanalyzer.formats import terminal  # noqa: PLC0415 - rich is slow to import

        return language.text(_HEADER, base=terminal.fit(base, width // 2 - 2), head=terminal.fit(head, width // 2 - 2))

    title = language.text(_TITLE, base=base[:200], head=head[:200])

    def shown(rows: int) -> Iterator[Section]:
        told = story.of_difference(difference) if is_story else None
        yield from () if told is None else story.sections_of(told)
        yield from (
            part for part in difference_sections.build(difference, rows) if told is None or part.id != "verdict"
        )

    def opening() -> Iterable[str]:
        from traceanalyzer.formats.markdown import comment  # noqa: PLC0415 - jinja2 is slow to import

        if is_story:
            return ()
        return comment.of_difference(difference, difference_sections.STATUS, language, page_url)

    def heading() -> str:
        from traceanalyzer.formats.markdown import comment  # noqa: PLC0415 - jinja2 is slow to import

        outcome = language.text(word(difference_sections.OUTCOMES, difference.verdict.outcome))
        return title if is_story else comment.verdict_of(difference, outcome, language)

    def top_of_page() -> Opening:
        from traceanalyzer.formats.html import difference as page  # noqa: PLC0415 - jinja2 is slow to import

        return page.opening(difference, language)

    return Answer(
        difference,
        "difference",
        FORMATS,
        difference.generator,
        MARK,
        title,
        header,
        shown,
        _TOP,
        language,
        opening,
        top_of_page,
        heading,
    )


def _name(side: Side) -> str:
    return clean(f"{side.name}#{side.run}" if side.run else side.name)
