"""All fixes together: each is applied in turn, and what bounds the step is looked up anew after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from traceanalyzer.report.model import Combined, Relief
from traceanalyzer.rules.budget import Budget
from traceanalyzer.rules.change import Change, Interval


@dataclass(frozen=True)
class Fix:
    """A change and the finding that asks for it."""

    rule: str
    finding: int
    change: Change


def combine(budget: Budget, fixes: Sequence[Fix]) -> Combined | None:
    """The most valuable fix first, then the one that is worth most after it, and so on.

    The lower ends are combined by themselves and the upper ends by themselves, in one order: that of the upper ends.
    None if nothing saves anything.
    """
    low = high = budget
    taken: dict[str, Interval] = {}
    left, reliefs = list(fixes), []
    while left:
        direct = [_unclaimed(fix.change, taken) for fix in left]
        worth = [_gain(high, fix.change, part) for fix, part in zip(left, direct, strict=True)]
        best = max(range(len(left)), key=lambda i: (worth[i], -left[i].finding))
        if worth[best] <= 0:
            break
        fix, part = left.pop(best), direct[best]
        at_least = min(low.wall(fix.change, part)[0], low.cap(fix.change.resource, part[0]), worth[best])
        low = low.after(fix.change, part[0], at_least)
        high = high.after(fix.change, part[1], worth[best])
        _claim(fix.change, taken)
        reliefs.append(Relief(fix.rule, fix.finding, (at_least, worth[best])))
    if not reliefs:
        return None
    at_most = budget.step - high.step
    surely = max(budget.step - low.step, *(budget.wall(fix.change)[0] for fix in fixes))  # as the best one by itself
    total = (min(surely, at_most), at_most)
    return Combined(tuple(reliefs), total, (total[0] / budget.step, total[1] / budget.step), high.critical)


def _gain(budget: Budget, change: Change, direct: Interval) -> float:
    """The upper end after what the fixes before have done; never beyond what the other resources leave."""
    return min(budget.wall(change, direct)[1], budget.cap(change.resource, direct[1]))


def _unclaimed(change: Change, taken: dict[str, Interval]) -> Interval:
    """What is left of a change's direct times after fixes that removed the same time, surely and at most."""
    claimed = [(_ends(change, ns), taken.get(key, (0.0, 0.0))) for key, ns in change.claims.items()]
    low, high = (sum(min(own[end], other[end]) for own, other in claimed) for end in (0, 1))
    return max(0.0, change.direct[0] - low), max(0.0, change.direct[1] - high)


def _claim(change: Change, taken: dict[str, Interval]) -> None:
    for key, ns in change.claims.items():
        before, own = taken.get(key, (0.0, 0.0)), _ends(change, ns)
        taken[key] = (max(before[0], own[0]), max(before[1], own[1]))


def _ends(change: Change, claim: float) -> Interval:
    """What of a claim surely goes: the same part of it as of the whole."""
    low, high = change.direct
    return (claim * low / high if high else 0.0, claim)
