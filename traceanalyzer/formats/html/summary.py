"""The findings of the page, each with an anchor, and its first screen.

That is what limits the step, the largest savings with what to do first, and where the step goes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from markupsafe import Markup
from msgspec.structs import replace

from traceanalyzer.analyzers.ranks.model import Ranks
from traceanalyzer.analyzers.tables.runs import PrintedRun
from traceanalyzer.formats import cards, prices
from traceanalyzer.formats.cards import Card, card
from traceanalyzer.formats.html import budget, where_time_goes
from traceanalyzer.formats.html.budget import StepBudget
from traceanalyzer.formats.html.cells import PageDetail
from traceanalyzer.formats.html.figures import FigureLanguage, changed, cleaned
from traceanalyzer.formats.html.where_time_goes import WhereTimeGoes
from traceanalyzer.formats.language import Language, unbroken
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Combined, Finding, Headline, Relief, Report
from traceanalyzer.report.names import clean, clean_code, clipped, code_parts, shorten
from traceanalyzer.report.section import Section
from traceanalyzer.sections import several_runs, story_headline
from traceanalyzer.sections.outcome import FIRST, next_bottleneck
from traceanalyzer.sections.several_runs import MergedFindings

_MORE = Text(
    "html-more-findings",
    "{hidden:count} more findings; all are in the JSON report:",
    one="{hidden:count} more finding; all are in the JSON report:",
)
_OWN = Text("html-own-2", "{resource} time alone: {time} less", "resource is GPU, CPU, DataLoader or communication")
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
    finding: Finding


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
    budget: StepBudget | None
    """The same as a waterfall; None if the duration of a step is unknown."""


@dataclass(frozen=True)
class Findings:
    """All content of the page about findings."""

    cards: tuple[HtmlCard, ...]
    combined: tuple[Together, ...]
    more: str | None


def build_findings(report: Report, language: Language, detail: PageDetail) -> Findings:
    """Cards of the findings that fit, in the order of the report."""
    runs = run_titles(report, language)
    merged = several_runs.findings(report)
    ids = list(_ids(merged.findings))
    shown = merged.findings[: detail.findings]
    hidden = len(merged.findings) - len(shown)
    on_page = [_card(finding, id_, runs, language) for finding, id_ in zip(shown, ids, strict=False)]
    combined = (
        _together(headline, headline.combined, runs.get(headline.run or ""), on_page, merged, language)
        for headline in several_runs.advised(report)
        if headline.combined is not None and headline.combined.fixes
    )
    more = language.text(_MORE, hidden=hidden) if hidden else None
    return Findings(tuple(on_page), tuple(combined), more)


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
        base = anchor(finding.rule, finding.run)
        id_, number = base, 2
        while id_ in taken:
            id_ = f"{base}-{number}"
            number = number + 1
        taken.add(id_)
        yield id_


def anchor(rule: str, run: str | None = None) -> str:
    """The anchor of the first finding of a rule on a page."""
    return "-".join(filter(None, ("finding", _word(rule), _word(run or ""))))


def _word(text: str) -> str:
    return _WORD.sub("-", text.lower()).strip("-")


def _card(finding: Finding, id_: str, runs: dict[str, str], language: Language) -> HtmlCard:
    said = card(finding, language.about(id_, finding.run))
    resource = where_time_goes.resource_label(finding.saving.resource, language) if finding.saving else None
    said = replace(said, resource=resource, severity=language.unmarked.labelled(cards.SEVERITY, said.severity.lower()))
    time, share, own, saves, question = (
        each and changed(each, unbroken) for each in (said.time, said.share, said.own, said.saves, said.question)
    )
    own = own and language.text(_OWN, resource=resource, time=own)
    said = replace(said, time=time, share=share, own=own, saves=saves, question=question)
    links = tuple(_links(finding.links))
    return HtmlCard(id_, _word(finding.severity), runs.get(finding.run or ""), said, links, finding)


def prose(text: str) -> Markup:
    """Format a text as one paragraph with all names escaped; text between backticks is code."""
    parts = code_parts(changed(shorten(cleaned(text), _PROSE), unbroken))
    return Markup("").join(_INLINE.format(part) if i % 2 else part for i, part in enumerate(parts))


def _links(links: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Links that are web addresses; others are dropped, because rules may be third-party."""
    for link in links:
        if cards.is_page(link):
            parts = urlsplit(link)
            yield link, clean(f"{parts.netloc}{parts.path}").rstrip("/")


def _title(fix: Relief, merged: MergedFindings, language: Language) -> Markup:
    """Title of a finding without a card; the id of its rule if the report does not have it."""
    place = merged.position[fix.finding] if 0 <= fix.finding < len(merged.position) else None
    return prose(language.say(merged.findings[place].title) if place is not None else fix.rule)


def _together(
    headline: Headline,
    combined: Combined,
    run: str | None,
    on_page: list[HtmlCard],
    merged: MergedFindings,
    language: Language,
) -> Together:
    following = next_bottleneck(headline)
    language = language.about("all-fixes", headline.run)
    fixes = []
    for fix in combined.fixes:
        place = merged.position[fix.finding] if 0 <= fix.finding < len(merged.position) else None
        shown = on_page[place] if place is not None and place < len(on_page) else None
        title = prose(shown.card.title) if shown else _title(fix, merged, language)
        fixes.append(CardFix(shown.id if shown else None, title))  # its cost is shown only on its card
    return Together(
        run,
        prices.saved_time(combined, language),
        prices.saved_share(combined, language),
        tuple(fixes),
        where_time_goes.resource_label(following, language) if following is not None else None,
        budget.build(headline, combined, language),
    )


_DOUBTS = Text("html-doubts-2", "{count:count} warnings about this trace", one="{count:count} warning about this trace")
_FIX = 300
"""Most characters of a fix on a card of the first screen."""


@dataclass(frozen=True)
class FirstCard:
    """A finding on the first screen: what to do, what it is worth, and the first step."""

    shown: HtmlCard
    action: Markup
    """What to do in a few words."""
    observed: Markup | None
    """What was found in a few words, where that is something else."""
    reason: Markup | None
    """Why it saves more than the time of what was found."""
    time: str | None
    """The price, without decimals."""
    peak: str | None
    """Bytes less at the peak of memory, where that is what it is worth."""
    latent: Markup | None
    """Why it saves nothing yet, and what it saves after other fixes, where it has no price."""
    is_range: bool
    """Whether the price is what is most likely, with an interval."""
    code: str | None
    """The first line of the code."""
    advice: Markup | None
    """The first sentence of the advice, where there is no code."""
    line: str | None
    """The line of the program that causes it."""


@dataclass(frozen=True)
class SummaryOpening:
    """What is said of one run."""

    run: str | None
    text: Markup
    more: tuple[Markup, ...]
    """What qualifies it, and what all fixes would save."""


@dataclass(frozen=True)
class Summary:
    """All content of the first screen of the page."""

    captured: tuple[Markup, ...]
    """The step of a capture without the profiler, which comes before the headlines."""
    headlines: tuple[SummaryOpening, ...]
    doubts: str | None
    pictures: tuple[WhereTimeGoes, ...]
    best: tuple[FirstCard, ...]
    also: tuple[Markup, ...]
    """The fixes that all fixes together count and no card shows."""
    no_gain: tuple[Markup, ...]
    """What will not help."""
    judged: Markup | None
    """Without a finding: how much was judged."""
    next: tuple[Markup, ...]
    """Without a finding: what to do next."""


def build_summary(report: Report, shown: Iterable[Section], findings: Findings, language: FigureLanguage) -> Summary:
    """Prepare the first screen of the page.

    Args:
        report: The report.
        shown: Its sections.
        findings: The findings of the page.
        language: The reader's language.
    """
    by_id = {section.id: section for section in shown}
    overview = by_id.get("overview")
    headlines = tuple(several_runs.headlines(report))
    runs = run_titles(report, language)
    brief = language.whole(step_ns(report))
    says = tuple(prose(brief.say(m)) for m in (*_said("headline_details", by_id), *_said("overview", by_id)))
    values = tuple(facts(overview, brief)) if overview else ()
    said_of_fixes = tuple(prose(brief.say(message)) for message in _said("findings", by_id))
    return Summary(
        captured=tuple(prose(brief.say(message)) for message in _said("captured_step", by_id)),
        headlines=tuple(_openings(report, headlines, by_id, runs, brief)),
        doubts=language.text(_DOUBTS, count=len(report.warnings)) if report.warnings else None,
        pictures=()
        if report.result("ranks", Ranks) is not None
        else tuple(where_time_goes.pictures(report, headlines, by_id, says, values, runs, brief)),
        best=tuple(_first_card(card, brief) for card in _best(findings.cards)),
        also=said_of_fixes if findings.cards else (),
        no_gain=tuple(prose(brief.say(message)) for message in _said("no_gain", by_id)),
        judged=None if findings.cards else next(iter(said_of_fixes), None),
        next=() if findings.cards else said_of_fixes[1:],
    )


def step_ns(report: Report) -> float | None:
    """The mean over the typical steps; None if that is unknown."""
    resources = (headline.resources for headline in several_runs.headlines(report))
    return next((each.step_ns for each in resources if each is not None), None)


def _said(id_: str, by_id: Mapping[str, Section]) -> tuple[Message, ...]:
    """The sentences of a section."""
    return by_id[id_].messages if id_ in by_id else ()


def _best(shown: tuple[HtmlCard, ...]) -> tuple[HtmlCard, ...]:
    """The first cards, without those that save nothing yet or only inform, unless there are no others."""
    return (tuple(each for each in shown if not each.card.latent and each.tone != "info") or shown)[:FIRST]


def _first_card(shown: HtmlCard, language: FigureLanguage) -> FirstCard:
    """A card for the first screen."""
    said = card(shown.finding, language.about(shown.id, shown.finding.run))
    saving = None if said.question else shown.finding.saving
    return FirstCard(
        shown=shown,
        action=prose(said.action),
        observed=prose(said.title) if said.action != said.title else None,
        reason=prose(said.reason) if said.reason else None,
        time=said.time and changed(said.time, unbroken),
        peak=None if said.time else said.peak and changed(said.peak, unbroken),
        latent=prose(said.latent) if said.latent and not said.time else None,
        is_range=bool(said.time and saving and saving.point_ns_per_step),
        code=clipped(clean_code(said.fix), _FIX) if said.is_code else None,
        advice=None if said.is_code else prose(clipped(said.fix, _FIX)),
        line=next(iter(said.lines), None),
    )


def verdict(report: Report, language: Language) -> str:
    """What bounds the run, in one sentence as plain text; empty without a headline."""
    story = story_headline.of_report(report)
    messages = [headline.message for headline in several_runs.headlines(report)] if story is None else [story]
    said = [clean(language.say(message)) for message in messages[:1]]
    return "".join(shorten("".join(part for part in code_parts(text)), _PROSE) for text in said)


def facts(section: Section, language: Language) -> Iterator[tuple[str, str]]:
    """Labelled values of a section."""
    for fact in section.facts:
        label = fact.label
        yield language.text(label), cleaned(language.quantity(fact.value, fact.unit, f"{label.id}.value"))


def _openings(
    report: Report,
    headlines: Sequence[Headline],
    by_id: Mapping[str, Section],
    runs: Mapping[str, str],
    language: FigureLanguage,
) -> Iterator[SummaryOpening]:
    """What became of several runs, or the sentence of each run; of the only one with what the section says below it."""
    story = _said("headline", by_id)
    if headlines and story and several_runs.of_one_program(report):
        first, *others = (prose(language.about("headline").say(message)) for message in story)
        yield SummaryOpening(None, first, tuple(others))
        return
    for headline in headlines:
        told = language.about("headline", headline.run)
        more = story[1:] if len(headlines) == 1 else ()
        below = tuple(prose(told.say(message)) for message in more)
        yield SummaryOpening(runs.get(headline.run or ""), prose(told.say(headline.message)), below)
