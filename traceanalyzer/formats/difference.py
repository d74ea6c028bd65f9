"""A difference of two reports in all formats: the terminal, Markdown for a pull request, a page, and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from traceanalyzer.formats import before_after, difference_sections
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
_LEAST_ROUNDED_NS = 10_000_000
"""Least step that has no decimals (own choice: 7.1 and 3.7 ms are easier to compare than 7,120 and 3,720 us)."""
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
        tuple if is_story else partial(_opening, difference, language, page_url),
        partial(_top_of_page, difference, language),
        (lambda: title) if is_story else partial(_heading, difference, language),
    )


def _opening(difference: Difference, language: Language, page_url: str | None) -> Iterable[str]:
    """The blocks of a comment before its sections."""
    from traceanalyzer.formats.markdown import comment  # noqa: PLC0415 - jinja2 is slow to import

    return comment.of_difference(difference, difference_sections.STATUS, _rounded(difference, language), page_url)


def _heading(difference: Difference, language: Language) -> str:
    """The first line of a comment."""
    from traceanalyzer.formats.markdown import comment  # noqa: PLC0415 - jinja2 is slow to import

    outcome = language.text(word(difference_sections.OUTCOMES, difference.verdict.outcome))
    return comment.verdict_of(difference, outcome, _rounded(difference, language))


def _rounded(difference: Difference, language: Language) -> Language:
    """The language of what a comment shows at once: without decimals, where two steps in milliseconds need none."""
    from traceanalyzer.formats.html.figures import rounded  # noqa: PLC0415 - jinja2 is slow to import

    base, head = before_after.step_ns(difference)
    return rounded(language, base) if base and head and min(base, head) >= _LEAST_ROUNDED_NS else language


def _top_of_page(difference: Difference, language: Language) -> Opening:
    """What is above the sections of a page."""
    from traceanalyzer.formats.html import difference as page  # noqa: PLC0415 - jinja2 is slow to import

    return page.opening(difference, language)


def _name(side: Side) -> str:
    return clean(f"{side.name}#{side.run}" if side.run else side.name)
