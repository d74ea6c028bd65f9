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
    taken: dict[str, float] = {}
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
    total = (budget.step - low.step, budget.step - high.step)
    return Combined(tuple(reliefs), total, (total[0] / budget.step, total[1] / budget.step), high.critical)


def _gain(budget: Budget, change: Change, direct: Interval) -> float:
    """The upper end after what the fixes before have done; never beyond what the other resources leave."""
    return min(budget.wall(change, direct)[1], budget.cap(change.resource, direct[1]))


def _unclaimed(change: Change, taken: dict[str, float]) -> Interval:
    """What is left of a change's direct times after fixes that removed the same time."""
    overlap = sum(min(ns, taken.get(key, 0.0)) for key, ns in change.claims.items())
    return max(0.0, change.direct[0] - overlap), max(0.0, change.direct[1] - overlap)


def _claim(change: Change, taken: dict[str, float]) -> None:
    for key, ns in change.claims.items():
        taken[key] = max(taken.get(key, 0.0), ns)
