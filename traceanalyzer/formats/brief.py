"""A report in at most 8,000 characters of JSON, for programs that read (docs/brief.schema.json).

The first findings are told with evidence, place and interval; as many as there is room for. The others have a line
each, and what is not even mentioned is counted.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from traceanalyzer.formats import cards, sarif
from traceanalyzer.formats.language import ENGLISH, Language
from traceanalyzer.report import brief, names
from traceanalyzer.report.brief import (
    Brief,
    BriefEvidence,
    BriefFinding,
    BriefMention,
    BriefVerdict,
    BriefWarning,
    LeftOut,
)
from traceanalyzer.report.compared import Interval
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import (
    CodePlace,
    Combined,
    Finding,
    Generator,
    Headline,
    Report,
    ReportSource,
    Saving,
)
from traceanalyzer.sections import several_runs
from traceanalyzer.sections.findings import RESOURCES
from traceanalyzer.structure.recording import Recording

LIMIT = 8000
"""Most characters of a brief."""
_ROWS = 3
"""Rows of evidence of a finding."""
_LINES = 3
"""Lines of the program of a finding."""
_TOLD = 20
"""Most findings with evidence: the keys alone take 400 characters of each."""
_MENTIONS = 20
_VERDICTS = 3
_WARNINGS = 3
_DIGITS = 6
"""Digits of a value that is no time: more tell nothing and take room."""

_LONG, _MIDDLE, _SHORT, _WORD = 300, 160, 80, 30
"""Most characters of a sentence, of a claim or a line, of a name, and of a word."""

_PLAIN = re.compile(r"\w[\w@%+=:,./#-]{0,200}", re.ASCII)
"""Words that mean themselves in any shell."""

_REFUTED = Text(
    "brief-refuted",
    "Refuted if its events take less time after the change and the step gets no shorter; it promised too much if the "
    "step gains less than {low:ns}.",
    note="about a finding and the change that it advises",
)
_REFUTED_TABLE = Text(
    "brief-refuted-without-events",
    "Refuted if the finding is gone after the change and the step gets no shorter; it promised too much if the step "
    "gains less than {low:ns}.",
    note="about a finding and the change that it advises",
)
_MAY_SAVE_NOTHING = Text(
    "brief-may-save-nothing",
    "It may save nothing, so a step that stays as long does not refute it. It is not done while its events take as "
    "much time as before.",
    note="about a finding whose saving begins at 0",
)
_PROMISES_NOTHING = Text(
    "brief-promises-nothing",
    "It promises no shorter step. It is settled once this is on the other side of the threshold: {evidence}.",
    note="evidence says what was measured, with the value and its threshold",
)


def render(report: Report, top: int | None = None, *, language: Language = ENGLISH) -> str:
    """The report in brief, as JSON with a line for each finding; it is in English whatever the language.

    Args:
        report: The report.
        top: Most findings that are told with evidence; as many as there is room for if None.
        language: Without effect, as for JSON.
    """
    del language
    for verdicts, warnings in ((_VERDICTS, _WARNINGS), (1, 1)):
        most = min(len(report.findings), _TOLD if top is None else min(top, _TOLD))
        for told in range(most, -1, -1):
            text = _layout(_Writer(report).brief(verdicts, told, warnings))
            if len(text) <= LIMIT and (told or not most or verdicts == 1):
                return text
    return _layout(_Writer(report).brief(1, 0, 0, mentions=0))


def refuted_if(finding: Finding, language: Language) -> str | None:
    """What would refute a finding, as `verify` judges it; None if nothing measured would."""
    if finding.saving is None:
        proof = next(iter(cards.card(finding, language).evidence), None)
        return None if proof is None else language.text(_PROMISES_NOTHING, evidence=proof.sentence(language))
    low = finding.saving.wall_ns_per_step[0]
    if low <= 0:
        return language.text(_MAY_SAVE_NOTHING)
    return language.text(_REFUTED if finding.where else _REFUTED_TABLE, low=low)


def calls(report: Report, own_id: str = "ID") -> tuple[str, ...]:
    """Calls about a finding of a report: all of it, and whether its fix gained what was predicted."""
    run, slash, rule = own_id.rpartition("/")
    name = report.source.name
    if not name.isprintable() or not 0 < len(name) <= _SHORT:
        name = "TRACE"
    elif name.startswith("-"):
        name = f"./{name}"
    side = _typed(f"{name}#{run}" if slash else name)
    return (
        f"traceanalyzer finding {_typed(name)} {_typed(own_id)}",
        f"traceanalyzer verify {side} AFTER --finding {_typed(rule)}",
    )


def _typed(word: str) -> str:
    """A word as one types it in a shell; what a file or a saved report names cannot become a command."""
    return word if _PLAIN.fullmatch(word) else shlex.quote(names.clipped(word, _SHORT))


def _layout(written: Brief) -> str:
    """JSON with a line for each member, and for each entry of a list of objects."""
    members = ((name, getattr(written, name)) for name in written.__struct_fields__)
    return "{" + ",\n ".join(f'"{name}": {_value(value)}' for name, value in members) + "}\n"


def _value(value: Any) -> str:
    if isinstance(value, tuple) and value and isinstance(value[0], msgspec.Struct):
        return "[\n  " + ",\n  ".join(map(_value, value)) + "]"
    return msgspec.json.encode(value).decode()


@dataclass
class _Writer:
    """Writes a brief, and counts what it cuts."""

    report: Report
    shortened: int = 0

    def brief(self, verdicts: int, told: int, warnings: int, mentions: int = _MENTIONS) -> Brief:
        """A brief with at most so many verdicts, findings with evidence, and warnings."""
        report = self.report
        done = several_runs.settled(report)
        ids = zip(brief.finding_ids(report), report.findings, strict=True)
        named = [pair for number, pair in enumerate(ids) if number not in done]
        shown, rest = named[:told], named[told : told + mentions]
        findings = tuple(self._finding(own_id, finding) for own_id, finding in shown)
        return Brief(
            schema_version=brief.SCHEMA_VERSION,
            generator=Generator(*map(self._word, (report.generator.name, report.generator.version))),
            source=ReportSource(
                self._cut(report.source.name, _MIDDLE), self._word(report.source.format), report.source.size_bytes
            ),
            verdicts=tuple(map(self._verdict, report.headlines[:verdicts])),
            findings=findings,
            more_findings=tuple(self._mention(own_id, finding) for own_id, finding in rest),
            warnings=tuple(
                BriefWarning(self._cut(warning.id, _SHORT), self._said(warning.message.text, _MIDDLE))
                for warning in report.warnings[:warnings]
            ),
            left_out=LeftOut(
                verdicts=max(0, len(report.headlines) - verdicts),
                findings=len(report.findings) - len(shown) - len(rest),
                evidence=sum(_places(finding) for _, finding in shown) - sum(len(each.evidence) for each in findings),
                warnings=max(0, len(report.warnings) - warnings),
                not_judged=len(report.skipped),
                shortened=self.shortened,
            ),
            next=calls(report),
        )

    def _cut(self, name: str, most: int) -> str:
        """A name in one clean line of at most so many characters; its end, which tells variants apart, is kept."""
        short = names.clipped(name, most)
        self.shortened += short != names.clean(name)
        return short

    def _word(self, key: str) -> str:
        """A word of the schema; one of a later version may be any text."""
        return self._cut(key, _WORD)

    def _said(self, text: str, most: int) -> str:
        """A sentence in one clean line of at most so many characters."""
        whole = names.clean(text)
        if len(whole) <= most:
            return whole
        self.shortened += 1
        head = whole[: most - 4]
        return (head.rpartition(" ")[0] or head) + " ..."

    def _say(self, message: Message | None, most: int) -> str | None:
        return None if message is None else self._said(message.text, most)

    def _verdict(self, headline: Headline) -> BriefVerdict:
        resources, shares, combined = headline.resources, headline.shares, headline.combined
        gpu, host, loader, communication = (
            None if resources is None else _whole(getattr(resources, f"{name}_ns")) for name in RESOURCES
        )
        return BriefVerdict(
            run=None if headline.run is None else self._cut(headline.run, _SHORT),
            bound=self._word(headline.bound),
            sentence=self._said(headline.message.text, _LONG),
            qualifier=self._say(headline.qualifier, _LONG),
            step_ns=None if resources is None else _whole(resources.step_ns),
            steps=_steps(self.report),
            share=_rounded(headline.share),
            gpu_ns=gpu,
            host_ns=host,
            loader_ns=loader,
            communication_ns=communication,
            idle_share=None if shares is None else _rounded(shares.idle),
            all_fixes_ns=_times(combined),
            likely_ns=None if combined is None else _whole(combined.point_ns_per_step),
            next_bound=None if combined is None else self._word(combined.next_bottleneck),
        )

    def _finding(self, own_id: str, finding: Finding) -> BriefFinding:
        card, saving = cards.card(finding, ENGLISH), finding.saving
        lines = card.lines or tuple(f"{path}:{line}" for path, line in sarif.lines(finding))
        decided = saving.decided_by if saving is not None else None
        refuted = refuted_if(finding, ENGLISH)
        whole, check = calls(self.report, own_id)
        return BriefFinding(
            id=self._cut(own_id, _SHORT),
            severity=self._word(finding.severity),
            confidence=self._word(finding.confidence),
            claim=self._said(card.title, _MIDDLE),
            action=self._said(card.action if finding.action else card.advice, _LONG),
            code=self._cut(card.fix, _MIDDLE) if card.is_code else None,
            lines=tuple(self._cut(line, _SHORT) for line in lines[:_LINES]),
            saves_ns=_times(saving),
            likely_ns=None if saving is None or decided is not None else _whole(saving.point_ns_per_step),
            saves_share=None if saving is None else _ends(saving.wall_share),
            is_of_whole_run=saving is not None and saving.is_of_whole_run,
            once_ns=None if finding.once is None else _rounded_ends(finding.once.wall_ns),
            decided_by=self._say(decided, _MIDDLE),
            blocked_by=None if finding.blocked_by is None else self._word(finding.blocked_by),
            evidence=tuple(self._evidence(finding)),
            not_when=self._said(card.not_when, _MIDDLE),
            refuted_if=None if refuted is None else self._said(refuted, _LONG),
            next=whole if saving is None else check,
        )

    def _mention(self, own_id: str, finding: Finding) -> BriefMention:
        said = (finding.action or finding.title).text
        return BriefMention(self._cut(own_id, _SHORT), self._said(said, _SHORT), _times(finding.saving))

    def _evidence(self, finding: Finding) -> Iterator[BriefEvidence]:
        """What crossed a threshold; where that is less than there is room for, further places of it."""
        proofs = finding.evidence[:_ROWS]
        free = _ROWS - len(proofs)
        for proof in proofs:
            what = self._said(proof.subject.text, _MIDDLE)
            first = self._place(proof.where[0]) if proof.where else None
            yield BriefEvidence(
                what, _rounded(proof.observed), _rounded(proof.threshold), self._word(proof.unit), first
            )
            for place in proof.where[1 : 1 + free]:
                free -= 1
                yield BriefEvidence(None, _rounded(place.value), None, self._word(place.unit), self._place(place))

    def _place(self, place: CodePlace) -> str:
        name = place.name if place.label is None else place.label.text
        return f"{self._word(place.kind)} {self._cut(f'{name} {place.shapes}' if place.shapes else name, _SHORT)}"


def _places(finding: Finding) -> int:
    """Number of rows that the evidence of a finding would have."""
    return sum(max(1, len(proof.where)) for proof in finding.evidence)


def _steps(report: Report) -> int | None:
    recording = report.result("recording", Recording)
    return recording.typical.steps if recording is not None and recording.typical is not None else None


def _whole(ns: float | None) -> int | None:
    return None if ns is None else round(ns)


def _times(saving: Saving | Combined | None) -> Interval | None:
    return None if saving is None else _rounded_ends(saving.wall_ns_per_step)


def _rounded_ends(interval: Interval) -> Interval:
    low, high = interval
    return round(low), round(high)


def _ends(interval: Interval) -> Interval:
    low, high = (float(f"{end:.4g}") for end in interval)
    return low, high


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{_DIGITS}g}")
