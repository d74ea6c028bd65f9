"""Adds to the headline of several ranks how long they wait for each other, which the trace of one rank cannot show."""

from __future__ import annotations

from traceanalyzer.analyzers.ranks.model import Ranks
from traceanalyzer.report.message import Message, Text
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.headlines.typical import StepBound
from traceanalyzer.rules.engine.late_rank import LateRank, find

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
    "headline-late-rank",
    "Bound by one late rank: the others wait for rank {rank}, each for {wait:ns} of each step of {step:ns} "
    "({share:share}).",
)
_LATE_RANK_COSTS = Text(
    "headline-late-rank-costs",
    "Bound by one late rank: the others wait for rank {rank}, which costs {wait:ns} of each step of {step:ns} "
    "({share:share}).",
)
_ALSO_LATE = Text(
    "headline-also-late-rank",
    "{headline} The other ranks wait for rank {rank}, each for {part:part} of a step.",
    note="headline is a sentence; part reads: 31 of 149 ms (21 %)",
)
_ALSO_COSTS = Text(
    "headline-also-late-rank-costs",
    "{headline} The other ranks wait for rank {rank}, which costs {part:part} of a step.",
    note="headline is a sentence; part reads: 31 of 149 ms (21 %)",
)
_WAITS = Text(
    "headline-of-ranks-waits",
    "{headline} Of its communication, {part:part} is waiting for other ranks.",
    note="headline is a sentence; part reads: 31 of 149 ms (21 %); its is that of the GPU",
)


def of_ranks(facts: Facts, found: StepBound, communication_ns: float) -> StepBound:
    """The headline of a run of several ranks, with the waiting in it.

    Args:
        facts: Facts of the run; the headline of a single trace stays as it is.
        found: The headline for the mean of all ranks.
        communication_ns: Time per step in which devices only communicate, mean over the ranks.
    """
    ranks = facts.find("ranks", Ranks)
    late = late_rank(facts, ranks, communication_ns) if ranks is not None else None
    step = ranks.mean_step_ns if ranks is not None else None
    if ranks is None or not step:
        return found
    wait = 0.0 if late is None else late.wait_ns
    if late is not None and _leads(found, wait / step):
        text = _LATE_RANK_COSTS if late.is_replayed else _LATE_RANK
        message: Message = text(rank=late.row.rank, wait=wait, step=step, share=wait / step)
        return StepBound("communication", message, wait / step)
    message = found.message
    if late is not None and wait >= _WORTH_SAYING * step:
        text = _ALSO_COSTS if late.is_replayed else _ALSO_LATE
        message = text(headline=message, rank=late.row.rank, part=(wait, step))
    elif found.bound == "communication" and ranks.exposed_wait_ns is not None and communication_ns:
        part = (min(ranks.exposed_wait_ns, communication_ns), communication_ns)
        message = _WAITS(headline=message, part=part)
    return StepBound(found.bound, message, found.share)


def _leads(found: StepBound, share: float) -> bool:
    """Whether a late rank that costs this share of a step is what bounds the run."""
    return found.bound == "communication" or share >= max(_LEADS, _LEADS_BESIDE * (found.share or 0.0))


def late_rank(facts: Facts, found: Ranks, communication_ns: float) -> LateRank | None:
    """The rank that causes most of the waiting in most of the steps, if that is most of the communication."""
    late = find(facts, found) if found.counted_steps and found.exposed_wait_ns is not None else None
    if late is None:
        return None
    row = late.row
    is_late = row.share >= _MOST_WAITING and row.steps >= _MOST_STEPS * found.counted_steps
    return late if is_late and row.caused_ns >= _MOST_WAITING * communication_ns else None
