"""Prepares the texts of findings for the page, each with an anchor."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from markupsafe import Markup

from traceanalyzer.analyzers.tables.runs import PrintedRun
from traceanalyzer.formats import finding_texts, several_runs
from traceanalyzer.formats.cards import Card, card
from traceanalyzer.formats.html.detail import PageDetail
from traceanalyzer.formats.language import Language
from traceanalyzer.formats.names import clean, code_parts, shorten
from traceanalyzer.formats.several_runs import FindingsOnce
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Combined, Finding, Headline, Relief, Report
from traceanalyzer.sections.findings import ORDER

_MORE = Text(
    "html-more-findings",
    "{hidden:count} more findings; all are in the JSON report:",
    one="{hidden:count} more finding; all are in the JSON report:",
)
_RUN = Text("html-run", "{id}: {title}", "id is run-1; title is a heading in a text")
_WORD = re.compile(r"[^a-z0-9-]+")
_INLINE = Markup("<code>{}</code>")
"""A template that escapes its values."""
_PROSE = 4000
_TITLE = 80


@dataclass(frozen=True)
class HtmlCard:
    """A finding with the anchor, colour and links that only a page has."""

    id: str
    tone: str
    """CSS class of the severity."""
    run: str | None
    """Title of its run, if there are several."""
    card: Card
    links: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class CardFix:
    """One fix of the combined bound, with the anchor of its finding."""

    id: str | None
    title: Markup


@dataclass(frozen=True)
class Together:
    """All fixes of one run together."""

    run: str | None
    time: str | None
    share: str | None
    fixes: tuple[CardFix, ...]
    next: str | None
    """Name of the resource that bounds the step after the fixes; None if it already bounds the step."""


@dataclass(frozen=True)
class Findings:
    """All content of the page about findings."""

    cards: tuple[HtmlCard, ...]
    combined: tuple[Together, ...]
    order: str | None
    """The order of the cards, if there are several."""
    more: str | None


def build(report: Report, language: Language, detail: PageDetail) -> Findings:
    """Cards of the findings that fit, in the order of the report."""
    runs = run_titles(report, language)
    once = several_runs.findings(report)
    ids = list(_ids(once.findings))
    shown = once.findings[: detail.findings]
    hidden = len(once.findings) - len(shown)
    cards = [_card(finding, id_, runs, language) for finding, id_ in zip(shown, ids, strict=False)]
    combined = (
        _together(headline, headline.combined, runs.get(headline.run or ""), cards, once, language)
        for headline in report.headlines
        if headline.combined is not None and headline.combined.fixes
    )
    more = language.text(_MORE, hidden=hidden) if hidden else None
    order = language.text(ORDER) if len(once.findings) > 1 else None
    return Findings(tuple(cards), tuple(combined), order, more)


def run_titles(report: Report, language: Language) -> dict[str, str]:
    """Titles of the runs of a document, if there are several."""
    runs = report.result("runs", tuple[PrintedRun, ...]) or ()
    if len(runs) < 2:
        return {}
    titled = {run.id: shorten(clean(run.title or ""), _TITLE) for run in runs}
    return {id_: language.text(_RUN, id=id_, title=title) if title else id_ for id_, title in titled.items()}


def _ids(findings: tuple[Finding, ...]) -> Iterator[str]:
    """Anchors `finding-<rule>`, with the run or a number if that is not unique."""
    taken: set[str] = set()
    for finding in findings:
        base = "-".join(filter(None, ("finding", _word(finding.rule), _word(finding.run or ""))))
        id_, number = base, 2
        while id_ in taken:
            id_, number = f"{base}-{number}", number + 1
        taken.add(id_)
        yield id_


def _word(text: str) -> str:
    return _WORD.sub("-", text.lower()).strip("-")


def _card(finding: Finding, id_: str, runs: dict[str, str], language: Language) -> HtmlCard:
    return HtmlCard(
        id_, _word(finding.severity), runs.get(finding.run or ""), card(finding, language), tuple(_links(finding.links))
    )


def prose(text: str) -> Markup:
    """Format a text as one paragraph with all names escaped; text between backticks is code."""
    parts = code_parts(shorten(clean(text), _PROSE))
    return Markup("").join(_INLINE.format(part) if i % 2 else part for i, part in enumerate(parts))


def _links(links: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Links that are web addresses; others are dropped, because rules may be third-party."""
    for link in links:
        if finding_texts.is_page(link):
            parts = urlsplit(link)
            yield link, clean(f"{parts.netloc}{parts.path}").rstrip("/")


def _title(fix: Relief, once: FindingsOnce, language: Language) -> Markup:
    """Title of a finding without a card; the id of its rule if the report does not have it."""
    known = 0 <= fix.finding < len(once.position)
    return prose(language.say(once.findings[once.position[fix.finding]].title) if known else fix.rule)


def _together(
    headline: Headline,
    combined: Combined,
    run: str | None,
    cards: list[HtmlCard],
    once: FindingsOnce,
    language: Language,
) -> Together:
    following = finding_texts.next_bottleneck(headline)
    fixes = []
    for fix in combined.fixes:
        place = once.position[fix.finding] if 0 <= fix.finding < len(once.position) else len(cards)
        shown = cards[place] if place < len(cards) else None
        title = prose(shown.card.title) if shown else _title(fix, once, language)
        fixes.append(CardFix(shown.id if shown else None, title))  # its cost is shown only on its card
    return Together(
        run,
        finding_texts.combined_time(combined, language),
        finding_texts.combined_share(combined, language),
        tuple(fixes),
        finding_texts.resource_name(following, language) if following is not None else None,
    )
