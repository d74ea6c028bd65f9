"""Which findings are fixed, which are new, and whether fixes saved as much as predicted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from math import fsum

from traceanalyzer.comparison.measurement import Measurement
from traceanalyzer.report.difference import Comparability, FindingChange, Interval, Prediction, StepTime, Verdict
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Finding, Resources, Saving

_MESSAGES = {
    "as-predicted": Text(
        "diff-as-predicted",
        "Predicted {low:ns} to {high:ns} per step; measured {measured:ns}: as predicted.",
    ),
    "less": Text(
        "diff-less-than-predicted",
        "Predicted {low:ns} to {high:ns} per step; measured {measured:ns}: less than predicted.",
    ),
    "more": Text(
        "diff-more-than-predicted",
        "Predicted {low:ns} to {high:ns} per step; measured {measured:ns}: more than predicted, so "
        "something else became faster, too.",
    ),
    "cannot-tell": Text(
        "diff-prediction-unclear",
        "Predicted {low:ns} to {high:ns} per step; measured {measured:ns}: outside of that "
        "range, but by no more than the noise of the steps.",
    ),
}
_SLACK = 0.1
"""Share of the prediction by which the measurement may differ where no noise is known (own choice)."""


_STATUS = ("fixed", "new", "kept")
_INCOMPARABLE_STATUS = ("base-only", "head-only", "both")
"""Used where the sides cannot be compared: a finding that is absent on another GPU has not been fixed."""


def compare(base: Measurement, head: Measurement, conditions: Comparability) -> tuple[FindingChange, ...]:
    """List fixed findings, then new ones, then those that are still there, each in the order of its report.

    The list is empty if the sides have no work in common, because then nothing was fixed.
    """
    if conditions.is_unrelated:
        return ()
    is_comparable = conditions.obstacle is None
    fixed: list[Finding] = []
    new: list[Finding] = []
    kept: list[Finding] = []
    before, after = _by_rule(base.findings), _by_rule(head.findings)
    for rule in dict.fromkeys((*before, *after)):
        pairs, gone, come = _matched(before.get(rule, []), after.get(rule, []))
        fixed += gone
        new += come
        kept += [current for _, current in pairs]
    order = {id(f): n for n, f in enumerate((*base.findings, *head.findings))}
    for findings in (fixed, new, kept):
        findings.sort(key=lambda finding: order[id(finding)])
    gone_, come_, both = _STATUS if is_comparable else _INCOMPARABLE_STATUS
    resources = (base.resources, head.resources) if is_comparable else (None, None)
    return (
        *(_change(gone_, finding, base.resources, _relief(finding, *resources)) for finding in fixed),
        *(_change(come_, finding, head.resources, None) for finding in new),
        *(_change(both, finding, base.resources, None) for finding in kept),
    )


def _by_rule(findings: Iterable[Finding]) -> dict[str, list[Finding]]:
    by_rule: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        by_rule[finding.rule].append(finding)
    return by_rule


def _matched(
    before: list[Finding], after: list[Finding]
) -> tuple[list[tuple[Finding, Finding]], list[Finding], list[Finding]]:
    """Pair findings of one rule: first those about the same place, then the others in order; returns the rest, too."""
    pairs, left, others = [], [], list(after)
    for finding in before:
        same = next((other for other in others if _place(other) == _place(finding)), None)
        if same is None:
            left.append(finding)
        else:
            others.remove(same)
            pairs.append((finding, same))
    count = min(len(left), len(others))
    pairs += zip(left[:count], others[:count], strict=True)
    return pairs, left[count:], others[count:]


def _place(finding: Finding) -> tuple[str, str | None] | None:
    places: Iterator[tuple[str, str | None]] = ((p.name, p.shapes) for e in finding.evidence for p in e.where)
    return next(places, None)


def _change(status: str, finding: Finding, resources: Resources | None, measured: float | None) -> FindingChange:
    saving = finding.saving
    return FindingChange(
        status=status,
        rule=finding.rule,
        severity=finding.severity,
        title=finding.title,
        resource=saving.resource if saving else None,
        predicted_wall_ns=_of_recorded_step(saving, resources) if saving else None,
        predicted_direct_ns=saving.direct_ns_per_step if saving else None,
        measured_direct_ns=measured,
    )


def _of_recorded_step(saving: Saving, resources: Resources | None) -> Interval:
    """The predicted saving per recorded step; with a capture, the prediction was for a step without the profiler."""
    if saving.step_ns is None or resources is None:
        return saving.wall_ns_per_step
    low, high = saving.wall_share
    return low * resources.step_ns, high * resources.step_ns


def _relief(finding: Finding, base: Resources | None, head: Resources | None) -> float | None:
    """By how much time the resource of a finding became shorter, in ns; None if unknown."""
    if finding.saving is None or base is None or head is None:
        return None
    one, two = (getattr(side, f"{finding.saving.resource}_ns", None) for side in (base, head))
    return None if one is None or two is None else one - two


def predict(
    base: Measurement, head: Measurement, changes: Iterable[FindingChange], times: StepTime | None, verdict: Verdict
) -> Prediction | None:
    """Compare what all fixed findings predicted with what a step gained.

    None where nothing was predicted, and where the verdict is inconclusive.
    """
    if verdict.outcome == "inconclusive":
        return None
    fixed = [c for c in changes if c.status == "fixed"]
    promised = [c.predicted_wall_ns for c in fixed if c.predicted_wall_ns is not None]
    before, after = base.step_ns, head.step_ns
    if not promised or before is None or after is None or max(high for _, high in promised) <= 0:
        return None
    # Savings overlap, so together they are at least the largest and at most their sum.
    low, high = max(low for low, _ in promised), min(before, _most(fixed, base.resources))
    measured = before - after
    interval = _negated(times.mean.interval_ns) if times is not None else None
    reached = interval or (measured - _SLACK * high, measured + _SLACK * high)
    agreement = _agreement((low, high), measured, reached)
    message = _MESSAGES[agreement](low=low, high=high, measured=measured)
    return Prediction((low, high), measured, interval, agreement, message)


def _agreement(predicted: Interval, measured: float, reached: Interval) -> str:
    """Only the measured value itself can be as predicted; an interval that reaches the prediction shows nothing."""
    low, high = predicted
    if low <= measured <= high:
        return "as-predicted"
    if reached[1] < low:
        return "less"
    return "more" if reached[0] > high else "cannot-tell"


def _most(fixed: Iterable[FindingChange], resources: Resources | None) -> float:
    """Sum of the savings, where the savings of a resource add up to no more than its time."""
    sums: defaultdict[str | None, float] = defaultdict(float)
    for change in fixed:
        if change.predicted_wall_ns is not None:
            sums[change.resource] += change.predicted_wall_ns[1]
    limits = {name: getattr(resources, f"{name}_ns", None) for name in sums}
    return fsum(value if (limit := limits[name]) is None else min(value, limit) for name, value in sums.items())


def _negated(interval: Interval | None) -> Interval | None:
    return None if interval is None else (-interval[1], -interval[0])
