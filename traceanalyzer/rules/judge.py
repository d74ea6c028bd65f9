"""Runs the rules: bounds what their findings are worth, ranks them, and says what could not be judged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from traceanalyzer.config import SEVERITIES
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Combined, Finding, Headline, Saving, Skipped
from traceanalyzer.rules.budget import GAIN_SHARE, Budget
from traceanalyzer.rules.combine import Fix, combine
from traceanalyzer.rules.facts import Facts, Missing
from traceanalyzer.rules.headline import headline
from traceanalyzer.rules.rule import Draft, Rule
from traceanalyzer.rules.selection import Chosen

_NO_TIMELINE = Text("rule-no-timeline", "a printed table has no timeline: report on the trace itself")
_FAILED = Text(
    "rule-failed", "the rule failed ({error}); please report it to its author", note="error is a Python exception"
)
_STEPS_OF_SEVERITY = ((0.20, "critical"), (0.10, "high"), (0.03, "medium"), (0.01, "low"))
"""Of the upper end of the wall share. Own choice: what a team would stop for, plan, try, or note."""


@dataclass(frozen=True)
class Advice:
    """What rules have to say."""

    headlines: tuple[Headline, ...]
    findings: tuple[Finding, ...]
    skipped: tuple[Skipped, ...]


@dataclass(frozen=True)
class _Judged:
    finding: Finding
    draft: Draft


def judge(runs: Sequence[Facts], chosen: Sequence[Chosen]) -> Advice:
    """Apply the rules to every run of an input.

    Returns:
        Findings with the most valuable first, and for each rule that could be judged in no run the reason.
    """
    headlines: list[Headline] = []
    findings: list[Finding] = []
    reasons: dict[str, list[Message]] = {}
    for facts in runs:
        judged = []
        for entry in chosen:
            try:
                judged += [_finding(facts, entry.rule, draft) for draft in _detect(entry, facts)]
            except Missing as missing:
                reasons.setdefault(entry.rule.id, []).append(missing.reason)
        ordered, combined = _ordered(facts, judged, first=len(findings))
        headlines.append(headline(facts, combined))
        findings += [entry.finding for entry in ordered]
    skipped = tuple(Skipped(rule, found[0]) for rule, found in reasons.items() if len(found) == len(runs))
    return Advice(tuple(headlines), tuple(findings), skipped)


def _detect(entry: Chosen, facts: Facts) -> list[Draft]:
    rule = entry.rule
    detector = rule.trace if facts.table is None else rule.table
    if detector is None:
        reason = rule.no_trace if facts.table is None else rule.no_table
        raise Missing(reason or _NO_TIMELINE())
    try:
        return list(detector(facts, entry.limits))
    except Missing:
        raise
    except Exception as error:  # one broken rule must not take the report away; tests fail on this reason
        raise Missing(_FAILED(error=f"{type(error).__name__}: {error}")) from None


def _finding(facts: Facts, rule: Rule, draft: Draft) -> _Judged:
    budget = Budget.of(facts.resources, is_estimate=facts.table is not None)
    saving = None if draft.change is None else budget.saving(draft.change)
    latent = saving is not None and _is_latent(saving, facts.step_ns)
    finding = Finding(
        rule=rule.id,
        run=facts.run,
        severity=_severity(draft, saving),
        confidence=draft.confidence or rule.confidence,
        latent=latent,
        blocked_by=budget.blocker(draft.change) if latent and draft.change else None,
        title=rule.title(**draft.params),
        summary=(draft.summary or rule.summary)(**draft.params),
        advice=(draft.advice or rule.advice)(**draft.params),
        not_when=rule.not_when(**draft.params),
        code=draft.code or rule.code,
        links=rule.links,
        evidence=tuple(msgspec.structs.replace(e, where=e.where[:5]) for e in draft.evidence),
        saving=saving,
    )
    return _Judged(finding, draft)


def _is_latent(saving: Saving, step_ns: float) -> bool:
    """It takes time away that would be worth something, if something else did not bound the step."""
    return saving.wall_share[1] < GAIN_SHARE <= saving.direct_ns_per_step[1] / max(step_ns, 1.0)


def _severity(draft: Draft, saving: Saving | None) -> str:
    """By what a step gains; a risk names its own, and the worse of the two counts, up to the draft's ceiling."""
    gain = "info"
    if saving is not None:
        gain = next((name for share, name in _STEPS_OF_SEVERITY if saving.wall_share[1] >= share), "info")
    worst = max(gain, draft.severity or "info", key=SEVERITIES.index)
    return min(worst, draft.ceiling or SEVERITIES[-1], key=SEVERITIES.index)


def _rank(judged: _Judged) -> tuple[float, int, float, str]:
    """What saves most first; then risks by severity; then what would save most later."""
    finding, saving = judged.finding, judged.finding.saving
    wall, direct = (saving.wall_ns_per_step[1], saving.direct_ns_per_step[1]) if saving else (0.0, 0.0)
    return -wall, -SEVERITIES.index(finding.severity), -direct, finding.rule


def _ordered(facts: Facts, judged: Iterable[_Judged], first: int) -> tuple[list[_Judged], Combined | None]:
    """What each adds to those before it decides the order, so that two sides of one thing do not fill the top.

    Args:
        facts: Of the run.
        judged: Its findings.
        first: Position of the first of them in the report.
    """
    ranked = sorted(judged, key=_rank)
    fixes = [Fix(e.finding.rule, i, e.draft.change) for i, e in enumerate(ranked) if e.draft.change is not None]
    combined = combine(Budget.of(facts.resources, is_estimate=facts.table is not None), fixes)
    if combined is None:
        return ranked, None
    chosen = [fix.finding for fix in combined.fixes]
    ordered = [ranked[i] for i in (*chosen, *(i for i in range(len(ranked)) if i not in chosen))]
    renumbered = tuple(
        msgspec.structs.replace(fix, finding=first + number) for number, fix in enumerate(combined.fixes)
    )
    return ordered, msgspec.structs.replace(combined, fixes=renumbered)
