"""Explains a difference: parts of the step, operators, shapes, kernels and modules that changed, and notes."""

from __future__ import annotations

from collections.abc import Iterator
from math import fsum

import numpy as np

from traceanalyzer.comparison import alignment, statistics
from traceanalyzer.comparison.measurement import Key, Measurement, Ranked, mean
from traceanalyzer.comparison.verdict import LEAST_STEPS, NOISE
from traceanalyzer.report.difference import PART_LABELS, Change, ChangedPart, Cost, Ranking, StepTime, Verdict
from traceanalyzer.report.message import Message, Text
from traceanalyzer.structure.step_breakdown import PARTS

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
    "{part} makes most of the difference: {base:ns} became {head:ns} per step. That is more than the whole change: "
    "other parts changed the other way.",
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


def compare_parts(base: Measurement, head: Measurement) -> tuple[ChangedPart, ...]:
    """Compare every part that occurs on a side; the parts of steps sum to the mean step."""
    if base.steps and head.steps:
        return _parts_of_steps(base, head)
    known = [part for part in PART_LABELS if base.parts.get(part) is not None or head.parts.get(part) is not None]
    return tuple(_part(part, base.parts.get(part), head.parts.get(part)) for part in known)


def _parts_of_steps(base: Measurement, head: Measurement) -> tuple[ChangedPart, ...]:
    whole = (head.step_ns or 0.0) - (base.step_ns or 0.0)
    changed = []
    for part in PARTS:
        one, two = ([step.parts[part] for step in side.steps] for side in (base, head))
        if any(one) or any(two):
            changed.append(_part(part, mean(one), mean(two), whole, _is_clear(base, head, part)))
    return tuple(changed)


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
    return statistics.rank_sum(before, after, _LEVEL, statistics.inflation(*one, *two)).p <= _LEVEL / len(PARTS)


def attribute(parts: tuple[ChangedPart, ...], verdict: Verdict) -> Message | None:
    """The part with the largest share of the change; None where nothing changed, or no more than the noise."""
    if verdict.reason.id in NOISE:
        return None
    changed = [part for part in _without_moves(parts) if part.change_ns]
    if not changed:
        return None
    if any(part.change_share is not None for part in changed):
        main = max(changed, key=lambda part: part.change_share or 0.0)
        share = main.change_share or 0.0
        text = _REASON_WHOLE if share > 1 else _REASON if share >= _MAIN else _SPREAD
    else:
        main = max(changed, key=lambda part: abs(part.change_ns or 0.0))
        text = _REASON_PRINTED
    return text(part=PART_LABELS[main.id](), base=main.base_ns, head=main.head_ns, share=main.change_share)


def _without_moves(parts: tuple[ChangedPart, ...]) -> tuple[ChangedPart, ...]:
    """The parts, in which "CPU Exec" and "Other" are one if one grew and the other shrank.

    Where a side lacks marks or operators, the same host work is in "Other".
    """
    moved = [part for part in parts if part.id in ("cpu_exec", "other")]
    changes = [part.change_ns or 0.0 for part in moved]
    if len(moved) < 2 or changes[0] * changes[1] >= 0:
        return parts
    base, head, change = (fsum(getattr(p, f) or 0.0 for p in moved) for f in ("base_ns", "head_ns", "change_ns"))
    share = fsum(part.change_share or 0.0 for part in moved)
    return (*(part for part in parts if part not in moved), ChangedPart("host_code", base, head, change, share, None))


# Finds operators, shapes, kernels and modules that appeared, vanished, slowed down or sped up.

_CALLERS = "callers"
KEYS = ("operators", "operators_by_shape", "kernels", "kernels_by_operator", "modules")

_LEAST_OWN = 0.05
"""Least share of a row's own time that counts as a change (own choice: equal kernels differ by a few percent)."""

_LEAST_STEP = 0.0005
"""Least share of the step that counts as a change (own choice: what the largest of a hundred rows may move)."""

_LEAST_CALLS = 0.005
"""Least share of the calls that counts as a change; fewer are calls outside of steps."""

_HIDDEN = 0.1
"""A row that takes less than ten times what the other table does not print may be there and not printed."""


def compare_rankings(base: Measurement, head: Measurement) -> tuple[Ranking, ...]:
    """Compare all rankings that both sides can have and at least one has rows for."""
    step = max(base.step_ns or 0.0, head.step_ns or 0.0)
    both = [(key, base.rankings.get(key), head.rankings.get(key)) for key in KEYS]
    if base.work and head.work:
        before, after = alignment.aligned(base.work, head.work)
        both.insert(0, (_CALLERS, Ranked(before), Ranked(after)))
    return tuple(_compare(key, one, two, step) for key, one, two in both if one and two and one.rows and two.rows)


def _compare(name: str, base: Ranked, head: Ranked, step: float) -> Ranking:
    changes = []
    same = 0
    for key in {**base.rows, **head.rows}:
        change = _change(key, base, head, step)
        if change is None:
            same += 1
        else:
            changes.append(change)
    return Ranking(name, tuple(sorted(changes, key=_order)), same, base.ambiguous + head.ambiguous)


def _order(row: Change) -> tuple[bool, float, str, str, str]:
    """Sort key: the largest change first; rows that are only not printed come last, because their change is unknown."""
    size = max(abs(row.device_change_ns or 0.0), abs(row.host_change_ns or 0.0))
    return row.status == "not-printed", -size, row.name, row.detail or "", row.owner or ""


def _change(key: Key, base: Ranked, head: Ranked, step: float) -> Change | None:
    one = base.rows.get(key)
    two = head.rows.get(key)
    device = _difference(one, two, "device_ns")
    host = _difference(one, two, "host_ns")
    if one is None or two is None:
        present, other = (two, base) if one is None else (one, head)
        status = "appeared" if one is None else "vanished"
        if present is not None and other.hidden_ns > _HIDDEN * max(present.device_ns or 0.0, present.host_ns or 0.0):
            status, device, host = "not-printed", None, None
    else:
        kind = _status(one, two, device, host, step)
        if kind is None:
            return None
        status = kind
    return Change(key.name, key.detail, key.owner, status, one, two, device, host)


def _difference(base: Cost | None, head: Cost | None, field: str) -> float | None:
    """Head minus base; a row that does not occur takes no time."""
    one = 0.0 if base is None else getattr(base, field)
    two = 0.0 if head is None else getattr(head, field)
    return None if one is None or two is None else two - one


def _status(base: Cost, head: Cost, device: float | None, host: float | None, step: float) -> str | None:
    """Status by the resource that changed most; None where nothing that matters changed.

    The status names the resource where the other one changed in the opposite direction.
    """
    changes = [("device", device or 0.0, base.device_ns), ("host", host or 0.0, base.host_ns)]
    name, change, before = max(changes, key=lambda entry: abs(entry[1]))
    if change and abs(change) >= max(_LEAST_OWN * (before or 0.0), _LEAST_STEP * step):
        word = "slower" if change > 0 else "faster"
        is_mixed = any(change * other < 0 for _, other, _ in changes)
        return f"{name}-{word}" if is_mixed else word
    calls = abs((head.calls or 0.0) - (base.calls or 0.0))
    return "calls" if calls > _LEAST_CALLS * (base.calls or 0.0) else None


# Notes about how far the figures can be trusted.

_ONE_RUN = Text(
    "diff-one-capture",
    "Each side is one recording. Repeat recordings (a folder for each side) to judge run-to-run variation.",
)
_ALIKE = Text(
    "diff-autocorrelated-2",
    "Steps are correlated (a slow phase, or a warm-up), so intervals are {factor:factor} times as wide.",
)
_OUTLIERS = Text(
    "diff-outliers",
    "{base:count} and {head:count} steps take more than 1.5 times the median. The mean includes what they cost; the "
    "median does not.",
)
_WHOLE = Text(
    "diff-whole-trace",
    "No steps are marked, so each trace counts as one step. Call prof.step() after each iteration.",
)
_UNPRINTED = Text(
    "diff-unprinted",
    "The tables do not print all rows (row_limit). A row that is missing on one side counts as gone only if it would "
    "have been printed there.",
)
_CUT_NAMES = Text(
    "diff-cut-names",
    "{count:count} rows have shortened names that several rows share, so they are not matched.",
    one="{count:count} row has a shortened name that several rows share, so it is not matched.",
)
_OUTLIER = 1.5


def collect_notes(
    base: Measurement, head: Measurement, times: StepTime | None, rankings: tuple[Ranking, ...]
) -> tuple[Message, ...]:
    """Collect all notes that apply to a comparison."""
    return (*_notes_of_steps(base, head, times), *_notes_of_tables(base, head, rankings))


def _notes_of_steps(base: Measurement, head: Measurement, times: StepTime | None) -> Iterator[Message]:
    if times is None:
        return
    yield from (*base.once, *(message for message in head.once if message not in base.once))
    if "whole-trace" in (base.side.steps_from, head.side.steps_from):
        yield _WHOLE()
    outliers = [_outliers(side) for side in (base, head)]
    if any(outliers):
        yield _OUTLIERS(base=outliers[0], head=outliers[1])
    if times.inflation > 1:
        yield _ALIKE(factor=times.inflation)
    if min(len(base.runs), len(head.runs)) == 1 and min(times.base.count, times.head.count) > 1:
        yield _ONE_RUN()


def _outliers(side: Measurement) -> int:
    durations = sorted(step.duration_ns for step in side.steps)
    middle = len(durations) // 2
    median = (durations[middle] + durations[~middle]) / 2
    return sum(duration > _OUTLIER * median for duration in durations)


def _notes_of_tables(base: Measurement, head: Measurement, rankings: tuple[Ranking, ...]) -> Iterator[Message]:
    if any(side.rankings[key].hidden_ns for side in (base, head) for key in side.rankings):
        yield _UNPRINTED()
    ambiguous = sum(ranking.ambiguous for ranking in rankings)
    if ambiguous:
        yield _CUT_NAMES(count=ambiguous)
