"""The rank that others wait for, and its cost, for a finding and for the headline of a run of several ranks.

The trace of one rank cannot show how long it waits for others.
"""

from __future__ import annotations

import msgspec

from traceanalyzer.analyzers.ranks.model import Ranks, Straggler
from traceanalyzer.analyzers.ranks.stragglers import Stragglers
from traceanalyzer.report.message import Message, Text
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.headlines.typical import StepBound

_MOST_STEPS = 0.75
_MOST_WAITING = 0.5
"""Shares from which a rank is named as late, as in the rule `comm-straggler`."""
_WORTH_SAYING = 0.1
"""Share of a step that others must wait for a rank before it is mentioned beside another bound (own choice: half of
what bounds)."""

_LEADS = 0.2
"""Least share of a step that a late rank must cost to bound a run whose ranks each seem bound by something else."""
_LEADS_BESIDE = 0.5
"""Least part of what seems to bound them, then (own choice: the late rank's own work is in that as well)."""

_LATE_RANK = Text(
    "headline-late-rank-2",
    "Bound by one late rank: the others wait for rank {rank}, each for {part:part} of each step.",
)
_LATE_RANK_COSTS = Text(
    "headline-late-rank-costs-2",
    "Bound by one late rank: the others wait for rank {rank}, which costs {part:part} of each step.",
)
_ALSO_LATE = Text(
    "headline-also-late-rank",
    "{headline} The other ranks wait for rank {rank}, each for {part:part} of a step.",
    note="headline is a sentence; part reads: 21 % of the 150 ms",
)
_ALSO_COSTS = Text(
    "headline-also-late-rank-costs",
    "{headline} The other ranks wait for rank {rank}, which costs {part:part} of a step.",
    note="headline is a sentence; part reads: 21 % of the 150 ms",
)
_WAITS = Text(
    "headline-of-ranks-waits",
    "{headline} Of its communication, {part:part} is waiting for other ranks.",
    note="headline is a sentence; part reads: 21 % of the 150 ms; its is that of the GPU",
)


def of_ranks(facts: Facts, found: StepBound, communication_ns: float) -> StepBound:
    """The headline of a run of several ranks, with the waiting in it.

    Args:
        facts: Facts of the run; the headline of a single trace stays as it is.
        found: The headline for the mean of all ranks.
        communication_ns: Time per step in which devices only communicate, mean over the ranks.
    """
    ranks = facts.find("ranks", Ranks)
    late = named_rank(facts, ranks, communication_ns) if ranks is not None else None
    step = ranks.mean_step_ns if ranks is not None else None
    if ranks is None or not step:
        return found
    wait = 0.0 if late is None else late.wait_ns
    leads = found.bound == "communication" or wait / step >= max(_LEADS, _LEADS_BESIDE * (found.share or 0.0))
    if late is not None and leads:
        text = _LATE_RANK_COSTS if late.is_replayed else _LATE_RANK
        message: Message = text(rank=late.row.rank, part=(wait, step))
        return StepBound("communication", message, wait / step)
    message = found.message
    if late is not None and wait >= _WORTH_SAYING * step:
        text = _ALSO_COSTS if late.is_replayed else _ALSO_LATE
        message = text(headline=message, rank=late.row.rank, part=(wait, step))
    elif found.bound == "communication" and ranks.exposed_wait_ns is not None and communication_ns:
        part = (min(ranks.exposed_wait_ns, communication_ns), communication_ns)
        message = _WAITS(headline=message, part=part)
    return StepBound(found.bound, message, found.share)


def named_rank(facts: Facts, found: Ranks, communication_ns: float) -> LateRank | None:
    """The rank that causes most of the waiting in most of the steps, if that is most of the communication."""
    late = find(facts, found) if found.counted_steps and found.exposed_wait_ns is not None else None
    if late is None:
        return None
    row = late.row
    is_late = row.share >= _MOST_WAITING and row.steps >= _MOST_STEPS * found.counted_steps
    return late if is_late and row.caused_ns >= _MOST_WAITING * communication_ns else None


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
