"""The rank that others wait for, and its cost; the finding and the headline use the same result."""

from __future__ import annotations

import msgspec

from traceanalyzer.analyzers.ranks.model import Ranks, Straggler
from traceanalyzer.analyzers.ranks.stragglers import Stragglers
from traceanalyzer.rules.engine.facts import Facts


class LateRank(msgspec.Struct, frozen=True):
    """A rank that others wait for."""

    row: Straggler
    wait_ns: float
    """Time in ns by which it makes a step longer: from the replay of all ranks, else how long each other rank waits for
    it."""
    gap_ns: float
    """Part of the waiting in ns that is certainly saved with this rank: the time by which it is later than the next
    one."""
    is_replayed: bool


def find(facts: Facts, found: Ranks) -> LateRank | None:
    """The late rank of a run; None if there is none, or the replay names one that causes no exposed waiting.

    Of two equally late ranks neither alone makes a step longer: then it is the one for which others wait longest.
    """
    if len(found.ranks) < 2 or not found.stragglers:
        return None
    others = _over_others(found)
    replayed = facts.find("stragglers", Stragglers)
    if replayed is None or replayed.late_rank is None:
        row = found.stragglers[0]
        return LateRank(row, row.caused_ns * others, min(row.gap_ns, row.caused_ns) * others, is_replayed=False)
    late = next((row for row in found.stragglers if row.rank == replayed.late_rank), None)
    wait = replayed.late_ns_per_step
    if late is None or wait is None:
        return None
    return LateRank(late, wait, min(late.gap_ns * others, wait), is_replayed=True)


def wait_by_step(late: LateRank, found: Ranks) -> list[float]:
    """How long each other rank waits for the late rank in each step, mean over the others in ns."""
    others = _over_others(found)
    return [
        (step.caused_ns or 0.0) * others if step.waited_for == late.row.rank else 0.0
        for step in found.steps
        if step.wait_ns is not None
    ]


def _over_others(found: Ranks) -> float:
    """Factor from a mean over all ranks to the mean over the ranks that wait for one of them."""
    return len(found.ranks) / (len(found.ranks) - 1)


def usual_waits(late: LateRank, found: Ranks) -> list[float]:
    """How long each other rank waits for the late rank, by step, ascending, without a tenth of the steps at either end.

    The more steps are recorded, the more likely one of them is disturbed.
    """
    times = sorted(wait_by_step(late, found))
    left_out = len(times) // 10
    return times[left_out : len(times) - left_out]
