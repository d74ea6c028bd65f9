"""Sections as Markdown within a level of detail, escaped for GitHub and GitLab.

No name becomes markup, a link, a mention or a command. The levels of detail reduce a document until it fits into a
comment.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from traceanalyzer.formats import cards, environment
from traceanalyzer.formats.cards import Card, Proof, Spot
from traceanalyzer.formats.language import Language, unbroken
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Finding
from traceanalyzer.report.names import clean, clean_code, clipped, code_parts
from traceanalyzer.report.section import Fact, Section, SectionColumn, SectionPart, SectionTable

LONGEST = 64_990
"""Most characters of a document. GitHub allows 65,536 in a comment."""


@dataclass(frozen=True)
class DocumentDetail:
    """Limits of each kind of content; the rest is counted."""

    rows: int
    """Most rows of a table."""
    findings: int
    """Number of findings that are shown in full."""
    listed: int
    """Number of findings in their table."""
    places: int
    """Most places of each piece of evidence."""
    messages: int
    """Most messages of a section."""
    columns: int
    """Most columns of a table; only comparisons of many runs have more."""
    name: int
    """Most characters of a name in the trace."""
    prose: int
    """Most characters of a text."""


_FULL = DocumentDetail(rows=20, findings=20, listed=60, places=5, messages=200, columns=20, name=100, prose=1500)
_LESS = (
    DocumentDetail(rows=12, findings=12, listed=40, places=3, messages=60, columns=16, name=100, prose=1000),
    DocumentDetail(rows=7, findings=8, listed=20, places=2, messages=30, columns=14, name=80, prose=700),
    DocumentDetail(rows=4, findings=5, listed=10, places=1, messages=8, columns=10, name=60, prose=400),
    DocumentDetail(rows=2, findings=3, listed=5, places=1, messages=4, columns=6, name=40, prose=250),
)
_MANY_ROWS = (500, 200, 100, 50, 20)


def levels(top: int) -> Iterator[DocumentDetail]:
    """Levels of detail in decreasing order.

    Args:
        top: Requested number of rows of each table.
    """
    for rows in (top, *(rows for rows in _MANY_ROWS if rows < top)):
        yield replace(_FULL, rows=rows)
    for less in _LESS:
        yield replace(less, rows=min(top, less.rows))


def length(text: str) -> int:
    """Length in UTF-16 code units, which the strictest host counts: characters outside the basic plane are two."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def fits(text: str) -> bool:
    """Whether a text fits into a comment."""
    return length(text) <= LONGEST


_ESCAPES = str.maketrans({character: f"\\{character}" for character in "\\`*_{}[]<>#|~&@!$"})
_FIRST = re.compile(r"^(?:[-+](?=\s|$)|/|\d+(?=[.)](?:\s|$))|[-=]+$)")
"""Starts of lines that are a list, a rule, the underline of a heading, or a GitLab command such as /close."""

_LINKED = re.compile(
    r"@(?=[\w-])|[#!](?=\d)|(?<![\w`])[#!~%&^$](?=[\w\"-])|(?<=[a-z])://|www\.(?=\w)|(?<!:):(?=[a-z0-9_+-]+:(?!:))",
    re.IGNORECASE,
)
"""Texts that hosts replace after Markdown, even if escaped: links, mentions, references, images."""

_BREAK = "\u200b"
"""A zero-width space, which prevents such replacements."""

_TICKS = re.compile(r"`+")
_END = re.compile(r"(?<=[.!?])\s+(?=[^\sa-z])|(?<=[\u3002\uff01\uff1f])")
"""Where a sentence ends and another one begins."""


def escape(text: str) -> str:
    """Escape a text so that it is shown literally, without links and mentions on GitHub and GitLab."""
    return _FIRST.sub(_guarded, _plain(clean(text)))


def prose(text: str) -> str:
    """Escape a sentence except the code in it."""
    parts = code_parts(clean(unbroken(text)))
    return _FIRST.sub(_guarded, "".join(span(part) if i % 2 else _plain(part) for i, part in enumerate(parts)))


def sentences(text: str) -> list[str]:
    """The first sentence, and all others as one text."""
    return _END.split(clipped(text, 1000), maxsplit=1)


def raw(text: str) -> str:
    """Escape text in a line of HTML, where Markdown escapes do not work."""
    return html.escape(_inert(clean(unbroken(text))), quote=False)


def _plain(text: str) -> str:
    return _inert(text).translate(_ESCAPES)


def _inert(text: str) -> str:
    return _LINKED.sub(lambda m: m[0][:-1] + _BREAK + m[0][-1] if len(m[0]) > 1 else m[0] + _BREAK, text)


def _guarded(match: re.Match[str]) -> str:
    """Escape a number after its digits, and everything else before."""
    return f"{match[0]}\\" if match[0].isdigit() else f"\\{match[0]}"


def span(text: str) -> str:
    """Format a code span in running text."""
    ticks = "`" * (_longest_run(text) + 1)
    pad = " " if "`" in text else ""
    return f"{ticks}{pad}{text}{pad}{ticks}" if text else ""


def code(text: str) -> str:
    """Format a code span in a table cell, where a pipe must be escaped even in code."""
    return span(text).replace("|", "\\|")


def fenced(text: str) -> str:
    """Format Python lines as a code block that none of the lines can end; indentation is kept."""
    body = "\n".join(line.rstrip() for line in clean_code(text).split("\n"))
    fence = "`" * max(3, _longest_run(body) + 1)
    return f"{fence}python\n{body}\n{fence}"


def _longest_run(text: str) -> int:
    return max(map(len, _TICKS.findall(text)), default=0)


_MORE_FINDINGS = Text(
    "markdown-more-findings",
    "{hidden:count} more findings; all are in the JSON report.",
    one="{hidden:count} more finding; it is in the JSON report.",
)
_IN_FULL = Text(
    "markdown-findings-in-full",
    "The first {shown:count} of these are explained below; all are in the JSON report.",
    one="The first of these is explained below; all are in the JSON report.",
)
_MORE_PLACES = Text(
    "markdown-more-places",
    "{hidden:count} more places; all are in the JSON report.",
    one="{hidden:count} more place; it is in the JSON report.",
)
_CONFIDENCE = Text("card-confidence", "Confidence {confidence}", note="confidence is A: exact evidence, and the like")
_WORDS = {
    "advice": cards.WHAT_TO_DO,
    "not_when": cards.NOT_WHEN,
    "estimate": cards.ESTIMATE,
    "evidence": cards.EVIDENCE,
    "links": cards.DOCUMENTATION,
}
_TITLE = 200


@dataclass(frozen=True)
class Advised:
    """Template data of the findings of a section."""

    titles: tuple[str, ...]
    """Titles of the columns of their table, escaped."""
    word: dict[str, str]
    """Labels of a finding's paragraphs, escaped."""
    listed: tuple[Card, ...]
    full: tuple[Card, ...]
    more: tuple[str, ...]
    """Sentence about the findings that are not shown, escaped."""
    language: Language
    detail: DocumentDetail

    @classmethod
    def of(cls, findings: tuple[Finding, ...], language: Language, detail: DocumentDetail) -> Advised:
        """Prepare as many findings as the detail allows, in the order of the report."""
        listed = tuple(_shortened(cards.card(f, language), detail) for f in findings[: detail.listed])
        saving = (cards.LOWERS, cards.PEAK_SHARE) if _are_of_memory(listed) else (cards.SAVING, cards.SHARE)
        titles = (cards.FINDING, cards.SEVERITY, *saving)
        more = []
        if len(findings) > len(listed):
            more.append(language.text(_MORE_FINDINGS, hidden=len(findings) - len(listed)))
        if len(listed) > detail.findings:
            more.append(language.text(_IN_FULL, shown=detail.findings))
        return cls(
            ("#", *(escape(language.text(title)) for title in titles)),
            {key: escape(language.text(text)) for key, text in _WORDS.items()},
            listed,
            listed[: detail.findings],
            tuple(map(escape, more)),
            language,
            detail,
        )

    @property
    def colon(self) -> str:
        """The separator after a label."""
        return self.language.colon

    def worth(self, card: Card) -> tuple[str, str]:
        """What a finding saves, and its share: of time, or of memory where no finding saves time."""
        saved = (card.peak, card.peak_share) if _are_of_memory(self.listed) else (card.time, card.share)
        return saved[0] or "", saved[1] or ""

    def summary(self, card: Card) -> str:
        """What stays visible of a finding that is folded: its title, and what it saves or why nothing yet."""
        gain = card.time or card.latent or (card.saves or "").rstrip(".\u3002")
        return self.language.joined(card.title, gain) if gain else card.title

    def confidence(self, card: Card) -> str:
        """The confidence of the finding, escaped."""
        return escape(self.language.text(_CONFIDENCE, confidence=card.confidence))

    def places(self, proof: Proof) -> Iterator[str]:
        """Places where it was observed, and the number of further places."""
        shown = proof.where[: self.detail.places]
        yield from map(self._place, shown)
        if len(proof.where) > len(shown):
            yield escape(self.language.text(_MORE_PLACES, hidden=len(proof.where) - len(shown)))

    def _place(self, spot: Spot) -> str:
        name = clipped(spot.name, self.detail.name)
        known = ", ".join(filter(None, (spot.shapes, spot.rest)))
        rest = escape(clipped(known, 2 * self.detail.name))
        place = escape(name) if spot.is_label else f"{escape(spot.kind)} {span(name)}" if name else escape(spot.kind)
        return self.language.joined(place, rest) if rest else place


def _are_of_memory(listed: Sequence[Card]) -> bool:
    """Whether findings save memory, and none of them time."""
    return any(card.peak for card in listed) and not any(card.time for card in listed)


def _shortened(card: Card, detail: DocumentDetail) -> Card:
    """Shorten all texts of a card to the detail; drop links that are not web addresses."""
    return msgspec.structs.replace(
        card,
        rule=clipped(card.rule, detail.name),
        title=clipped(card.title, min(_TITLE, detail.prose)),
        code=None if card.code is None else "\n".join(_lines(card.code, detail)),
        calculation=None if card.calculation is None else clipped(card.calculation, detail.prose),
        links=tuple(link for link in card.links if cards.is_page(link))[: detail.places],
        evidence=card.evidence[: detail.places],
    )


def _lines(code: str, detail: DocumentDetail) -> Iterator[str]:
    """Lines of code, which users copy, so they are shortened only if necessary."""
    for line in code.split("\n")[: detail.messages]:
        yield line[: detail.prose]


_MORE = Text("table-more", "{shown:count} of {total:count} rows; all are in the JSON report.")
_MORE_COLUMNS = Text("table-more-columns", "{shown:count} of {total:count} columns; all are in the JSON report.")
_MORE_MESSAGES = Text("section-more", "{hidden:count} more; all are in the JSON report.")
_BAR_WIDTH = 30
_PARTS = (
    Text("markdown-part", "Part", "a column: a part of a step"),
    Text("markdown-part-time", "Time per step", "a column"),
    cards.SHARE,
)
"""Titles of the columns of parts."""


@dataclass(frozen=True)
class DocumentPicture:
    """A chart in an image file."""

    section: str
    """Id of its section."""
    text: str
    """Alternative text of the chart."""
    target: str
    """Path of the file relative to the document, URL-quoted."""


def image(picture: DocumentPicture) -> str:
    """The chart as an image."""
    return f"![{prose(picture.text)}]({picture.target})"


@dataclass(frozen=True)
class Page:
    """Lays out sections as Markdown."""

    language: Language
    detail: DocumentDetail
    pictures: Sequence[DocumentPicture] = ()
    is_inside: bool = False
    """Whether all sections are inside of folded groups, because something else stands before them."""

    def section(self, section: Section) -> str:
        """Lay out a section with its title."""
        said = () if section.findings else section.messages  # what stands below the first findings is of them
        messages = [self._say(message) for message in said[: self.detail.messages]]
        if len(said) > len(messages):
            messages.append(self._say(_MORE_MESSAGES(hidden=len(said) - len(messages))))
        return (
            environment()
            .get_template("section.md.j2")
            .render(
                section=section,
                is_folded=section.is_detail and not self.is_inside,
                is_inside=self.is_inside,
                summary=self._summary(section),
                part_titles=_PARTS,
                messages=messages,
                pictures=[image(picture) for picture in self.pictures if picture.section == section.id],
                pictured=bool(self.pictures),
                findings=Advised.of(section.findings, self.language, self.detail),
                raw=lambda text: raw(self._plain(text)),
                text=self._say,
                value=lambda part: self._say(self.language.quantity(part.value, part.unit)),
                share=lambda part: self._say(self.language.quantity(part.share, "share")),
                bar=_bar,
                labelled=self._fact,
                titles=lambda table: [self._say(column.title) for column in self._columns(table)],
                borders=lambda table: [":--" if column.unit == "" else "--:" for column in self._columns(table)],
                rows=self._rows,
                more=lambda table: list(self._more(table)),
                say=self._say,
                span=span,
                fenced=fenced,
            )
        )

    def _summary(self, section: Section) -> str:
        """What stays visible of a section: its title, and the first sentence of warnings."""
        title = self._plain(section.title)
        if section.id == "warnings" and section.messages:
            return self.language.joined(title, sentences(self._plain(section.messages[0]))[0])
        return title

    def _plain(self, text: str | Text | Message) -> str:
        return clipped(text if isinstance(text, str) else self.language.text(text), self.detail.prose)

    def _say(self, text: str | Text | Message) -> str:
        return prose(self._plain(text))

    def _fact(self, fact: Fact) -> str:
        return self._say(self.language.labelled(fact.label, self.language.quantity(fact.value, fact.unit)))

    def _columns(self, table: SectionTable) -> tuple[SectionColumn, ...]:
        return table.columns[: self.detail.columns]

    def _shown(self, table: SectionTable) -> int:
        """Number of rows to show; tables with one row per figure are not rankings and are not shortened."""
        return len(table.rows) if table.row_units else min(len(table.rows), self.detail.rows)

    def _rows(self, table: SectionTable) -> Iterator[list[str]]:
        columns = self._columns(table)
        for number, row in enumerate(table.rows[: self._shown(table)]):
            yield [self._cell(row[i], table.unit(number, i), column) for i, column in enumerate(columns)]

    def _cell(self, value: Any, unit: str, column: SectionColumn) -> str:
        """Format a cell; names are code, so that underscores and angle brackets are kept."""
        if not column.is_name or value is None or isinstance(value, Text | Message):
            return self._say(self.language.quantity(value, unit))
        return code(clipped(str(value), self.detail.name))

    def _more(self, table: SectionTable) -> Iterator[str]:
        if self._shown(table) < table.total_rows:
            yield self._say(_MORE(shown=self._shown(table), total=table.total_rows))
        if len(self._columns(table)) < len(table.columns):
            yield self._say(_MORE_COLUMNS(shown=len(self._columns(table)), total=len(table.columns)))


def _bar(part: SectionPart) -> str:
    return "█" * round(min(1.0, part.share) * _BAR_WIDTH) or "▏"
