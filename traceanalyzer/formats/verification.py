"""Formats of what became of findings: the terminal, Markdown and JSON."""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.formats.answers import Answer
from traceanalyzer.formats.language import ENGLISH, Language
from traceanalyzer.report.message import Text
from traceanalyzer.report.names import clipped, word
from traceanalyzer.report.section import Section
from traceanalyzer.report.verification import Verification

FORMATS = ("terminal", "markdown", "json")

MARK = "<!-- traceanalyzer verify"
_TOP = 20

_TITLE = Text("verify-title", "What became of the findings of {base}, after {head}", "names of files or runs")
_HEADER = Text("verify-header", "{base} -> {head}", "names of files or runs; base is before, head is after")
_VERDICT = Text("verify-step-title", "The step")
_FINDINGS = Text("verify-findings-title", "Findings")
_TOGETHER = Text(
    "verify-together",
    "{count:count} fixes were made; a step was to become {low:ns} to {high:ns} shorter by all of them together, and "
    "became {measured:ns} shorter. Which of them did what cannot be told apart.",
    "count is at least 2: fixes of findings; times of a training step",
    "{count:count} fix was made; a step was to become {low:ns} to {high:ns} shorter, and became {measured:ns} shorter.",
)
_NONE = Text("verify-none", "{name} has no findings to check.", "name of a file")
_MORE = Text(
    "verify-more", "{count:count} more findings are in the JSON.", "", "{count:count} more finding is in the JSON."
)
OUTCOMES = {
    "confirmed": Text("verify-outcome-confirmed", "Confirmed", "a finding; before a colon"),
    "better": Text("verify-outcome-better", "Better than predicted", "a finding; before a colon"),
    "worse": Text("verify-outcome-worse", "Worse than predicted", "a finding; before a colon"),
    "refuted": Text("verify-outcome-refuted", "Refuted", "a finding; before a colon"),
    "not-done": Text("verify-outcome-not-done", "Not done", "the fix of a finding; before a colon"),
    "cannot-tell": Text("verify-outcome-cannot-tell", "Cannot tell", "about a finding; before a colon"),
}
_FINDING = Text(
    "verify-line",
    "{outcome}: {title} ({id}). {reason}",
    "outcome is a word such as Confirmed; title is that of a finding; reason is a sentence",
)


def answer(verification: Verification, language: Language = ENGLISH) -> Answer:
    """The verification in words of a language, to be rendered in one of `FORMATS`."""
    base, head = (clipped(side.name, 200) for side in (verification.base, verification.head))

    def header(width: int) -> str:
        from traceanalyzer.formats import terminal  # noqa: PLC0415 - rich is slow to import

        return language.text(_HEADER, base=terminal.fit(base, width // 2 - 2), head=terminal.fit(head, width // 2 - 2))

    def shown(rows: int) -> Iterator[Section]:
        return sections(verification, rows)

    title = language.text(_TITLE, base=base, head=head)
    return Answer(
        verification, "verification", FORMATS, verification.generator, MARK, title, header, shown, _TOP, language
    )


def sections(verification: Verification, top: int) -> Iterator[Section]:
    """Build the sections of a verification."""
    said = [verification.verdict.reason]
    if verification.fixes > 1 and verification.predicted_ns is not None and verification.measured_ns is not None:
        low, high = verification.predicted_ns
        said.append(_TOGETHER(count=verification.fixes, low=low, high=high, measured=verification.measured_ns))
    if not verification.findings:
        said.append(_NONE(name=clipped(verification.base.name, 200)))
    yield Section("verdict", _VERDICT, messages=tuple(said), is_essential=True)
    lines = [
        _FINDING(outcome=word(OUTCOMES, each.outcome), title=each.title, id=each.id, reason=each.reason)
        for each in verification.findings
    ]
    if lines:
        left = [_MORE(count=len(lines) - top)] if len(lines) > top else []
        yield Section("findings", _FINDINGS, messages=(*lines[:top], *left), is_essential=True)
