"""Which findings are fixed, which are new, and whether fixes saved as much as predicted.

A finding is about a set of events (`findings[].where`), and it is fixed if these take less time than before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from math import fsum

from msgspec.structs import replace

from traceanalyzer.comparison.alignment import is_as_often
from traceanalyzer.comparison.measurement import Measurement
from traceanalyzer.report.compared import Interval, agreement, together
from traceanalyzer.report.difference import Comparability, FindingChange, Prediction, StepTime, Verdict
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
_STATUS = ("fixed", "new", "kept")
_UNDECIDED = ("base-only", "head-only", "both")
"""Used where the sides cannot be compared: a finding that is absent on another GPU has not been fixed. And where what a
finding is about did not shrink or grow: it only crossed a threshold."""
LEAST = 0.02
"""Least share by which what a finding is about shrinks or grows (own choice: runs of one program differ by as much)."""


def compare(
    base: Measurement, head: Measurement, conditions: Comparability, change_ns: float | None = None
) -> tuple[FindingChange, ...]:
    """List fixed findings, then new ones, then those that are still there, each in the order of its report.

    Args:
        base: Before.
        head: After.
        conditions: Without work in common nothing was fixed, so that the list is empty.
        change_ns: Change of the step; nothing is fixed in one that got slower.
    """
    if conditions.is_unrelated:
        return ()
    order = {id(finding): number for number, finding in enumerate((*base.findings, *head.findings))}
    pairs = sorted(_pairs(base, head), key=lambda pair: (_rank(*pair), order[id(pair[1] or pair[0])]))
    changes = [_compared(one, two, base, head, conditions, change_ns) for one, two in pairs]
    return tuple(sorted(changes, key=lambda change: _ORDER.index(change.status)))


Pair = tuple[Finding | None, Finding | None]
"""A finding of both sides; None on the side that does not have it."""


def _pairs(base: Measurement, head: Measurement) -> Iterator[Pair]:
    """Findings that are about the same, rule by rule."""
    before = _by_rule(base.findings)
    after = _by_rule(head.findings)
    for rule in dict.fromkeys((*before, *after)):
        both, gone, come = _matched(before.get(rule, []), after.get(rule, []))
        yield from both
        yield from ((finding, None) for finding in gone)
        yield from ((None, finding) for finding in come)


def _compared(
    one: Finding | None,
    two: Finding | None,
    base: Measurement,
    head: Measurement,
    conditions: Comparability,
    change_ns: float | None,
) -> FindingChange:
    """What became of a finding of one or both sides."""
    is_measured = _has_where(base) and _has_where(head)
    base_ns = head_ns = None
    if conditions.obstacle is None and is_measured:
        base_ns, head_ns = _times(one, two, base, head)
    status = _status(one, two, (base_ns, head_ns), is_measured=is_measured, change_ns=change_ns)
    if conditions.obstacle is not None:
        status = _UNDECIDED[_rank(one, two)]
    finding, side = (one, base) if two is None else (two, head)
    assert finding is not None  # noqa: S101 - a pair has one of one side at least
    relieved = saved = None
    if status == "fixed":
        relieved = _relief(finding, base.resources, head.resources)
        saved = None if base_ns is None or head_ns is None else base_ns - head_ns
    return replace(
        _with_remedy(_change(status, finding, side.resources, relieved), two),
        base_ns=base_ns,
        head_ns=head_ns,
        saved_ns=saved,
        priced_in="base" if two is None else "head",
        base_position=None if one is None else next(at for at, own in enumerate(base.findings) if own is one),
        base_predicted_wall_ns=_promised(one, base.resources),
    )


def _with_remedy(change: FindingChange, finding: Finding | None) -> FindingChange:
    """The change with what to do about it, where the head has the finding."""
    if finding is None:
        return change
    return replace(change, advice=finding.advice, action=finding.action, code=finding.code)


def _promised(finding: Finding | None, resources: Resources | None) -> Interval | None:
    """The saving that a finding predicted per recorded step; None without one."""
    saving = finding.saving if finding else None
    return _of_recorded_step(saving, resources) if saving else None


_ORDER = ("fixed", "base-only", "new", "head-only", "kept", "both")


def _rank(base: Finding | None, head: Finding | None) -> int:
    """Position among the statuses."""
    if head is None:
        return 0
    return 1 if base is None else 2


def _status(
    base: Finding | None,
    head: Finding | None,
    times: tuple[float | None, float | None],
    *,
    is_measured: bool,
    change_ns: float | None,
) -> str:
    """Fixed is what shrank in a step that did not get slower, new what grew; by name alone in reports without times."""
    rank, (before, after) = _rank(base, head), times
    shrank = grew = not is_measured
    if before is not None and after is not None:
        shrank |= before - after > LEAST * before
        grew |= after - before > LEAST * after
    is_slower = change_ns is not None and change_ns > 0
    holds = (shrank and not is_slower, grew, True)[rank]
    return (_STATUS if holds else _UNDECIDED)[rank]


def _has_where(side: Measurement) -> bool:
    """Whether the report of a side says where findings are, unlike old ones and those on printed tables."""
    return any(finding.where for finding in side.findings) or not any(finding.saving for finding in side.findings)


def _times(
    one: Finding | None, two: Finding | None, base: Measurement, head: Measurement
) -> tuple[float | None, float | None]:
    """Time per step in ns of what a finding is about, on both sides; None where unknown.

    Where a side does not have the finding, it is what the other side's takes, changed as its largest part did.
    """
    before = _ns(one)
    after = _ns(two)
    if one is not None and two is None and before is not None:
        ratio = _ratio(one, base, head)
        after = None if ratio is None else before * ratio
    elif two is not None and one is None and after is not None:
        ratio = _ratio(two, head, base)
        before = None if ratio is None else after * ratio
    return before, after


def _ns(finding: Finding | None) -> float | None:
    known = [entry.ns_per_step for entry in finding.where if entry.ns_per_step is not None] if finding else []
    return fsum(known) if known else None


def _ratio(finding: Finding, side: Measurement, other: Measurement) -> float | None:
    """How much time the largest part takes on the other side, for each ns here; None if it is unknown here.

    Where one side has more compiled code, operators have moved into it, but their kernels do the same kind of work.
    """
    largest = max(finding.where, key=lambda entry: entry.ns_per_step or 0.0)
    kind, name = largest.kind, largest.name
    if kind == "device" and name in side.classes and not is_as_often(side.compiled_calls, other.compiled_calls):
        kind = "class"
        name = side.classes[name]
    here = side.subjects.get((kind, name))
    ratio = other.subjects.get((kind, name), 0.0) / here if here else None
    return min(ratio, 1.0) if ratio is not None and kind == "class" else ratio


def _by_rule(findings: Iterable[Finding]) -> dict[str, list[Finding]]:
    by_rule: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        by_rule[finding.rule].append(finding)
    return by_rule


def _matched(
    before: list[Finding], after: list[Finding]
) -> tuple[list[tuple[Finding, Finding]], list[Finding], list[Finding]]:
    """Pair findings of one rule: first those about the same place, then the others in order; returns the rest, too."""
    pairs = []
    left = []
    others = list(after)
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
    """The first place in the trace that is evidence of a finding, by its name and shapes."""
    for evidence in finding.evidence:
        for place in evidence.where:
            return place.name, place.shapes
    return None


def _change(status: str, finding: Finding, resources: Resources | None, measured: float | None) -> FindingChange:
    saving = finding.saving
    return FindingChange(
        status=status,
        rule=finding.rule,
        severity=finding.severity,
        title=finding.title,
        resource=saving.resource if saving else None,
        predicted_wall_ns=_promised(finding, resources),
        predicted_direct_ns=saving.direct_ns_per_step if saving else None,
        measured_direct_ns=measured,
        summary=finding.summary,
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
    promised = [(c.resource, c.predicted_wall_ns) for c in fixed if c.predicted_wall_ns is not None]
    before, after = base.step_ns, head.step_ns
    if before is None or after is None:
        return None
    predicted = together(promised, base.resources, before)
    if predicted is None:
        return None
    measured = before - after
    interval = _negated(times.mean.interval_ns) if times is not None else None
    agreed = agreement(predicted, measured, interval)
    message = _MESSAGES[agreed](low=predicted[0], high=predicted[1], measured=measured)
    return Prediction(predicted, measured, interval, agreed, message)


def _negated(interval: Interval | None) -> Interval | None:
    return None if interval is None else (-interval[1], -interval[0])
