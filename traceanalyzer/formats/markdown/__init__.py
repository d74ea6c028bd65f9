"""Renders Markdown for GitHub and GitLab, short enough for a comment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from traceanalyzer import sections
from traceanalyzer.formats import environment
from traceanalyzer.formats.language import ENGLISH, Language
from traceanalyzer.formats.markdown import comment
from traceanalyzer.formats.markdown.page import LONGEST, DocumentPicture, Page, code, escape, fits, length, levels
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Generator, Report
from traceanalyzer.report.names import clipped
from traceanalyzer.report.section import Section

__all__ = ["MARK", "TOP", "DocumentPicture", "code", "escape", "fitted", "render"]

MARK = "<!-- traceanalyzer report"
TOP = 20

_TITLE = Text("report-title", "Profile of {name}")
_LEFT_OUT = Text(
    "markdown-left-out",
    "{count:count} sections are left out so that the report fits into a comment: {titles}. The other formats contain "
    "them (-o report.html, -o report.json).",
    "titles of sections, separated by commas",
    "{count:count} section is left out so that the report fits into a comment: {titles}. The other formats contain "
    "it (-o report.html, -o report.json).",
)
_TITLE_WIDTH = 200
_TITLES_WIDTH = 300
_ROOM_FOR_LEFT_OUT = 3 * _TITLES_WIDTH + 500
"""Reserved characters for the list of sections left out; each character of a title may need an escape and a break."""


def render(
    report: Report, top: int | None = None, *, language: Language = ENGLISH, pictures: Sequence[DocumentPicture] = ()
) -> str:
    """Render the whole report: what a comment shows at once, then everything in folded sections.

    Args:
        report: The report.
        top: Number of rows of each table, if they fit into a comment.
        language: Language of the texts.
        pictures: Charts in files, which replace text bars.
    """
    title = language.text(_TITLE, name=clipped(report.source.name, _TITLE_WIDTH))
    first = tuple(sections.build(report, comment.SHOWN))
    opening = tuple(comment.of_report(report, first, language, pictures))
    is_told = len(report.headlines) == 1

    def build(rows: int) -> Iterator[Section]:
        for section in sections.build(report, rows):
            if section.id != "headline" or not is_told:
                yield section

    return fitted(MARK, report.generator, title, build, language, top, pictures, opening)


def fitted(
    mark: str,
    generator: Generator,
    title: str,
    build: Callable[[int], Iterable[Section]],
    language: Language,
    top: int | None = None,
    pictures: Sequence[DocumentPicture] = (),
    opening: Sequence[str] = (),
) -> str:
    """Build a document of sections with folded details that fits into a comment; what does not fit is counted.

    Args:
        mark: First text of a file, by which this program recognizes its own files.
        generator: The program that creates it.
        title: Title of the document, not yet escaped.
        build: Function from the number of rows of each table to the sections.
        language: Language of the texts.
        top: Number of rows of each table; `TOP` if None.
        pictures: Charts in files, with their sections.
        opening: Blocks of Markdown before the sections, which are all folded then.
    """

    def document(parts: Iterable[str], left_out: str = "") -> str:
        template = environment().get_template("report.md.j2")
        return template.render(
            mark=mark,
            version=generator.version,
            title=escape(title),
            opening=opening,
            sections=parts,
            left_out=left_out,
        )

    *richer, least = levels(TOP if top is None else top)
    for level in richer:
        parts = list(_until_too_long(Page(language, level, pictures, bool(opening)), build(level.rows)))
        text = document(parts)
        if fits(text):
            return text
    page = Page(language, least, pictures, bool(opening))
    shown = [(section, page.section(section)) for section in build(least.rows)]
    text = document(part for _, part in shown)
    if fits(text):
        return text
    room = LONGEST - length(document(())) - _ROOM_FOR_LEFT_OUT
    return document(*_without_least_valuable(shown, room, language))


def _without_least_valuable(shown: list[tuple[Section, str]], room: int, language: Language) -> tuple[list[str], str]:
    """The sections that fit into `room` characters, in their order, and a sentence on those that are left out."""
    kept_numbers = set(_most_valuable(shown, room))
    kept: list[str] = []
    missing: list[Section] = []
    for number, (section, text) in enumerate(shown):
        if number in kept_numbers:
            kept.append(text)
        else:
            missing.append(section)
    return kept, _left_out(missing, language)


def _left_out(missing: Sequence[Section], language: Language) -> str:
    titles = clipped(language.list(language.text(section.title) for section in missing), _TITLES_WIDTH)
    return escape(language.text(_LEFT_OUT, count=len(missing), titles=titles))


def _until_too_long(page: Page, shown: Iterable[Section]) -> Iterator[str]:
    """Lay out sections, but stop when they are too long in total, because then none of them is used."""
    total = 0
    for section in shown:
        text = page.section(section)
        total += length(text)
        yield text
        if total > LONGEST:
            return


def _most_valuable(shown: list[tuple[Section, str]], room: int) -> Iterator[int]:
    """Positions of the sections that fit into `room` characters; essential sections come first."""
    order = sorted(range(len(shown)), key=lambda number: not shown[number][0].is_essential)
    for number in order:
        needed = length(shown[number][1]) + 1
        if needed <= room:
            room -= needed
            yield number
