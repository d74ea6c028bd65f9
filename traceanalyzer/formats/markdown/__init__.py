"""Renders Markdown for GitHub and GitLab, short enough for a comment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from traceanalyzer import sections
from traceanalyzer.formats import environment
from traceanalyzer.formats.html.figures import rounded
from traceanalyzer.formats.html.summary import step_ns
from traceanalyzer.formats.language import ENGLISH, Language
from traceanalyzer.formats.markdown import comment
from traceanalyzer.formats.markdown.comment import Origin
from traceanalyzer.formats.markdown.page import (
    LONGEST,
    DocumentPicture,
    Page,
    code,
    escape,
    fits,
    length,
    levels,
    prose,
    raw,
)
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Generator, Report
from traceanalyzer.report.names import clipped, first_sentence
from traceanalyzer.report.section import Section, Topic
from traceanalyzer.sections.outcome import FIRST

__all__ = ["MARK", "TOP", "DocumentPicture", "Origin", "code", "escape", "fitted", "render"]

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
_FOLDS = {
    "findings": Text("markdown-fold-findings", "All findings, with what they rest on"),
    "measurements": Text("markdown-fold-measurements", "Measurements"),
    "quality": Text("markdown-fold-quality", "What was recorded, and warnings"),
}
"""Folded groups of sections."""
_Part = tuple[Section, str]
"""A section, and how it looks."""
_TITLE_WIDTH = 200
_TITLES_WIDTH = 300
_ROOM_FOR_LEFT_OUT = 3 * _TITLES_WIDTH + 500
"""Reserved characters for the list of sections left out; each character of a title may need an escape and a break."""


def render(
    report: Report,
    top: int | None = None,
    *,
    language: Language = ENGLISH,
    pictures: Sequence[DocumentPicture] = (),
    origin: Origin = comment.NOWHERE,
) -> str:
    """Render the whole report: what a comment shows at once, then everything in folded sections.

    Args:
        report: The report.
        top: Number of rows of each table, if they fit into a comment.
        language: Language of the texts.
        pictures: Charts in files, which replace text bars.
        origin: Where the comment leads to.
    """
    language = language.of_report(report)
    first = tuple(sections.build(report, FIRST))
    shown = rounded(language, step_ns(report))
    opening = tuple(comment.of_report(report, first, shown, pictures, origin))
    is_told = len(report.headlines) == 1
    title = comment.verdict(report, shown) or language.text(_TITLE, name=clipped(report.source.name, _TITLE_WIDTH))

    def build(rows: int) -> Iterator[Section]:
        for section in sections.build(report, rows):
            is_said = section.id == "findings" and not section.findings  # what to do next
            if not is_said and (section.id != "headline" or not is_told):
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
        opening: Blocks of Markdown before the sections, which are inside of at most three folded groups then.
    """

    def document(parts: Iterable[_Part], left_out: str = "") -> str:
        template = environment().get_template("report.md.j2")
        return template.render(
            mark=mark,
            version=generator.version,
            title=prose(title),
            opening=opening,
            sections=_folds(parts, language) if opening else [("", [text for _, text in parts])],
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
    text = document(shown)
    if fits(text):
        return text
    room = LONGEST - length(document(())) - _ROOM_FOR_LEFT_OUT
    return document(*_without_least_valuable(shown, room, language))


def _folds(parts: Iterable[_Part], language: Language) -> Iterator[tuple[str, list[str]]]:
    """The titles and texts of at most three folded groups: advice, measurements, and what they are of."""
    groups: dict[str, list[str]] = {}
    warned = ""
    for section, text in parts:
        if section.id == "warnings" and section.messages:
            warned = first_sentence(language.say(section.messages[0]))
        is_advice = section.topic is Topic.SUMMARY or bool(section.findings)
        group = "findings" if is_advice else "quality" if section.topic is Topic.QUALITY else "measurements"
        groups.setdefault(group, []).append(text)
    for group, title in _FOLDS.items():
        if group in groups:
            said = language.text(title)
            yield raw(language.joined(said, warned) if group == "quality" and warned else said), groups[group]


def _without_least_valuable(shown: list[_Part], room: int, language: Language) -> tuple[list[_Part], str]:
    """The sections that fit into `room` characters, in their order, and a sentence on those that are left out."""
    kept_numbers = set(_most_valuable(shown, room))
    kept: list[_Part] = []
    missing: list[Section] = []
    for number, part in enumerate(shown):
        if number in kept_numbers:
            kept.append(part)
        else:
            missing.append(part[0])
    return kept, _left_out(missing, language)


def _left_out(missing: Sequence[Section], language: Language) -> str:
    titles = clipped(language.list(language.text(section.title) for section in missing), _TITLES_WIDTH)
    return escape(language.text(_LEFT_OUT, count=len(missing), titles=titles))


def _until_too_long(page: Page, shown: Iterable[Section]) -> Iterator[_Part]:
    """Lay out sections, but stop when they are too long in total, because then none of them is used."""
    total = 0
    for section in shown:
        text = page.section(section)
        total += length(text)
        yield section, text
        if total > LONGEST:
            return


def _most_valuable(shown: list[_Part], room: int) -> Iterator[int]:
    """Positions of the sections that fit into `room` characters; essential sections come first."""
    order = sorted(range(len(shown)), key=lambda number: not shown[number][0].is_essential)
    for number in order:
        needed = length(shown[number][1]) + 1
        if needed <= room:
            room -= needed
            yield number
