"""Combines all fixes: applies one after the other, and determines after each what bounds the step now."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from traceanalyzer.report.model import Combined, Relief
from traceanalyzer.rules.engine.budget import Budget
from traceanalyzer.rules.engine.change import Fix, Interval, TimeSaved
from traceanalyzer.simulation import variation


def combine(budget: Budget, fixes: Sequence[Fix]) -> Combined | None:
    """The most valuable fix first, then the one that saves most after it, and so on.

    Lower and upper ends are combined separately, both in the order of the upper ends. A saving that another resource
    blocks is not lost: it counts as soon as a later fix relieves that resource. All fixes together save at most the
    time that they remove, within the limits of the resources that remain. None if nothing saves anything.
    """
    low, most = budget, _Most(budget)
    taken: dict[str, Interval] = {}
    left, reliefs = list(fixes), []
    while left:
        direct = [_unclaimed(fix.change, taken) for fix in left]
        after = [most.after(fix.change, part) for fix, part in zip(left, direct, strict=True)]
        gains = [one.saved - most.saved for one in after]
        best = max(range(len(left)), key=lambda i: (gains[i], direct[i][1], -left[i].finding))
        if direct[best][1] <= 0 and gains[best] <= 0:
            break
        fix, part = left.pop(best), direct[best]
        at_least = min(low.wall(fix.change, part)[0], low.cap(fix.change.resource, part[0]), gains[best])
        low = low.after(fix.change, part[0], at_least)
        most = after[best]
        _claim(fix.change, taken)
        reliefs.append((Relief(fix.rule, fix.finding, (at_least, gains[best])), most))
    while reliefs and reliefs[-1][0].wall_ns_per_step[1] <= 0:  # and nothing after it needed it
        reliefs.pop()
    if not reliefs:
        return None
    most = reliefs[-1][1]
    surely = max(budget.step - low.step, *(budget.wall(fix.change)[0] for fix in fixes))  # as the best one by itself
    total = variation.below((min(surely, most.saved), most.saved))
    share = total[0] / budget.step, total[1] / budget.step
    return Combined(tuple(relief for relief, _ in reliefs), total, share, most.left.critical)


class _Most(msgspec.Struct, frozen=True):
    """The most by which a step can have become shorter after some fixes."""

    left: Budget
    """Budget of the original step (for a table: after earlier savings), without the removed time."""
    saved: float = 0.0
    offered: float = 0.0
    """The exposed time that the fixes save."""

    def after(self, change: TimeSaved, direct: Interval) -> _Most:
        """The sum with one more fix."""
        left = self.left
        if left.is_estimate:
            gain = max(0.0, min(left.wall(change, direct)[1], left.reach(change.resource, direct[1])))
            return _Most(left.after(change, direct[1], gain), self.saved + gain)
        offered = self.offered + min(direct[1], (change.exposed or direct)[1])
        # claims on exposed time are on idle time of the device; the change may still remove all of its work
        is_whole = change.exposed is not None and direct[1] > 0
        left = left.without(change.resource, change.direct[1] if is_whole else direct[1])
        return _Most(left, max(self.saved, min(offered, left.step - max(left.certain.values()))), offered)


def _unclaimed(change: TimeSaved, taken: dict[str, Interval]) -> Interval:
    """Least and greatest time of a change that earlier fixes have not already removed."""
    claimed = [(_ends(change, ns), taken.get(key, (0.0, 0.0))) for key, ns in change.claims.items()]
    low, high = (sum(min(own[end], other[end]) for own, other in claimed) for end in (0, 1))
    return max(0.0, change.direct[0] - low), max(0.0, change.direct[1] - high)


def _claim(change: TimeSaved, taken: dict[str, Interval]) -> None:
    for key, ns in change.claims.items():
        before, own = taken.get(key, (0.0, 0.0)), _ends(change, ns)
        taken[key] = (max(before[0], own[0]), max(before[1], own[1]))


def _ends(change: TimeSaved, claim: float) -> Interval:
    """Least and greatest time of a claim; it shrinks in proportion to the whole change."""
    low, high = change.direct
    return (claim * low / high if high else 0.0, claim)
