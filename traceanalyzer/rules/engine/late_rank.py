"""The ranks that others wait for, and their cost, for a finding and for the headline of a run of several ranks.

The trace of one rank cannot show which ranks it waits for; that it waits it can: then one call takes far longer than
others of equal size.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import fsum

import msgspec
from msgspec.structs import replace

from traceanalyzer.analyzers.communication import CollectiveRow, Communication
from traceanalyzer.analyzers.ranks.model import Excess, RankRow, Ranks, Straggler
from traceanalyzer.analyzers.ranks.stragglers import Stragglers
from traceanalyzer.report import units
from traceanalyzer.report.message import Message, Text
from traceanalyzer.rules.engine.change import Interval
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.headlines.step_bound import StepBound, unit
from traceanalyzer.simulation import variation
from traceanalyzer.structure.recording import Recording
from traceanalyzer.structure.typical import mean, rows_of

_MOST_STEPS = 0.75
_MOST_WAITING = 0.5
"""Shares from which ranks are named as late, as in the rule `comm-straggler`."""
_FEW_STEPS = 3
"""In fewer steps, one rank is the later one in all of them by chance: then collectives are counted, as in the rule."""
_COLLECTIVES = 5
"""Least number of collectives, then, in which they cause most of the waiting, as in the rule."""
_ONE = 0.5
"""Largest part of the waiting that one collective may have, then: who was late once, such as at the start of the
recording, is not late again and again (own choice)."""
_WORTH_SAYING = 0.1
"""Share of a step that others must wait for a rank before it is mentioned beside another bound (own choice: half of
what bounds)."""
EXPLAINS = 0.1
"""Least part of the waiting for which it is said what takes longer on late ranks (own choice: less is chance)."""
_STALLS = 0.5
"""Least part of the longer idle time of late ranks that the stalls of their threads must have to be its cause."""

_MOST_RANGES = 6
"""Ranges of missing ranks that are named."""

_LEADS = 0.2
"""Least share of a step that a late rank must cost to bound a run whose ranks each seem bound by something else."""
_LEADS_BESIDE = 0.5
"""Least part of what seems to bound them, then (own choice: the late rank's own work is in that as well)."""

_LATE_CALL = 20
"""So many times as long as the median one of equal size, a call waits (own choice: contention makes few times)."""
_WAITS_HERE = 0.25
"""Least share of a step in which nothing but such waiting happens, that bounds one rank (own choice)."""
_NOTED = 0.05
"""Least share of the collectives' time of a kind and size that counts (own choice)."""
_SEVERAL, _REGULAR = 4, 0.2
"""Least calls of a kind and size in a step, and most of their time beyond the shortest of them, if hardly any of it is
waiting for other ranks (own choice: the one that waits is much longer than the others)."""
_OF_DEVICE = ("gpu", "communication")
"""How bounds begin of which a step's waiting for ranks is a part."""
_PAIRS = frozenset({"send", "recv", "send_recv", "barrier", None})
"""Operations whose waiting is how the program runs, such as that of a stage of a pipeline, and unknown ones."""

_WAITS_FOR_RANK = Text(
    "headline-waits-for-rank",
    "Waiting for another rank in {operation}: {part:part} of {unit}.",
    note="operation is code: all_reduce; part reads: 35 of the 152 ms; unit is in the genitive: each step",
)
_EQUAL_CALLS = Text(
    "detail-equal-calls",
    "Calls of equal size take {usual:ns} in the median, the longest {longest:ns}: bandwidth is not the limit.",
    note="calls of a collective such as all_reduce",
)
_LATE_RANK = Text("headline-late-rank-3", "Rank {rank} makes the others wait {part:part} of each step.")
_LATE_RANK_COSTS = Text(
    "headline-late-rank-costs-3",
    "Rank {rank} holds up the others, which costs {part:part} of each step.",
    note="part reads: 340 of the 625 ms",
)
_LATE_RANKS_COST = Text(
    "headline-late-ranks-cost-2",
    "Ranks {ranks} hold up the others, which costs {part:part} of each step.",
    note="ranks is a list of numbers; part reads: 340 of the 625 ms",
)
_STALLED_RANKS = Text(
    "headline-stalled-ranks-2",
    "Ranks {ranks} hold up the others while their CPU threads stall: {part:part} of each step.",
    note="ranks is a list of numbers; part reads: 340 of the 625 ms",
)
_STALLED_RANK = Text(
    "headline-stalled-rank-2",
    "Rank {ranks} holds up the others while its CPU threads stall: {part:part} of each step.",
    note="ranks is one number; part reads: 340 of the 625 ms",
)
_ALSO_LATE = Text(
    "detail-late-rank",
    "The other ranks wait for rank {rank}, each for {part:part} of a step.",
    note="part reads: 35 of the 152 ms",
)
_ALSO_COSTS = Text(
    "detail-late-rank-costs",
    "The other ranks wait for rank {rank}, which costs {part:part} of a step.",
    note="part reads: 35 of the 152 ms",
)
_ALSO_COST = Text(
    "detail-late-ranks-cost",
    "The other ranks wait for ranks {ranks}, which cost {part:part} of a step.",
    note="part reads: 35 of the 152 ms; ranks is a list of numbers",
)
_WAITS = Text(
    "detail-waits-for-ranks",
    "Of the communication, {part:part} is waiting for other ranks.",
    note="part reads: 35 of the 152 ms",
)
_MISSING = Text("detail-missing-ranks", "Ranks without a trace here: {ranks}.", note="ranks is a list of numbers")
_WAITS_UNKNOWN = Text(
    "detail-missing-ranks-unknown",
    "Ranks without a trace here: {ranks}; so it is unknown how much of the communication is waiting for others.",
    note="ranks is a list of numbers",
)
_CAUSES = {
    "computation": Text(
        "late-computes", "Computation takes {longer:rounded_ns} per step longer there than on other ranks."
    ),
    "loader": Text(
        "late-loads", "Waiting for input takes {longer:rounded_ns} per step longer there than on other ranks."
    ),
    "idle": Text("late-idles", "The GPU is idle for {longer:rounded_ns} per step longer there than on other ranks."),
}
_OWNER = Text(
    "late-owner",
    "There the GPU waits for `{owner}`, {longer:rounded_ns} per step longer than on other ranks.",
    note="there: on the late ranks; owner is a name in the program",
)
_STALLED = Text(
    "late-stalls",
    "Their threads stall {stalls:count} times per step, for up to {longest:rounded_ns}, in operators that take "
    "microseconds.",
    one="Their threads stall {stalls:count} time per step, for {longest:rounded_ns}, in an operator that takes "
    "microseconds.",
    note="their: of the late ranks",
)


def of_ranks(facts: Facts, found: StepBound, communication_ns: float) -> StepBound:
    """The headline of a run of several ranks, with the waiting in it.

    Args:
        facts: Facts of the run; the headline of a single trace stays as it is.
        found: The headline for the mean of all ranks.
        communication_ns: Time per step in which devices only communicate, mean over the ranks.
    """
    ranks = facts.find("ranks", Ranks)
    if ranks is None or not ranks.mean_step_ns:
        return found
    if ranks.has_partial_groups:
        return found.qualified(_WAITS_UNKNOWN if found.bound == "communication" else _MISSING, ranks=missing(ranks))
    told = _with_late(facts, ranks, ranks.mean_step_ns, found, communication_ns)
    return told.qualified(_MISSING, ranks=missing(ranks)) if ranks.missing else told


def of_one(facts: Facts, found: StepBound, communication_ns: float) -> StepBound | None:
    """The headline of one rank some of whose calls take far longer than equal ones: it waits; None where none does.

    Args:
        facts: Facts of the trace.
        found: Its headline without that.
        communication_ns: Time per step in which its device only communicates.
    """
    recording = facts.find("recording", Recording)
    is_worth = communication_ns >= _WAITS_HERE * facts.step_ns > 0
    if recording is None or not is_worth or not found.bound.startswith(_OF_DEVICE):
        return None
    most, row = _longest_wait(facts)
    if row is None or most < _MOST_WAITING * communication_ns:
        return None
    part = communication_ns, facts.step_ns
    message = _WAITS_FOR_RANK(operation=f"`{row.operation}`", part=part, unit=unit(recording))
    said = StepBound("communication", message, communication_ns / facts.step_ns, details=found.details)
    return said.qualified(_EQUAL_CALLS, usual=row.median_ns, longest=row.max_ns)


def collectives(facts: Facts) -> tuple[CollectiveRow, ...]:
    """Collectives on devices in the typical steps, by operation, group, type and size; they must be known."""
    return rows_of(facts.need("communication", Communication))


def last_equally_long(facts: Facts, rows: Iterable[CollectiveRow]) -> bool:
    """Whether calls of one kind and size take about as long, several in a step: few of them can wait for a rank.

    A rank that is late is waited for in the first call, and then all are together.
    """
    every = list(rows)
    total = sum(row.total_ns for row in every)
    shown = [row for row in every if row.total_ns >= _NOTED * total]
    beyond = fsum(row.total_ns - row.calls * row.min_ns for row in shown)
    return bool(shown) and all(row.calls >= _SEVERAL * facts.steps for row in shown) and beyond <= _REGULAR * total


def waited_ns(facts: Facts) -> float:
    """Time per step in ns that calls take beyond equal ones in the trace of one rank, in which it waits; 0 if none."""
    return _longest_wait(facts)[0]


def _longest_wait(facts: Facts) -> tuple[float, CollectiveRow | None]:
    """Time per step in ns that calls of a kind and size take beyond the median one, and their row.

    The row is None where no call takes far longer than equal ones.
    """
    collectives = facts.find("communication", Communication)
    waited = [
        (facts.in_collectives(row.total_ns - row.calls * row.median_ns), row)
        for row in (rows_of(collectives) if collectives else ())
        if row.median_ns and row.max_ns >= _LATE_CALL * row.median_ns and row.operation not in _PAIRS
    ]
    return max(waited, key=lambda each: each[0], default=(0.0, None))


def _with_late(facts: Facts, ranks: Ranks, step: float, found: StepBound, communication_ns: float) -> StepBound:
    """The headline with late ranks, or with the waiting for each other, where all ranks of each group are here."""
    late = named(facts, ranks, communication_ns)
    if late is None:
        return _with_waiting(ranks, found, communication_ns)
    leads = late.wait_ns / step >= max(_LEADS, _LEADS_BESIDE * (found.share or 0.0))
    if leads or found.bound == "communication":
        return _bound_by(late, ranks, step)
    if late.wait_ns >= _WORTH_SAYING * step:
        return _also(late, found, (late.wait_ns, step))
    return found


def _with_waiting(ranks: Ranks, found: StepBound, communication_ns: float) -> StepBound:
    """The headline about communication, with what of it is waiting for ranks."""
    if found.bound != "communication" or ranks.exposed_wait_ns is None or not communication_ns:
        return found
    part = (min(ranks.exposed_wait_ns, communication_ns), communication_ns)
    return found.and_says(_WAITS, part=part)


def _bound_by(late: LateRanks, ranks: Ranks, step: float) -> StepBound:
    """The headline about late ranks, with what takes them longer."""
    part, share = (late.wait_ns, step), late.wait_ns / step
    why = cause(late, ranks)
    if late.is_stalled(ranks):
        text = _STALLED_RANK if len(late.rows) == 1 else _STALLED_RANKS
        found = StepBound("host", text(ranks=late.names, part=part), share)
    elif len(late.rows) > 1:
        found = StepBound("communication", _LATE_RANKS_COST(ranks=late.names, part=part), share)
    else:
        text = _LATE_RANK_COSTS if late.is_replayed else _LATE_RANK
        found = StepBound("communication", text(rank=late.rows[0].rank, part=part), share)
    return found if why is None else replace(found, details=(why,))


def _also(late: LateRanks, found: StepBound, part: tuple[float, float]) -> StepBound:
    """Add late ranks to the headline about something else."""
    if len(late.rows) > 1:
        return found.and_says(_ALSO_COST, ranks=late.names, part=part)
    text = _ALSO_COSTS if late.is_replayed else _ALSO_LATE
    return found.and_says(text, rank=late.rows[0].rank, part=part)


def cause(late: LateRanks, ranks: Ranks) -> Message | None:
    """What takes late ranks longer, as a sentence; None if nothing explains a tenth of the waiting."""
    rows = late.ranks_in(ranks)
    if late.is_stalled(ranks):
        stalls = round(fsum(row.stalls or 0.0 for row in rows) / len(rows))
        return _STALLED(stalls=stalls, longest=max(row.longest_stall_ns or 0.0 for row in rows))
    longest = late.excess
    if longest is None or longest.ns < EXPLAINS * late.wait_ns:
        return None
    if longest.owner is not None and longest.owner_ns is not None:
        return _OWNER(owner=longest.owner, longer=longest.owner_ns)
    return _CAUSES[longest.part](longer=longest.ns)


def named(facts: Facts, found: Ranks, communication_ns: float) -> LateRanks | None:
    """The ranks that cause most of the waiting again and again, if that is most of the communication."""
    late = again(facts, found)
    return late if late is not None and late.caused_ns >= _MOST_WAITING * communication_ns else None


def again(facts: Facts, found: Ranks) -> LateRanks | None:
    """The ranks that cause most of the waiting again and again."""
    late = find(facts, found) if found.counted_steps and found.exposed_wait_ns is not None else None
    return late if late is not None and late.share >= _MOST_WAITING and is_recurrent(late, found) else None


def is_recurrent(
    late: LateRanks,
    found: Ranks,
    most_steps: float = _MOST_STEPS,
    few: float = _FEW_STEPS,
    collectives: float = _COLLECTIVES,
) -> bool:
    """Whether ranks are late in most of the steps, or in few steps in several collectives."""
    if found.counted_steps >= few:
        return mean(sum(row.steps for row in late.rows), found.counted_steps) >= most_steps
    caused = late.caused_ns * found.counted_steps
    return (
        sum(row.collectives for row in late.rows) >= collectives
        and max(row.largest_ns for row in late.rows) <= _ONE * caused
    )


def missing(found: Ranks) -> str:
    """The ranks without a trace, as a list; empty if there are none, or if that is not known."""
    return units.ranges(((part.first, part.last) for part in found.missing or ()), _MOST_RANGES)


class LateRanks(msgspec.Struct, frozen=True):
    """Ranks that others wait for."""

    rows: tuple[Straggler, ...]
    """The one that causes most waiting first."""
    wait_ns: float
    """Time in ns by which they make a step longer: from the replay of all ranks, else how long each other rank waits
    for them."""
    gap_ns: float
    """Part of the waiting in ns that is certainly saved with these ranks: the time by which they are later than the
    next one."""
    is_replayed: bool

    @property
    def names(self) -> str:
        """Their numbers, such as `0, 6`."""
        return units.ranges((rank, rank) for rank in sorted(row.rank for row in self.rows))

    @property
    def share(self) -> float:
        """Share of all waiting (0 to 1) that they cause."""
        return fsum(row.share for row in self.rows)

    @property
    def caused_ns(self) -> float:
        """Waiting per step in ns that they cause, mean over all ranks."""
        return fsum(row.caused_ns for row in self.rows)

    @property
    def excess(self) -> Excess | None:
        """What takes one of them longest beyond the others."""
        return max((row.excess[0] for row in self.rows if row.excess), key=lambda one: one.ns, default=None)

    def ranks_in(self, found: Ranks) -> list[RankRow]:
        """Their rows among all ranks."""
        numbers = {row.rank for row in self.rows}
        return [row for row in found.ranks if row.rank in numbers]

    def is_stalled(self, found: Ranks) -> bool:
        """Whether stalls of their threads explain most of the longer idle time of each, which is the largest excess."""
        stalled = {row.rank: row.stalled_ns or 0.0 for row in self.ranks_in(found)}
        return all(
            bool(row.excess) and row.excess[0].part == "idle" and stalled[row.rank] >= _STALLS * row.excess[0].ns
            for row in self.rows
        )


def find(facts: Facts, found: Ranks) -> LateRanks | None:
    """The late ranks of a run; None if there is none, or the replay names one that causes no exposed waiting.

    Of two equally late ranks neither alone makes a step longer: then it is the one for which others wait longest.
    """
    if len(found.ranks) < 2 or not found.stragglers:
        return None
    others = _over_others(found)
    replayed = facts.find("stragglers", Stragglers)
    if replayed is None or replayed.late_rank is None:
        row = found.stragglers[0]
        return LateRanks((row,), row.caused_ns * others, min(row.gap_ns, row.caused_ns) * others, is_replayed=False)
    numbers = replayed.late_ranks or (replayed.late_rank,)
    rows = tuple(row for row in found.stragglers if row.rank in numbers)
    wait = replayed.late_ranks_ns_per_step if replayed.late_ranks else replayed.late_ns_per_step
    if wait is None or replayed.late_rank not in {row.rank for row in rows}:
        return None
    return LateRanks(rows, wait, min(fsum(row.gap_ns for row in rows) * others, wait), is_replayed=True)


def varied(late: LateRanks, run: Ranks) -> Interval:
    """The gap and the waiting with the standard error of the waiting, which differs from step to step."""
    interval = late.gap_ns, late.wait_ns
    middle = fsum(interval) / 2
    error = variation.of_mean(wait_by_step(late, run))
    low, high = variation.combined(interval, middle, variation.COVERS * error * middle)
    return max(0.0, low), high


def wait_by_step(late: LateRanks, found: Ranks) -> list[float]:
    """How long each other rank waits for the late ranks in each step, mean over the others in ns."""
    others = _over_others(found)
    numbers = {row.rank for row in late.rows}
    return [
        (step.caused_ns or 0.0) * others if step.waited_for in numbers else 0.0
        for step in found.steps
        if step.wait_ns is not None
    ]


def _over_others(found: Ranks) -> float:
    """Factor from a mean over all ranks to the mean over the ranks that wait for one of them."""
    return len(found.ranks) / (len(found.ranks) - 1)


def usual_waits(late: LateRanks, found: Ranks) -> list[float]:
    """How long each other rank waits for the late rank, by step, ascending, without a tenth of the steps at either end.

    The more steps are recorded, the more likely one of them is disturbed.
    """
    times = sorted(wait_by_step(late, found))
    left_out = len(times) // 10
    return times[left_out : len(times) - left_out]
