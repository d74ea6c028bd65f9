"""Formats of one finding with everything that a report knows of it: the terminal, Markdown and JSON."""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.formats import brief, cards
from traceanalyzer.formats.answers import Answer
from traceanalyzer.formats.cards import Card
from traceanalyzer.formats.language import ENGLISH, Language
from traceanalyzer.report.brief import SCHEMA_VERSION, WholeFinding, position
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Finding, Report
from traceanalyzer.report.names import clipped
from traceanalyzer.report.section import Fact, Section, SectionColumn, SectionTable

FORMATS = ("terminal", "markdown", "json")

MARK = "<!-- traceanalyzer finding"
_TOP = 20

_HEADER = Text("finding-header", "{id} in {name}", "id of a finding, name of a file")
_AS_IT_IS = Text("finding-as-it-is", "{said}", "a text, a line of code, a call or an address as it is")
_CODE = Text("finding-code", "`{code}`", "a line of code")
_EVENTS = Text("finding-events", "What it is about")
_REFUTES = Text("finding-refuted", "What would refute it")
_NEXT = Text("finding-next", "What to call next")
_LINE = Text("finding-line", "Line")
_VALUE = Text("finding-place-value", "Measured", "column of a table: a quantity")
_PLACE = Text("finding-place", "Place", "column of a table: an operator, a kernel, a line")
_KIND = Text("finding-kind", "Kind", "column of a table: of events")
_NAME = Text("finding-name", "Name", "column of a table: of events")
_THREAD = Text("finding-thread", "Device or thread", "column of a table")
_PER_STEP = Text("finding-per-step", "Per step", "column of a table: a time")
_COUNT = Text("finding-count", "Events", "column of a table: a number")
_DEVICE = Text("finding-device", "GPU {number:number}", "number of a device")
_KINDS = {
    "device": Text("finding-kind-device", "work of a GPU"),
    "host": Text("finding-kind-host", "work of the CPU"),
    "call": Text("finding-kind-call", "calls of the runtime"),
    "idle": Text("finding-kind-idle", "idle time of a GPU"),
}
"""Kinds of events that a finding is about."""


def answer(report: Report, asked: str, language: Language = ENGLISH) -> Answer:
    """A finding of a report in words of a language, to be rendered in one of `FORMATS`.

    Args:
        report: The report.
        asked: The id of the finding.
        language: The reader's language.

    Raises:
        UsageError: The report has no such finding.
    """
    language = language.of_report(report)
    finding = report.findings[position(report, asked, clipped(report.source.name, 200))]
    whole = WholeFinding(
        schema_version=SCHEMA_VERSION,
        generator=report.generator,
        source=report.source,
        id=asked,
        finding=finding,
        refuted_if=brief.refuted_if(finding, ENGLISH),
        next=brief.calls(report, asked)[1:],
    )
    card = cards.card(finding, language)

    def header(width: int) -> str:
        from traceanalyzer.formats import terminal  # noqa: PLC0415 - rich is slow to import

        return terminal.fit(language.text(_HEADER, id=asked, name=clipped(report.source.name, 200)), width)

    def shown(rows: int) -> Iterator[Section]:
        return _sections(whole, card, rows, language)

    title = clipped(card.title, 200)
    return Answer(whole, "finding", FORMATS, report.generator, MARK, title, header, shown, _TOP, language)


def _sections(whole: WholeFinding, card: Card, top: int, language: Language) -> Iterator[Section]:
    finding = whole.finding
    yield _said("finding", finding.title, finding.summary, card.saves, facts=tuple(_facts(card)))
    code = () if card.code is None else map(_code, card.code.split("\n"))
    yield _said("action", cards.WHAT_TO_DO, finding.action, finding.advice, *code)
    yield _said("not_when", cards.NOT_WHEN, finding.not_when)
    crossed = tuple(_AS_IT_IS(said=proof.sentence(language)) for proof in card.evidence)
    has_places = any(proof.where for proof in card.evidence)
    yield Section("evidence", cards.EVIDENCE, crossed, tables=(_places(card, top),) if has_places else ())
    if finding.where:
        yield Section("events", _EVENTS, tables=(_events(finding, top),))
    if finding.saving is not None:
        yield _said("estimate", cards.ESTIMATE, card.basis, card.calculation)
    refuted = brief.refuted_if(finding, language)
    if refuted is not None:
        yield _said("refuted", _REFUTES, refuted)
    yield _said("next", _NEXT, *map(_code, whole.next))
    if pages := tuple(filter(cards.is_page, card.links)):
        yield _said("documentation", cards.DOCUMENTATION, *map(_code, pages))


def _said(key: str, title: Text | Message, *said: Message | str | None, facts: tuple[Fact, ...] = ()) -> Section:
    texts = (_AS_IT_IS(said=each) if isinstance(each, str) else each for each in said if each)
    return Section(key, title, messages=tuple(texts), facts=facts, is_essential=True)


def _code(line: str) -> Message:
    """Code as such; a line with a backtick would not end where it does."""
    return _AS_IT_IS(said=line) if "`" in line or not line.strip() else _CODE(code=line.strip())


def _facts(card: Card) -> Iterator[Fact]:
    yield Fact(cards.SEVERITY, card.severity, "", is_essential=True)
    yield Fact(cards.EVIDENCE, card.confidence, "", is_essential=True)
    if card.lines:
        yield Fact(_LINE, ", ".join(card.lines), "", is_essential=True)


def _places(card: Card, top: int) -> SectionTable:
    """The places where a threshold was crossed."""
    columns = (SectionColumn(_KIND, ""), SectionColumn(_PLACE, "", is_name=True), SectionColumn(_VALUE, ""))
    spots = [spot for proof in card.evidence for spot in proof.where]
    rows = tuple((spot.kind, f"{spot.name} {spot.shapes}".strip(), spot.rest) for spot in spots)
    return SectionTable("places", columns, rows[:top], len(rows))


def _events(finding: Finding, top: int) -> SectionTable:
    """The events that the saving is about, on each device and thread."""
    columns = (
        SectionColumn(_KIND, ""),
        SectionColumn(_NAME, "", is_name=True),
        SectionColumn(_THREAD, ""),
        SectionColumn(_PER_STEP, "ns"),
        SectionColumn(_COUNT, "count"),
    )
    rows = tuple(
        (
            _KINDS[each.kind]() if each.kind in _KINDS else each.kind,
            each.name,
            _DEVICE(number=each.device) if each.device is not None else each.thread or "",
            each.ns_per_step,
            each.count,
        )
        for each in finding.where
    )
    return SectionTable("events", columns, rows[:top], len(rows))
