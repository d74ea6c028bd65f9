"""Findings in the reader's language, for all formats: their texts, savings, calculations of savings, and evidence."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import msgspec

from traceanalyzer.formats import code_comments, prices
from traceanalyzer.formats.language import Language, scale
from traceanalyzer.knowledge.python_frames import parse
from traceanalyzer.report import names, whole_trace
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Arithmetic, CodePlace, Evidence, Finding, Resources
from traceanalyzer.report.names import named_code
from traceanalyzer.sections.findings import RESOURCES

SEVERITIES = {
    "critical": Text("advice-critical", "Critical", "severity of a finding"),
    "high": Text("advice-high", "High", "severity of a finding"),
    "medium": Text("advice-medium", "Medium", "severity of a finding"),
    "low": Text("advice-low", "Low", "severity of a finding"),
    "info": Text("advice-info", "Info", "severity of a finding"),
}
CONFIDENCES = {
    "A": Text("evidence-measured", "measured", "how sure a finding is"),
    "B": Text("evidence-inferred", "inferred", "how sure a finding is: from names and shapes"),
    "C": Text("evidence-rule-of-thumb", "rule of thumb", "how sure a finding is"),
}
PLACES = {
    "step": Text("place-step", "Step"),
    "operator": Text("place-operator", "Operator"),
    "kernel": Text("place-kernel", "Kernel"),
    "copy": Text("place-copy", "Copy"),
    "call": Text("place-call", "Call"),
    "module": Text("place-module", "Module"),
    "python": Text("place-python", "Python line"),
    "time": Text("place-time", "Time"),
    "memory": Text("place-memory", "Memory"),
    "row": Text("place-row", "Row"),
    "rank": Text("place-rank", "Rank"),
}
"""Kinds of places where something was observed."""

_PREVIEW = Text("evidence-of-new-rule", "{evidence}; new rule", note="evidence is such as: inferred")
_PLAIN = re.compile(r"[!-;=?-~]{1,500}")
_SUM = Text(
    "advice-sum", "{minuend} \u2212 {subtrahend} = {result}", "times with their units, and the name of a resource"
)
_SUM_OF_MOST = Text("advice-sum-max", "{minuend} \u2212 max({subtrahends}) = {result}")
_OPERAND = Text("advice-operand", "{value} {name}", "a time with its unit, and what takes it")


def confidence(finding: Finding, language: Language) -> str:
    """The confidence of a finding, and whether its rule is new."""
    said = word(CONFIDENCES, finding.confidence, language)
    return language.text(_PREVIEW, evidence=said) if finding.stage == "preview" else said


def word(texts: dict[str, Text], key: str, language: Language) -> str:
    """Text of a key in the reader's language; the key itself if a report of another version has an unknown one."""
    return language.text(names.word(texts, key))


def is_page(link: str) -> bool:
    """Whether a link is a web address that is safe to show, because rules may be third-party."""
    try:
        parts = urlsplit(link)
    except ValueError:
        return False
    return parts.scheme in ("https", "http") and bool(parts.netloc) and _PLAIN.fullmatch(link) is not None


def resource_name(key: str, language: Language) -> str:
    """Name of a resource; the key itself if unknown."""
    return word(RESOURCES, key, language)


def resources(found: Resources) -> list[tuple[str, float, float]]:
    """Each known resource with its time in ns and its share of the step, in the order of `RESOURCES`."""
    times = ((key, getattr(found, f"{key}_ns")) for key in RESOURCES)
    return [(key, ns, ns / found.step_ns if found.step_ns else 0.0) for key, ns in times if ns is not None]


def calculation(sum_: Arithmetic, language: Language) -> str:
    """`174.76 ms - max(44.05 ms GPU, 6.14 ms host) = 130.71 ms`, rounded so that the shown numbers add up."""
    operands = [operand.ns for operand in (sum_.minuend, *sum_.subtrahends)]
    in_unit = scale(language, max(map(abs, operands)), "ns")
    digits = _exact_digits([*operands, sum_.result_ns], in_unit.factor)

    def shown(ns: int, concept: str) -> str:
        return language.marked(in_unit.text(ns, digits), ns, concept)

    others = []
    for operand in sum_.subtrahends:
        value = shown(operand.ns, f"rounded-{operand.name.id}")
        others.append(language.text(_OPERAND, value=value, name=language.say(operand.name)))
    minuend = shown(sum_.minuend.ns, f"rounded-{sum_.minuend.name.id}")
    result = shown(sum_.result_ns, "rounded-saving-at-most")
    if len(others) == 1:
        return language.text(_SUM, minuend=minuend, subtrahend=others[0], result=result)
    return language.text(_SUM_OF_MOST, minuend=minuend, subtrahends=language.chain(", ", others), result=result)


def _exact_digits(values: list[int], factor: int) -> int:
    """The fewest digits with which all times, divided by the factor of a unit, are exact."""
    return next(digits for digits in range(10) if all(ns * 10**digits % factor == 0 for ns in values))


_CROSSED = Text(
    "card-crossed",
    "{subject}: {observed}, threshold {threshold}",
    note="subject says what was measured; the others are quantities with their units",
)
_STARTING = Text("card-starting-at", "at {start:exact_ns}", note="since the first event")

_WIDE_STOP = "\u3002"
"""The full stop of Chinese, after which there is no blank."""
SUMMARY_AND_REASON = "finding-summary-and-reason"
"""Id of a summary that ends with why more is saved than the time of what was found."""
WHAT_TO_DO = Text("card-advice", "What to do")
NOT_WHEN = Text("card-not-when", "When it does not apply")
ESTIMATE = Text("card-estimate", "How the saving is estimated")
EVIDENCE = Text("card-evidence", "Evidence")
DOCUMENTATION = Text("card-documentation", "Documentation")
FINDING = Text("card-finding", "Finding")
SEVERITY = Text("card-severity", "Severity")
SAVING = Text("card-saving", "Saves per step")
SHARE = Text("card-share", "Share of the step")
LOWERS = Text("card-peak", "Lowers the peak by")
PEAK_SHARE = Text("card-peak-share", "Share of the peak")


class Spot(msgspec.Struct, frozen=True):
    """A place in the trace where something was observed."""

    kind: str
    name: str
    """Name of the place in the trace, or what people call it."""
    is_label: bool
    """Whether the name is words in the reader's language."""
    shapes: str
    """Input shapes as in the trace; empty if there are none."""
    value: str
    """What was observed there; empty if nothing was measured."""
    at: str
    """Words for its start; empty if that is unknown."""
    start_ns: int | None
    """Its start in ns since the first event."""

    @property
    def rest(self) -> str:
        """What was observed and when."""
        return ", ".join(filter(None, (self.value, self.at)))


class Proof(msgspec.Struct, frozen=True):
    """A measured value that crossed a threshold."""

    subject: str
    observed: str
    threshold: str
    where: tuple[Spot, ...]

    def sentence(self, language: Language) -> str:
        """The proof in one sentence, without its places."""
        return language.text(_CROSSED, subject=self.subject, observed=self.observed, threshold=self.threshold)


class Card(msgspec.Struct, frozen=True):
    """The texts of one finding. Names are unchanged from the trace, so each format must escape them."""

    rule: str
    run: str | None
    title: str
    """The observation in a few words."""
    action: str
    """What to do in a few words; the observation where that depends."""
    fix: str
    """The first line of code, or the first sentence of the advice."""
    is_code: bool
    """Whether the fix is code."""
    severity: str
    confidence: str
    time: str | None
    """Saving per step; None if there is none, or none yet that could be shown."""
    share: str | None
    own: str | None
    """Time that it saves on its own resource, if the step saves less."""
    resource: str | None
    latent: str | None
    """Why it saves little or nothing yet, and what it saves after other fixes; None if it is not latent."""
    saves: str | None
    """One sentence about the saving, or why there is none yet; None if unknown."""
    peak: str | None
    """Bytes by which it lowers the peak of a device's memory; None if that is unknown or not what it is for."""
    peak_share: str | None
    question: str | None
    """The same sentence where it is no price, but says what would decide the saving; else None."""
    summary: str
    reason: str | None
    """The sentence of the summary that says why more is saved than the time of what was found; None without one."""
    advice: str
    not_when: str
    basis: str | None
    calculation: str | None
    code: str | None
    code_before: str | None
    lines: tuple[str, ...]
    """Lines of the program that cause it, as `train.py:12 step`; then what it calls the kernels of its graphs."""
    links: tuple[str, ...]
    evidence: tuple[Proof, ...]


def card(finding: Finding, language: Language) -> Card:
    """Create the texts of a finding in the reader's language."""
    price, peak = prices.price(finding, language), prices.lowered(finding, language)
    saving = finding.saving
    code = code_comments.translated(finding.code, language) if finding.code else finding.code
    advice = language.say(finding.advice)
    line = first_line(code)
    return Card(
        rule=finding.rule,
        run=finding.run,
        title=language.say(finding.title),
        action=language.say(finding.action or finding.title),
        fix=line or names.first_sentence(advice),
        is_code=bool(line),
        severity=word(SEVERITIES, finding.severity, language),
        confidence=confidence(finding, language),
        time=price.time,
        share=price.share,
        own=price.own,
        resource=resource_name(saving.resource, language) if saving else None,
        latent=price.latent,
        saves=price.question or price.saves or price.latent or prices.once(finding, language) or peak.said,
        peak=peak.size,
        peak_share=peak.share,
        question=price.question,
        summary=language.say(finding.summary),
        reason=_reason(finding, language),
        advice=advice,
        not_when=language.say(finding.not_when),
        basis=language.sentence(language.say(saving.basis)) if saving else None,
        calculation=calculation(saving.arithmetic, language) if saving and saving.arithmetic else None,
        code=code,
        code_before=finding.code_before if code else None,
        lines=_lines(finding),
        links=finding.links,
        evidence=tuple(_proof(evidence, language) for evidence in finding.evidence),
    )


def _reason(finding: Finding, language: Language) -> str | None:
    """Why more is saved than the time of what was found."""
    has_reason = whole_trace.known(finding.summary.id) == SUMMARY_AND_REASON
    said = finding.summary.params.get("reason") if has_reason else None
    return language.quantity(said, "") if said is not None else None


def seen(shown: Card) -> str:
    """What was seen in one sentence, with why more is saved than it takes."""
    said = names.first_sentence(shown.summary)
    if shown.reason is None:
        return said
    return f"{said}{'' if said.endswith(_WIDE_STOP) else ' '}{shown.reason}"


def first_line(code: str | None) -> str:
    """The first line of code that is not empty; empty if there is none."""
    return next((line.strip() for line in (code or "").split("\n") if line.strip()), "")


def _lines(finding: Finding) -> tuple[str, ...]:
    """The lines of the program that cause a finding, of its most important place with any."""
    lines = next((place.lines for place in finding.where if place.lines), ())
    labels = next((place.labels for place in finding.where if place.labels), ())
    frames = (parse(line.name) for line in lines)
    code = (named_code(frame.function, frame.path, frame.line) for frame in frames if frame is not None)
    return (*code, *(label.name for label in labels))


def _proof(evidence: Evidence, language: Language) -> Proof:
    return Proof(
        subject=language.say(evidence.subject),
        observed=language.quantity(evidence.observed, evidence.unit),
        threshold=language.quantity(evidence.threshold, evidence.unit),
        where=tuple(_spot(place, language) for place in evidence.where),
    )


def _spot(place: CodePlace, language: Language) -> Spot:
    return Spot(
        kind=word(PLACES, place.kind, language),
        name=place.name if place.label is None else language.say(place.label),
        is_label=place.label is not None,
        shapes=place.shapes or "",
        value="" if place.value is None else language.quantity(place.value, place.unit),
        at="" if place.start_ns is None else language.text(_STARTING, start=place.start_ns),
        start_ns=place.start_ns,
    )
