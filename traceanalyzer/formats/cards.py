"""Findings in the reader's language, for all formats: their texts, savings, calculations of savings, and evidence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit

from msgspec.structs import replace

from traceanalyzer.formats import code_comments
from traceanalyzer.formats.language import Language, scale
from traceanalyzer.knowledge.python_frames import parse
from traceanalyzer.report import names, units
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Arithmetic, CodePlace, Combined, Evidence, Finding, Resources, Saving
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
    "A": Text("advice-confidence-a", "A: exact evidence"),
    "B": Text("advice-confidence-b", "B: inferred from names and shapes"),
    "C": Text("advice-confidence-c", "C: a heuristic"),
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

_PREVIEW = Text(
    "advice-confidence-preview",
    "{confidence}; preview: this rule has not been confirmed on a real recording yet",
    note="confidence is A: exact evidence, and the like",
)
_PLAIN = re.compile(r"[!-;=?-~]{1,500}")
_LATENT = {
    "gpu": Text("advice-latent-gpu", "No gain yet: the GPU is the limit"),
    "host": Text("advice-latent-host", "No gain yet: the CPU is the limit"),
    "loader": Text("advice-latent-loader", "No gain yet: the DataLoader is the limit"),
    "communication": Text("advice-latent-communication", "No gain yet: communication is the limit"),
}
"""Why a finding saves nothing yet, by the resource that bounds the step."""
_LATENT_BY = Text("advice-latent", "No gain yet: the limit is {resource}", "a resource that a later version knows")
_LATENT_UNKNOWN = Text(
    "advice-latent-unknown", "Maybe no gain yet: the recording does not show what limits the program"
)
_LITTLE = {
    "gpu": Text("advice-little-gpu", "Little gain yet: the GPU is the limit"),
    "host": Text("advice-little-host", "Little gain yet: the CPU is the limit"),
    "loader": Text("advice-little-loader", "Little gain yet: the DataLoader is the limit"),
    "communication": Text("advice-little-communication", "Little gain yet: communication is the limit"),
}
"""Why a finding saves hardly anything yet, beside the little that it saves, by the resource that bounds the step."""
_LITTLE_BY = Text("advice-little", "Little gain yet: the limit is {resource}", "a resource that a later version knows")
_LITTLE_UNKNOWN = Text("advice-little-unknown", "The recording does not show what limits the program")
_AFTER_FIXES = Text(
    "advice-after-fixes",
    "{latent}; after earlier fixes {time} per step",
    note="latent is such as: No gain yet: the CPU is the limit; time is what is then saved, such as 28 ms (25-31)",
)
_SUM = Text(
    "advice-sum", "{minuend} \u2212 {subtrahend} = {result}", "times with their units, and the name of a resource"
)
_SUM_OF_MOST = Text("advice-sum-max", "{minuend} \u2212 max({subtrahends}) = {result}")
_OPERAND = Text("advice-operand", "{value} {name}", "a time with its unit, and what takes it")


def first(findings: Sequence[Finding], most: int) -> Sequence[Finding]:
    """The first findings, without those that save nothing yet or only inform, unless there are no others."""
    saving_now = [finding for finding in findings if not finding.latent and finding.severity != "info"]
    return (saving_now or findings)[:most]


def confidence(finding: Finding, language: Language) -> str:
    """The confidence of a finding, and whether its rule is new."""
    said = word(CONFIDENCES, finding.confidence, language)
    return language.text(_PREVIEW, confidence=said) if finding.stage == "preview" else said


def saved_time(saving: Saving | Combined, language: Language) -> str | None:
    """`52 ms (46-58)` per step, or `46-58 ms` without a most likely value; None without a saving."""
    return _estimate(saving.wall_ns_per_step, saving.point_ns_per_step, language)


def saved_share(saving: Saving | Combined, language: Language) -> str | None:
    """`25-31 %` of the step; None without a saving, which would be shown as 0."""
    value = (saving.wall_share[0], None, saving.wall_share[1])
    is_nothing = units.is_zero(units.estimate_numbers(value, "estimated_share")[2])
    return None if is_nothing else language.quantity(value, "estimated_share", "saving-share")


def own_time(saving: Saving, language: Language) -> str | None:
    """Saving per step on the finding's own resource, independent of other resources."""
    return _estimate(saving.direct_ns_per_step, None, language, "saving-of-resource")


def _estimate(
    interval: tuple[float, float], point: float | None, language: Language, concept: str = "saving"
) -> str | None:
    """An estimated time; None if it would be shown as 0."""
    value = (interval[0], point, interval[1])
    is_nothing = units.is_zero(units.estimate_numbers(value, "estimate")[2])
    return None if is_nothing else language.quantity(value, "estimate", concept)


def latent(finding: Finding, language: Language, saved: str | None = None) -> str | None:
    """Why it saves nothing yet, and what it saves after others; None if it is not latent.

    Args:
        finding: The finding.
        language: The reader's language.
        saved: The little that it saves by itself; None if that may be nothing.
    """
    if not finding.latent:
        return None
    why = _limit(finding.blocked_by, language, is_little=bool(saved))
    if finding.after_fixes_ns_per_step is None:
        return why
    low, point, high = finding.after_fixes_ns_per_step
    now = finding.saving
    if saved and now and _likely(now.point_ns_per_step, now.wall_ns_per_step[1]) == _likely(point, high):
        return why
    time = _estimate((low, high), point or None, language, "saving-after-fixes")
    return language.text(_AFTER_FIXES, latent=why, time=time) if time else why


def _limit(blocked_by: str | None, language: Language, *, is_little: bool) -> str:
    """What limits the step so that a finding saves little, or nothing."""
    if blocked_by is None:
        return language.text(_LITTLE_UNKNOWN if is_little else _LATENT_UNKNOWN)
    by_resource = _LITTLE if is_little else _LATENT
    if blocked_by in by_resource:
        return language.text(by_resource[blocked_by])
    return language.text(_LITTLE_BY if is_little else _LATENT_BY, resource=blocked_by)


def _likely(point: float | None, most: float) -> str:
    """The most likely time, or the most where only bounds are known, as it is shown."""
    return units.estimate((point or most, None, point or most))


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


_SAVES = Text("card-saves", "Saves {time} per step ({share}).", note="time and share are intervals, such as up to 3 ms")
_SAVES_IN_ALL = Text(
    "card-saves-in-all", "Saves {time} in all ({share}).", note="time and share are intervals, such as up to 3 ms"
)
_MAY_SAVE = Text(
    "card-may-save",
    "May save {time} per step ({share}), or nothing: {decided}.",
    note="time and share are such as up to 3 ms; decided says what would show it",
)
_SAVES_LITTLE = Text(
    "card-saves-little",
    "{saves} {latent}.",
    note="saves is a sentence, latent a clause without a full stop: Little gain yet: the GPU is the limit",
)
_SAVES_ONCE = Text(
    "card-saves-once",
    "Saves {time} once ({share:share} of the recording), outside of the typical steps.",
    note="time is an interval, such as up to 3 ms",
)
_CROSSED = Text(
    "card-crossed",
    "{subject}: {observed}, threshold {threshold}",
    note="subject says what was measured; the others are quantities with their units",
)
_STARTING = Text("card-starting-at", "at {start:exact_ns}", note="since the first event")

WHAT_TO_DO = Text("card-advice", "What to do")
NOT_WHEN = Text("card-not-when", "When it does not apply")
ESTIMATE = Text("card-estimate", "How the saving is estimated")
EVIDENCE = Text("card-evidence", "Evidence")
DOCUMENTATION = Text("card-documentation", "Documentation")
FINDING = Text("card-finding", "Finding")
SEVERITY = Text("card-severity", "Severity")
SAVING = Text("card-saving", "Saves per step")
SHARE = Text("card-share", "Share of the step")


@dataclass(frozen=True)
class Spot:
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


@dataclass(frozen=True)
class Proof:
    """A measured value that crossed a threshold."""

    subject: str
    observed: str
    threshold: str
    where: tuple[Spot, ...]

    def sentence(self, language: Language) -> str:
        """The proof in one sentence, without its places."""
        return language.text(_CROSSED, subject=self.subject, observed=self.observed, threshold=self.threshold)


@dataclass(frozen=True)
class Card:
    """The texts of one finding. Names are unchanged from the trace, so each format must escape them."""

    rule: str
    run: str | None
    title: str
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
    question: str | None
    """The same sentence where it is no price, but says what would decide the saving; else None."""
    summary: str
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


class _Price(NamedTuple):
    """What is said of the saving per step; None each where that cannot be said."""

    time: str | None = None
    share: str | None = None
    latent: str | None = None
    """Why it saves little or nothing yet."""
    saves: str | None = None
    """The sentence with time and share, where they are a price."""
    question: str | None = None
    """The sentence with time and share, where something unknown decides whether it saves them."""
    own: str | None = None
    """Time that it saves on its own resource, if `time` is another."""


def card(finding: Finding, language: Language) -> Card:
    """Create the texts of a finding in the reader's language."""
    price = _price(finding, language)
    saving = finding.saving
    code = finding.code
    return Card(
        rule=finding.rule,
        run=finding.run,
        title=language.say(finding.title),
        severity=word(SEVERITIES, finding.severity, language),
        confidence=confidence(finding, language),
        time=price.time,
        share=price.share,
        own=price.own,
        resource=resource_name(saving.resource, language) if saving else None,
        latent=price.latent,
        saves=price.question or price.saves or price.latent or _once(finding, language),
        question=price.question,
        summary=language.say(finding.summary),
        advice=language.say(finding.advice),
        not_when=language.say(finding.not_when),
        basis=language.sentence(language.say(saving.basis)) if saving else None,
        calculation=calculation(saving.arithmetic, language) if saving and saving.arithmetic else None,
        code=code_comments.translated(code, language) if code else code,
        code_before=finding.code_before if code else None,
        lines=_lines(finding),
        links=finding.links,
        evidence=tuple(_proof(evidence, language) for evidence in finding.evidence),
    )


def _price(finding: Finding, language: Language) -> _Price:
    """Say what a finding saves per step, and why that is little, nothing or in question."""
    saving = finding.saving
    if saving is None:
        return _Price(latent=latent(finding, language))
    decided = None if finding.latent else saving.decided_by
    if decided is not None:
        saving = replace(saving, point_ns_per_step=None)  # nothing between both ends is more likely
    time = share = None
    if not finding.latent or saving.wall_ns_per_step[0] > 0:  # else it may be nothing yet
        time = saved_time(saving, language)
        share = saved_share(saving, language)
    why_latent = latent(finding, language, time)
    saves = question = None
    if time and share:
        if decided is None:
            text = _SAVES_IN_ALL if saving.is_of_whole_run else _SAVES
            saves = _saves(language.text(text, time=time, share=share), why_latent, language)
        else:
            question = language.text(_MAY_SAVE, time=time, share=share, decided=language.say(decided))
    own = own_time(saving, language)
    if time and own_time(saving, language.unmarked) == saved_time(saving, language.unmarked):
        own = None
    return _Price(time, share, why_latent, saves, question, own)


def _saves(saves: str, why_latent: str | None, language: Language) -> str:
    """The sentence with a price, and why it is little."""
    return language.text(_SAVES_LITTLE, saves=saves, latent=why_latent) if why_latent else saves


def _lines(finding: Finding) -> tuple[str, ...]:
    """The lines of the program that cause a finding, of its most important place with any."""
    lines = next((place.lines for place in finding.where if place.lines), ())
    labels = next((place.labels for place in finding.where if place.labels), ())
    frames = (parse(line.name) for line in lines)
    code = (named_code(frame.function, frame.path, frame.line) for frame in frames if frame is not None)
    return (*code, *(label.name for label in labels))


def _once(finding: Finding, language: Language) -> str | None:
    """The sentence on a saving outside of the typical steps; None without one."""
    once = finding.once
    if once is None:
        return None
    time = _estimate(once.wall_ns, once.point_ns, language)
    return language.text(_SAVES_ONCE, time=time, share=once.share_of_recording) if time else None


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
