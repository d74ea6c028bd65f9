"""Finds which part of the step makes the difference."""

from __future__ import annotations

import numpy as np

from traceanalyzer.comparison import statistics
from traceanalyzer.comparison.measurement import Measurement, mean
from traceanalyzer.comparison.verdict import LEAST_STEPS, NOISE
from traceanalyzer.report.difference import PART_LABELS, ChangedPart, Verdict
from traceanalyzer.report.message import Message, Text
from traceanalyzer.structure.step_breakdown import PARTS
from traceanalyzer.trace.table import F64

_LEVEL = 0.05
_MAIN = 0.5
"""Share of the change from which on a part is its reason (own choice: a half)."""

_REASON = Text(
    "diff-reason",
    "{part} makes most of the difference: {base:ns} became {head:ns} per step, {share:share} of the change.",
    "part is one of the diff-part texts",
)
_REASON_WHOLE = Text(
    "diff-reason-whole",
    "{part} makes most of the difference: {base:ns} became {head:ns} per step. This is more than the whole change, "
    "because other parts changed in the opposite direction.",
    "part is one of the diff-part texts",
)
_REASON_PRINTED = Text(
    "diff-reason-printed",
    "{part} time changed most: {base:ns} became {head:ns} per step.",
    "part is one of the diff-part texts",
)
_SPREAD = Text(
    "diff-reason-spread",
    "No single part makes most of the difference; the largest is {part} with {share:share} of the change.",
    "part is one of the diff-part texts",
)


def compare(base: Measurement, head: Measurement) -> tuple[ChangedPart, ...]:
    """Compare every part that occurs on a side; the parts of steps sum to the mean step."""
    if base.steps and head.steps:
        return _of_steps(base, head)
    known = [part for part in PART_LABELS if base.parts.get(part) is not None or head.parts.get(part) is not None]
    return tuple(_part(part, base.parts.get(part), head.parts.get(part)) for part in known)


def _of_steps(base: Measurement, head: Measurement) -> tuple[ChangedPart, ...]:
    whole = (head.step_ns or 0.0) - (base.step_ns or 0.0)
    found = []
    for part in PARTS:
        one, two = ([step.parts[part] for step in side.steps] for side in (base, head))
        if any(one) or any(two):
            found.append(_part(part, mean(one), mean(two), whole, _is_clear(base, head, part)))
    return tuple(found)


def _part(
    name: str, base: float | None, head: float | None, whole: float | None = None, clear: bool | None = None
) -> ChangedPart:
    change = None if base is None or head is None else head - base
    return ChangedPart(name, base, head, change, change / whole if change is not None and whole else None, clear)


def _is_clear(base: Measurement, head: Measurement, part: str) -> bool | None:
    """Whether the change is beyond the noise, at a level that allows for the number of parts."""
    one, two = ([[step.parts[part] for step in run] for run in side.runs] for side in (base, head))
    if min(len(base.steps), len(head.steps)) < LEAST_STEPS:
        return None
    before, after = (np.array([value for run in runs for value in run]) for runs in (one, two))
    factor = 1.0 if _are_apart(before, after) else statistics.inflation(*one, *two)
    return statistics.rank_sum(before, after, _LEVEL, factor).p <= _LEVEL / len(PARTS)


def _are_apart(before: F64, after: F64) -> bool:
    """Whether the sides are further apart than each is wide without outliers; no drift within a side explains that."""
    gap = max(before.min() - after.max(), after.min() - before.max())
    return bool(gap > max(np.subtract(*np.quantile(side, (0.75, 0.25))) for side in (before, after)))


def attribute(parts: tuple[ChangedPart, ...], verdict: Verdict) -> Message | None:
    """The part with the largest share of the change; None where nothing changed, or no more than the noise."""
    if verdict.reason.id in NOISE:
        return None
    changed = [part for part in parts if part.change_ns]
    if not changed:
        return None
    if any(part.change_share is not None for part in changed):
        main = max(changed, key=lambda part: part.change_share or 0.0)
        share = main.change_share or 0.0
        text = _REASON_WHOLE if share > 1 else _REASON if share >= _MAIN else _SPREAD
    else:
        main, text = max(changed, key=lambda part: abs(part.change_ns or 0.0)), _REASON_PRINTED
    return text(part=PART_LABELS[main.id](), base=main.base_ns, head=main.head_ns, share=main.change_share)
