"""How do the ranks of one run compare: who is late, who waits, and how far apart are their clocks?

| module | what it is |
|---|---|
| `member` | one rank, from its trace or its saved report |
| `table`, `matching` | the collectives of all ranks, and which of them are one and the same |
| `clocks` | how far the clocks are apart |
| `waits` | who waits for whom |
| `rows`, `model`, `doubts` | the answer, and how far it can be trusted |
| `typical` | the typical steps of all ranks as one |
| `stragglers` | how much longer a step is than without slow ranks |
| `meetings`, `joint_program`, `joint_replay` | where ranks meet, what each does, and a replay |
| `joint_run` | all of that for a run, or why it cannot be replayed |
| `totals` | results for all ranks in the form of the analyses of one trace |
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from traceanalyzer.analyzers.ranks import clocks, matching, rows, waits
from traceanalyzer.analyzers.ranks import table as tables
from traceanalyzer.analyzers.ranks.counted_steps import with_common_steps
from traceanalyzer.analyzers.ranks.doubts import damaged, doubts
from traceanalyzer.analyzers.ranks.matching import Matched
from traceanalyzer.analyzers.ranks.member import Member
from traceanalyzer.analyzers.ranks.model import Matching, RankRange, RankRow, Ranks
from traceanalyzer.analyzers.ranks.rows import RankRun
from traceanalyzer.analyzers.ranks.table import RankTable
from traceanalyzer.analyzers.ranks.typical import of_typical_steps

__all__ = ["Ranks", "damaged", "doubts", "join", "of_typical_steps", "with_common_steps"]

_LIST = re.compile(r"\[\s*\d+(?:\s*,\s*\d+)*\s*\]")


def join(members: Mapping[int, Member], world_size: int | None = None) -> Ranks:
    """Compare ranks.

    Args:
        members: By rank, in any order.
        world_size: Number of ranks by the traces; None: found from the largest process group.
    """
    numbers = tuple(sorted(members))
    ordered = [members[rank] for rank in numbers]
    table = tables.build([member.facts for member in ordered])
    candidates = matching.match(table)
    matched, offsets = clocks.check(table, candidates)
    if _unequal(table, matched) < _unequal(table, candidates):  # a wrong order somewhere: their shapes must agree
        candidates = matching.match(table, same_shapes=True)
        matched, offsets = clocks.check(table, candidates)
    start, _ = clocks.aligned(table, matched, offsets)
    matched, measured = waits.measure(table, matched, start)
    _, end = clocks.aligned(table, matched, offsets)
    run = RankRun(numbers, ordered, table, matched, measured, waits.blame(table, matched, measured, end), offsets)
    found = rows.ranks(run)
    world = world_size or _world_of(members)
    total, exposed = int(measured.wait[measured.counts].sum()), int(measured.exposed[measured.counts].sum())
    transfer = int(measured.transfer[measured.counts].sum())
    steps, is_on_host = run.steps, any(member.facts.is_on_host for member in ordered)
    durations = [d for member in ordered for d in member.facts.steps.duration_ns]
    wait, exposed_wait, transferring = (
        time / steps if matched.count and steps else None for time in (total, exposed, transfer)
    )
    return Ranks(
        world_size=world,
        missing=None if world is None else _missing(numbers, world),
        ranks=found,
        steps=rows.steps(run),
        counted_steps=len(rows.counted_steps(run)),
        mean_step_ns=sum(durations) / len(durations) if durations else None,
        wait_ns=wait,
        exposed_wait_ns=exposed_wait if rows.tells_exposed(run) else None,
        transfer_ns=transferring,
        imbalance=_imbalance(found),
        is_on_host=is_on_host,
        has_clocks=table.has_clocks,
        matching=_matching(table, candidates, matched),
        left_out=sum(member.facts.left_out for member in ordered),
        groups=rows.groups(run),
        stragglers=rows.stragglers(run, found),
    )


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


def _imbalance(found: Sequence[RankRow]) -> float | None:
    """Null unless it is known of several ranks."""
    own = [row.own_ns for row in found if row.own_ns is not None]
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
    before, after = [-1, *known], [*known, world]
    return tuple(RankRange(a + 1, b - 1) for a, b in zip(before, after, strict=True) if b - a > 1)
