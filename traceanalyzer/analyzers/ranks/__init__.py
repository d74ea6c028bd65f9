"""How do the ranks of one run compare: who is late, who waits, and how far apart are their clocks?

| module | what it is |
|---|---|
| `rank_facts` | what the trace of one rank says that others must know; in every saved report |
| `member` | one rank, from its trace or its saved report |
| `matching` | the collectives of all ranks, which of them are one and the same, and how far the clocks are apart |
| `waiting` | who waits for whom, and for how long |
| `rows`, `model` | the rows of the answer |
| `strips` | what each rank does at each moment of a typical step |
| `joint_replay`, `stragglers` | a replay of all ranks together, and how much longer a step is than without slow ranks |
| `totals` | results for all ranks in the form of the analyses of one trace |
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import fsum

import numpy as np
from msgspec.structs import replace

from traceanalyzer.analyzers.ranks import matching, rows, strips, waiting
from traceanalyzer.analyzers.ranks.matching import Matched, RankTable
from traceanalyzer.analyzers.ranks.member import Member, of_typical_steps, with_common_steps
from traceanalyzer.analyzers.ranks.model import UNMATCHED, Matching, RankRange, RankRow, Ranks
from traceanalyzer.analyzers.ranks.rows import RankRun
from traceanalyzer.report import units
from traceanalyzer.structure.recording.left_out import ALLOCATION
from traceanalyzer.trace.model import Loss
from traceanalyzer.trace.table import I64

_LIST = re.compile(r"\[\s*\d+(?:\s*,\s*\d+)*\s*\]")
_UNEVEN = 0.2
"""Part of a typical step by which a step that is left out must be longer, or in which one rank must wait at once, to be
told (own choice: as steps are left out)."""
_NAMED_STEPS = 3
_RANGES = 12
"""Named in a text; the result has all."""
__all__ = [
    "Ranks",
    "damaged",
    "doubts",
    "join",
    "of_every_step",
    "of_typical_steps",
    "uneven",
    "with_common_steps",
]


def join(members: Mapping[int, Member], world_size: int | None = None) -> Ranks:
    """Compare ranks.

    Args:
        members: By rank, in any order.
        world_size: Number of ranks by the traces; None: found from the largest process group.
    """
    run, matching_result = _matched_run(members)
    ranks = rows.ranks(run)
    world = world_size or _world_of(members)
    waits = run.waits
    return Ranks(
        world_size=world,
        missing=None if world is None else _missing(run.numbers, world),
        ranks=ranks,
        steps=rows.steps(run),
        counted_steps=len(rows.counted_steps(run)),
        mean_step_ns=_mean_step_ns(run),
        wait_ns=_per_step(run, waits.wait),
        exposed_wait_ns=_per_step(run, waits.exposed) if rows.tells_exposed(run) else None,
        transfer_ns=_per_step(run, waits.transfer),
        imbalance=_imbalance(ranks),
        is_on_host=any(member.facts.is_on_host for member in run.members),
        has_clocks=run.table.has_clocks,
        matching=matching_result,
        left_out=sum(member.facts.left_out for member in run.members),
        groups=rows.groups(run),
        stragglers=rows.stragglers(run, ranks),
        link=rows.link(run),
        exchanges=rows.exchanges(run),
        typical_step=strips.strips(run),
        **rows.beginning(run),
        control_step_ns=_mean([member.facts.control_step_ns for member in run.members]),
        profiled_step_ns=_mean([member.facts.profiled_step_ns for member in run.members]),
    )


def _matched_run(members: Mapping[int, Member]) -> tuple[RankRun, Matching]:
    """The ranks with their collectives on one clock and the waits in them, and how many were matched."""
    numbers = tuple(sorted(members))
    ordered = [members[rank] for rank in numbers]
    table = matching.table_of([member.facts for member in ordered])
    candidates = matching.match(table)
    matched, clocks = matching.check_clocks(table, candidates)
    if _unequal(table, matched) < _unequal(table, candidates):  # a wrong order somewhere: their shapes must agree
        candidates = matching.match(table, same_shapes=True)
        matched, clocks = matching.check_clocks(table, candidates)
    start, _ = matching.aligned(table, matched, clocks)
    matched, waits = waiting.measure_waits(table, matched, start)
    start, end = matching.aligned(table, matched, clocks)
    blame = waiting.blame(table, matched, waits, end)
    return RankRun(numbers, ordered, table, matched, waits, blame, clocks, start), _matching(table, candidates, matched)


def _mean_step_ns(run: RankRun) -> float | None:
    """The mean duration of all steps of all ranks; None without any."""
    durations = [duration for member in run.members for duration in member.facts.steps.duration_ns]
    return sum(durations) / len(durations) if durations else None


def _per_step(run: RankRun, times: I64) -> float | None:
    """The sum per step of a time that each matched collective has; None where none was matched."""
    if not run.matched.count or not run.steps:
        return None
    return int(times[run.waits.counts].sum()) / run.steps


def _mean(times: Sequence[int | None]) -> float | None:
    """The mean where each rank has a value."""
    known = [time for time in times if time is not None]
    return sum(known) / len(known) if known and len(known) == len(times) else None


def of_every_step(typical: Ranks, every: Ranks) -> Ranks:
    """The figures per step of some steps, with the tables of steps and groups, and the counts of matching, of all."""
    rows = zip(typical.ranks, every.ranks, strict=True)
    ranks = tuple(replace(row, steps=whole.steps) for row, whole in rows)
    counted = {step.name for step in typical.steps}
    steps = tuple(replace(step, counts=step.name in counted) for step in every.steps)
    shown = ("groups", "matching", "left_out", "start_wait_ns", "start_rank")
    tables = {name: getattr(every, name) for name in shown}
    return replace(typical, ranks=ranks, steps=steps, **tables)


def _unequal(table: RankTable, matched: Matched) -> int:
    """Number of rows of unequal parts that were matched by their order."""
    return int((~table.is_even[matched.rows] & ~matched.by_sequence).sum())


def _matching(table: RankTable, candidates: Matched, matched: Matched) -> Matching:
    mutual = int(table.is_mutual.sum()) if len(table) else 0
    return Matching(
        recorded=len(table),
        matched=len(matched.rows),
        by_sequence=int(matched.by_sequence.sum()),
        not_mutual=len(table) - mutual,
        unmatched=mutual - len(candidates.rows),
        contradicted=len(candidates.rows) - len(matched.rows),
    )


def _imbalance(ranks: Sequence[RankRow]) -> float | None:
    """Null unless it is known of several ranks."""
    own = [row.own_ns for row in ranks if row.own_ns is not None]
    return max(own) / float(np.mean(own)) - 1 if len(own) > 1 and any(own) else None


def _world_of(members: Mapping[int, Member]) -> int | None:
    """At least as many ranks as the largest process group has, and as the highest rank says."""
    groups = [group for member in members.values() for group in member.facts.groups]
    sizes = [group.size for group in groups if group.size is not None]
    lists = [group.ranks for group in groups if group.ranks is not None and _LIST.fullmatch(group.ranks)]
    named = [max(map(int, re.findall(r"\d+", ranks))) + 1 for ranks in lists]
    known = [*sizes, *named]
    return max(*known, max(members) + 1) if known else None


def _missing(here: Sequence[int], world: int) -> tuple[RankRange, ...]:
    known = [rank for rank in here if rank < world]
    before = [-1, *known]
    after = [*known, world]
    return tuple(RankRange(a + 1, b - 1) for a, b in zip(before, after, strict=True) if b - a > 1)


def doubts(ranks: Ranks) -> Iterator[Loss]:
    """Count all doubts, in a fixed order."""
    if len(ranks.ranks) == 1:
        yield Loss("q-ranks-one", 1)
    if ranks.missing and ranks.world_size:
        count = sum(part.last - part.first + 1 for part in ranks.missing)
        yield Loss("q-ranks-missing", count, {"world": ranks.world_size, "ranks": ranges(ranks.missing)})
    if ranks.missing is None:
        yield Loss("q-ranks-world-unknown", 1)
    matching = ranks.matching
    mutual = matching.recorded - matching.not_mutual
    lost = matching.unmatched + matching.contradicted
    if len(ranks.ranks) > 1 and lost > UNMATCHED * mutual:
        yield Loss("q-ranks-unmatched", lost, {"all": mutual})
    if matching.matched and not ranks.has_clocks:
        yield Loss("q-ranks-no-clock", 1)
    if ranks.left_out:
        yield Loss("q-ranks-left-out", ranks.left_out)


def uneven(ranks: Ranks) -> Iterator[Loss]:
    """What is said once of steps that are left out on all ranks: why, and a long waiting of one rank in them."""
    if ranks.start_wait_ns:
        yield Loss("q-ranks-start", 1, {"rank": ranks.start_rank, "wait": ranks.start_wait_ns})
    others = [step for step in ranks.steps if not step.counts]
    usual = [step.mean_ns for step in ranks.steps if step.counts]
    for step in others[:_NAMED_STEPS] if usual else ():
        typical = fsum(usual) / len(usual)
        text = "q-ranks-step-allocation" if step.reason == ALLOCATION else "q-ranks-step-uneven"
        if abs(step.mean_ns - typical) > _UNEVEN * typical:
            yield Loss(text, 1, {"step": step.name, "time": step.mean_ns, "typical": typical})
        if (step.longest_wait_ns or 0) > _UNEVEN * typical:
            params = {
                "step": step.name,
                "rank": step.longest_wait_rank,
                "wait": step.longest_wait_ns,
            }
            yield Loss("q-ranks-wait-once", 1, {**params, "operation": step.longest_wait_in or ""})


def damaged(members: Mapping[int, Member]) -> tuple[Loss, ...]:
    """Count the ranks of which events are missing because their file is damaged.

    Args:
        members: By rank.
    """
    ranks = [rank for rank, member in sorted(members.items()) if member.is_damaged]
    shown = units.ranges(((rank, rank) for rank in ranks), _RANGES)
    return (Loss("q-ranks-damaged", len(ranks), {"all": len(members), "ranks": shown}),) if ranks else ()


def ranges(missing: Sequence[RankRange]) -> str:
    """Write the first ranges of missing ranks as text, such as `2, 5-127`."""
    return units.ranges(((part.first, part.last) for part in missing), _RANGES)
