"""Words findings as lines of text, for the terminal and for Markdown."""

from __future__ import annotations

from dataclasses import dataclass

from traceanalyzer.renderers import finding_texts
from traceanalyzer.renderers.language import Language
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence, Finding

_SAVES = Text("card-saves", "Saves {time} per step ({share}).", note="time and share are intervals, such as up to 3 ms")
_CONFIDENCE = Text("card-confidence", "Confidence {confidence}", note="confidence is A: exact evidence, and the like")
_CROSSED = Text(
    "card-crossed",
    "{subject}: {observed}, threshold {threshold}",
    note="subject says what was measured; the others are quantities with their units",
)
_STARTING = Text("card-starting", "at {start:ns}", note="since the first event")

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
class TextSpot:
    """A place where something was seen: what it is, its name in the trace, and what is known of it."""

    kind: str
    name: str
    rest: str


@dataclass(frozen=True)
class TextProof:
    """A measured value that crossed a threshold."""

    text: str
    where: tuple[TextSpot, ...]


@dataclass(frozen=True)
class TextCard:
    """One finding as lines of text."""

    rule: str
    run: str | None
    title: str
    severity: str
    confidence: str
    time: str | None
    share: str | None
    saves: str | None
    """One sentence on what it saves, or why nothing yet; None where nothing can be said."""
    summary: str
    advice: str
    not_when: str
    basis: str | None
    calculation: str | None
    code: str | None
    links: tuple[str, ...]
    evidence: tuple[TextProof, ...]


def card(finding: Finding, language: Language) -> TextCard:
    """Word a finding in the reader's language."""
    saving = finding.saving
    time = None if saving is None or finding.latent else finding_texts.saved_time(saving, language)
    share = None if saving is None or finding.latent else finding_texts.saved_share(saving, language)
    return TextCard(
        rule=finding.rule,
        run=finding.run,
        title=language.say(finding.title),
        severity=finding_texts.word(finding_texts.SEVERITIES, finding.severity, language),
        confidence=language.text(
            _CONFIDENCE, confidence=finding_texts.word(finding_texts.CONFIDENCES, finding.confidence, language)
        ),
        time=time,
        share=share,
        saves=finding_texts.latent(finding, language)
        or (language.text(_SAVES, time=time, share=share) if time and share else None),
        summary=language.say(finding.summary),
        advice=language.say(finding.advice),
        not_when=language.say(finding.not_when),
        basis=language.say(saving.basis) if saving else None,
        calculation=finding_texts.calculation(saving.arithmetic, language) if saving and saving.arithmetic else None,
        code=finding.code,
        links=finding.links,
        evidence=tuple(_proof(evidence, language) for evidence in finding.evidence),
    )


def _proof(evidence: Evidence, language: Language) -> TextProof:
    text = language.text(
        _CROSSED,
        subject=language.say(evidence.subject),
        observed=language.quantity(evidence.observed, evidence.unit),
        threshold=language.quantity(evidence.threshold, evidence.unit),
    )
    return TextProof(text, tuple(_spot(place, language) for place in evidence.where))


def _spot(place: CodePlace, language: Language) -> TextSpot:
    known = [place.shapes or ""]
    if place.value is not None:
        known.append(language.quantity(place.value, place.unit))
    if place.start_ns is not None:
        known.append(language.text(_STARTING, start=place.start_ns))
    return TextSpot(
        finding_texts.word(finding_texts.PLACES, place.kind, language),
        place.name,
        ", ".join(part for part in known if part),
    )
