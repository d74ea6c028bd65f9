"""Creates the texts of findings in the reader's language, for all formats."""

from __future__ import annotations

from dataclasses import dataclass

from traceanalyzer.formats import finding_texts
from traceanalyzer.formats.language import Language
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence, Finding

_SAVES = Text("card-saves", "Saves {time} per step ({share}).", note="time and share are intervals, such as up to 3 ms")
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
class Spot:
    """A place in the trace where something was observed."""

    kind: str
    name: str
    """Name of the place in the trace, or what people call it."""
    is_label: bool
    """Whether the name is words in the reader's language."""
    shapes: str
    """Input shapes as in the trace; empty if there are none."""
    rest: str
    """Other facts about it, such as a value and its start time."""


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
    """Saving per step; None if there is none, or none yet."""
    share: str | None
    own: str | None
    """Time that it saves on its own resource, if the step saves less."""
    resource: str | None
    latent: str | None
    """Why it saves nothing yet; None if it saves time now."""
    saves: str | None
    """One sentence about the saving, or why there is none yet; None if unknown."""
    summary: str
    advice: str
    not_when: str
    basis: str | None
    calculation: str | None
    code: str | None
    links: tuple[str, ...]
    evidence: tuple[Proof, ...]


def card(finding: Finding, language: Language) -> Card:
    """Create the texts of a finding in the reader's language."""
    saving = finding.saving
    time = None if saving is None or finding.latent else finding_texts.saved_time(saving, language)
    share = None if saving is None or finding.latent else finding_texts.saved_share(saving, language)
    own = finding_texts.own_time(saving, language) if saving else None
    latent = finding_texts.latent(finding, language)
    return Card(
        rule=finding.rule,
        run=finding.run,
        title=language.say(finding.title),
        severity=finding_texts.word(finding_texts.SEVERITIES, finding.severity, language),
        confidence=finding_texts.confidence(finding, language),
        time=time,
        share=share,
        own=None if own == time else own,
        resource=finding_texts.resource_name(saving.resource, language) if saving else None,
        latent=latent,
        saves=latent or (language.text(_SAVES, time=time, share=share) if time and share else None),
        summary=language.say(finding.summary),
        advice=language.say(finding.advice),
        not_when=language.say(finding.not_when),
        basis=language.sentence(language.say(saving.basis)) if saving else None,
        calculation=finding_texts.calculation(saving.arithmetic, language) if saving and saving.arithmetic else None,
        code=finding.code,
        links=finding.links,
        evidence=tuple(_proof(evidence, language) for evidence in finding.evidence),
    )


def _proof(evidence: Evidence, language: Language) -> Proof:
    return Proof(
        language.say(evidence.subject),
        language.quantity(evidence.observed, evidence.unit),
        language.quantity(evidence.threshold, evidence.unit),
        tuple(_spot(place, language) for place in evidence.where),
    )


def _spot(place: CodePlace, language: Language) -> Spot:
    known = []
    if place.value is not None:
        known.append(language.quantity(place.value, place.unit))
    if place.start_ns is not None:
        known.append(language.text(_STARTING, start=place.start_ns))
    return Spot(
        finding_texts.word(finding_texts.PLACES, place.kind, language),
        place.name if place.label is None else language.say(place.label),
        place.label is not None,
        place.shapes or "",
        ", ".join(known),
    )
