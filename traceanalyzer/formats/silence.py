"""Explains why there is no finding: rules found nothing, or could not be evaluated."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from traceanalyzer import analyzers, simulation
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report

_NOTHING = Text("findings-nothing", "No rule found anything to change.")
_FEW_JUDGED = Text(
    "findings-few-judged",
    "No findings, but {rules:count} rules could not be applied. The reasons:",
    one="No findings, but {rules:count} rule could not be applied. The reason:",
)
_REASON = Text(
    "findings-reason",
    "{rules:count} rules: {reason}.",
    note="reason is a clause without a full stop",
    one="{rules:count} rule: {reason}.",
)
_OTHERS = Text(
    "findings-other-reasons", "Other reasons: {rules:count} rules.", one="Another reason: {rules:count} rule."
)
_REASONS = 3
"""Number of reasons shown (own choice: the first cover most rules; the list of skipped rules has all)."""


def messages(report: Report) -> Iterator[Message]:
    """Sentences for a report without findings, the most frequent reasons first."""
    keys = {*analyzers.RESULTS, *(analyzer.key for analyzer in simulation.ANALYSES)}
    by_reason: defaultdict[str, list[Message]] = defaultdict(list)
    for skipped in report.skipped:
        if skipped.id not in keys:
            by_reason[skipped.reason.text].append(skipped.reason)
    if not by_reason:
        yield _NOTHING()
        return
    ordered = sorted(by_reason.values(), key=lambda same: (-len(same), same[0].text))
    yield _FEW_JUDGED(rules=sum(map(len, ordered)))
    for same in ordered[:_REASONS]:
        yield _REASON(rules=len(same), reason=same[0])
    if len(ordered) > _REASONS:
        yield _OTHERS(rules=sum(map(len, ordered[_REASONS:])))
