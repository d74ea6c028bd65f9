"""Prepares findings for Markdown: a table, and each finding in full in a folded block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from traceanalyzer.formats import cards, finding_texts
from traceanalyzer.formats.cards import Card, Proof, Spot
from traceanalyzer.formats.language import Language
from traceanalyzer.formats.markdown.detail import DocumentDetail
from traceanalyzer.formats.markdown.texts import escape, span
from traceanalyzer.formats.names import clipped
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Finding

_MORE = Text(
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
        titles = (cards.FINDING, cards.SEVERITY, cards.SAVING, cards.SHARE)
        more = []
        if len(findings) > len(listed):
            more.append(language.text(_MORE, hidden=len(findings) - len(listed)))
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


def _shortened(card: Card, detail: DocumentDetail) -> Card:
    """Shorten all texts of a card to the detail; drop links that are not web addresses."""
    return replace(
        card,
        rule=clipped(card.rule, detail.name),
        title=clipped(card.title, min(_TITLE, detail.prose)),
        code=None if card.code is None else "\n".join(_lines(card.code, detail)),
        calculation=None if card.calculation is None else clipped(card.calculation, detail.prose),
        links=tuple(link for link in card.links if finding_texts.is_page(link))[: detail.places],
        evidence=card.evidence[: detail.places],
    )


def _lines(code: str, detail: DocumentDetail) -> Iterator[str]:
    """Lines of code, which users copy, so they are shortened only if necessary."""
    for line in code.split("\n")[: detail.messages]:
        yield line[: detail.prose]
