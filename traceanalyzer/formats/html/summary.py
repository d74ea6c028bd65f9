"""The findings of the page, each with an anchor, and its first screen.

That is the bound of the step, its parts, device utilization, and the largest savings. Figures come from the sections,
except the resources of a headline: they overlap, so no section has them as parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from markupsafe import Markup

from traceanalyzer.analyzers.idle.gpu import GpuMetrics
from traceanalyzer.analyzers.tables.runs import PrintedRun
from traceanalyzer.formats import cards, prices
from traceanalyzer.formats.cards import Card, card
from traceanalyzer.formats.html import budget
from traceanalyzer.formats.html.budget import StepBudget
from traceanalyzer.formats.html.cells import PageDetail
from traceanalyzer.formats.html.figures import changed, cleaned
from traceanalyzer.formats.language import Language, unbroken
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Combined, Finding, Headline, Relief, Report
from traceanalyzer.report.names import clean, code_parts, shorten
from traceanalyzer.report.section import Section, SectionColumn, SectionTable
from traceanalyzer.sections import several_runs
from traceanalyzer.sections.findings import next_bottleneck
from traceanalyzer.sections.several_runs import MergedFindings
from traceanalyzer.structure.recording import Recording

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
    time, share, own, saves, question = (
        each and changed(each, unbroken) for each in (said.time, said.share, said.own, said.saves, said.question)
    )
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
        cards.resource_name(following, language) if following is not None else None,
        budget.build(headline, combined, language),
    )


_STEP = Text("html-step-length", "Step: {step:ns}.")
_DEVICE = Text("html-gpu", "GPU {device}")
_NAMED = Text("html-gpu-named", "GPU {device}: {name}")
_TYPICAL = Text(
    "html-utilization-typical",
    "In a typical step the GPU works for {share:share} of the time. The figures above cover all marked steps.",
    note="below the shares of time for which kernels run on each GPU",
)
_EARLIER = Text(
    "html-utilization-earlier-work",
    "In a typical step the GPU works for {share:share} of the time. The figures above also cover time in which it "
    "most likely still ran unrecorded work from before the recording.",
    note="below the shares of time for which kernels run on each GPU",
)
_DIFFERS = 0.1
"""Least difference between a GPU's utilization and its share of a typical step that a text explains."""
_MORE_GPUS = Text("html-more-gpus", "{hidden:count} more GPUs below", one="{hidden:count} more GPU below")
_DOUBTS = Text("html-doubts", "Warnings: {count:count}")

_TONES = {"gpu": "kernel", "host": "cpu-exec", "loader": "dataloader", "communication": "communication"}
_MOST_GPUS = 8
_BEST = 3


@dataclass(frozen=True)
class Meter:
    """One bar with its label."""

    label: str
    value: str
    share: str
    percent: str
    tone: str


@dataclass(frozen=True)
class SummaryOpening:
    """The bound of one run, with figures."""

    run: str | None
    text: Markup
    step: str | None
    resources: tuple[Meter, ...]


@dataclass(frozen=True)
class Piece:
    """One part of the stacked bar; begin and width are in percent."""

    tone: str
    label: str
    value: str
    share: str
    begin: str
    width: str


@dataclass(frozen=True)
class DeviceMeters:
    """Bars for one GPU."""

    label: str
    value: str
    percent: str
    rest: tuple[tuple[str, str], ...]
    """Other labelled values of the GPU."""


@dataclass(frozen=True)
class Summary:
    """All content of the first screen of the page."""

    captured: tuple[Markup, ...]
    """The step of a capture without the profiler, which comes before the headlines."""
    headlines: tuple[SummaryOpening, ...]
    messages: tuple[Markup, ...]
    doubts: str | None
    parts: tuple[Piece, ...]
    facts: tuple[tuple[str, str], ...]
    gpus: tuple[DeviceMeters, ...]
    more_gpus: str | None
    why_other: str | None
    """Why the GPUs' utilization differs from that in the headline; None if they are about equal."""
    best: tuple[HtmlCard, ...]
    no_findings: Markup | None


def build_summary(report: Report, shown: Iterable[Section], findings: Findings, language: Language) -> Summary:
    """Prepare the first screen of the page.

    Args:
        report: The report.
        shown: Its sections.
        findings: The findings of the page.
        language: The reader's language.
    """
    by_id = {section.id: section for section in shown}
    captured = by_id.get("captured_step")
    overview, gpu, advice = (by_id.get(id_) for id_ in ("overview", "gpu", "findings"))
    gpus = tuple(_devices(gpu.tables[0], report, language)) if gpu else ()
    hidden = len(gpus) - _MOST_GPUS
    runs = run_titles(report, language)
    return Summary(
        captured=tuple(prose(language.say(message)) for message in captured.messages) if captured else (),
        headlines=tuple(_opening(headline, runs, language) for headline in several_runs.headlines(report)),
        messages=tuple(prose(language.say(message)) for message in overview.messages) if overview else (),
        doubts=language.text(_DOUBTS, count=len(report.warnings)) if report.warnings else None,
        parts=tuple(_parts(overview, language)) if overview else (),
        facts=tuple(facts(overview, language)) if overview else (),
        gpus=gpus[:_MOST_GPUS],
        more_gpus=language.text(_MORE_GPUS, hidden=hidden) if hidden > 0 else None,
        why_other=_why_other(report, language),
        best=_best(findings.cards),
        no_findings=_silence(advice, language) if advice and not advice.findings else None,
    )


def _best(shown: tuple[HtmlCard, ...]) -> tuple[HtmlCard, ...]:
    """The first cards, without those that save nothing yet or only inform, unless there are no others."""
    return (tuple(each for each in shown if not each.card.latent and each.tone != "info") or shown)[:_BEST]


def _why_other(report: Report, language: Language) -> str | None:
    """Why the utilization differs much from that in a typical step, in reports of versions that had it of all steps."""
    recording = report.result("recording", Recording)
    gpu = report.result("gpu", GpuMetrics)
    if recording is None or recording.typical is None or gpu is None:
        return None
    typical = recording.typical.resources
    if typical.gpu_ns is None or not typical.step_ns:
        return None
    of_all_steps = (device for device in gpu.devices if device.device == typical.device and device.typical is None)
    busy = next((device.busy_share for device in of_all_steps), None)
    share = typical.gpu_ns / typical.step_ns
    if busy is None or abs(busy - share) < _DIFFERS:
        return None
    is_late = share > busy and recording.window is not None and recording.window.unrecorded_work_ns > 0
    return language.text(_EARLIER if is_late else _TYPICAL, share=share)


def _silence(advice: Section, language: Language) -> Markup:
    """Why there is no finding, as one paragraph."""
    return Markup(" ").join(prose(language.say(message)) for message in advice.messages)


def verdict(report: Report, language: Language) -> str:
    """What bounds the run, in one sentence as plain text; empty without a headline."""
    said = [clean(language.say(headline.message)) for headline in several_runs.headlines(report)[:1]]
    return "".join(shorten("".join(part for part in code_parts(text)), _PROSE) for text in said)


def facts(section: Section, language: Language) -> Iterator[tuple[str, str]]:
    """Labelled values of a section."""
    for fact in section.facts:
        label = fact.label
        yield language.text(label), cleaned(language.quantity(fact.value, fact.unit, f"{label.id}.value"))


def percent(share: float) -> str:
    """A share in percent, as a CSS length."""
    return f"{100 * min(1.0, max(0.0, share)):.2f}"


def _opening(headline: Headline, runs: dict[str, str], language: Language) -> SummaryOpening:
    language = language.about("headline", headline.run)
    return SummaryOpening(
        runs.get(headline.run or ""),
        prose(language.say(headline.message)),
        language.text(_STEP, step=headline.resources.step_ns) if headline.resources else None,
        tuple(
            Meter(
                cards.resource_name(key, language),
                language.quantity(ns, "ns", f"resource-{key}"),
                language.quantity(share, "share", f"resource-{key}-share"),
                percent(share),
                _TONES[key],
            )
            for key, ns, share in (cards.resources(headline.resources) if headline.resources else ())
            if ns
        ),
    )


def _parts(overview: Section, language: Language) -> Iterator[Piece]:
    begin = 0.0
    for part in overview.parts:
        yield Piece(
            part.role.replace("_", "-"),
            language.text(part.label),
            language.quantity(part.value, part.unit, f"part-{part.role}"),
            language.quantity(part.share, "share", f"part-{part.role}-share"),
            percent(begin),
            percent(part.share),
        )
        begin += part.share


def _devices(table: SectionTable, report: Report, language: Language) -> Iterator[DeviceMeters]:
    """The table of devices as meters: the first column is the device, one is the bar, others are labelled values."""
    devices = report.trace.devices if report.trace else ()
    names = {device.id: clean(device.name) for device in reversed(devices) if device.name}
    bar = next(i for i, column in enumerate(table.columns) if column.has_bar)
    rest = [i for i, column in enumerate(table.columns) if i not in (0, bar) and not column.is_extra]
    for row in table.rows:
        name = names.get(row[0])
        told = language.about(f"device-{row[0]}")
        yield DeviceMeters(
            told.text(_NAMED, device=row[0], name=name) if name else told.text(_DEVICE, device=row[0]),
            told.quantity(row[bar], "share", f"{_id(table.columns[bar])}.value"),
            percent(row[bar]),
            tuple(
                (
                    told.text(table.columns[i].title),
                    told.quantity(row[i], table.columns[i].unit, f"{_id(table.columns[i])}.value"),
                )
                for i in rest
                if row[i] is not None
            ),
        )


def _id(column: SectionColumn) -> str:
    return column.title.id
