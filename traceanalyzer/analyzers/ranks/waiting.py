"""Who waits for whom, and for how long? Measures waiting in collectives, and charges it to the ranks that cause it.

In a mutual collective the rank that comes last has the shortest duration: it only transfers. Every other rank waits for
the rest of its own duration. Durations need no common clock.

Where parts may be unequal, a longer duration may be a longer transfer. There the rank that starts last, by a common
clock, came last, and no other waits for longer than until that start.

A rank may be late only because it waited for another one before, in a smaller group. So each rank has an account of how
much every other rank has delayed it, and waiting is charged to the ranks that delayed the last one.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.analyzers.ranks.matching import Matched, RankTable
from traceanalyzer.structure.sums import members
from traceanalyzer.trace.table import F64, I64, UNKNOWN, Bool

_MOST_RANKS = 512
"""With more, the last rank of each collective is the cause (own choice: the matrix of delays has their square)."""
_OTHERS = 4
"""Least number of other collectives that show how long ranks usually wait (own choice)."""
_FAR_LONGER = 3
"""Times by which ranks must wait longer in the first collective than in any other (own choice)."""


class RankWaits(msgspec.Struct, frozen=True):
    """Waits of each matched row, in the order of `Matched.rows`; times in ns."""

    wait: I64
    """Duration beyond the shortest of the collective; of unequal parts only until the last rank has started."""
    exposed: I64
    """Part of the wait in which no other kernel runs; all of it where that is not known."""
    transfer: I64
    """The shortest duration of the collective; of unequal parts what remains of the rank's own."""
    is_last: Bool
    """Whether it is the only rank that waits for no other; false for all ranks where two do not wait."""
    counts: Bool
    """Whether it was called within a step, not at the start of the recording; means per step are over these."""
    at_start: Bool
    """Whether ranks wait in it because one of them began its recording later."""


class Blame(msgspec.Struct, frozen=True):
    """Exposed waiting by the rank that caused it, in ns, summed over the ranks that wait."""

    by_step: F64
    """Matrix of steps of the table by ranks."""
    by_kind: F64
    """Matrix of kinds of the table by ranks."""
    gap: F64
    """For each rank, the waiting that is saved if it comes no later than the next one."""
    led: I64
    """For each rank, the number of collectives in which it causes more waiting than any other."""
    largest: F64
    """For each rank, the waiting that it causes in one collective, at most."""


def measure_waits(table: RankTable, matched: Matched, start_ns: I64) -> tuple[Matched, RankWaits]:
    """Measure the waits of all matched collectives.

    Args:
        table: The collectives.
        matched: Those that several ranks have.
        start_ns: When each row starts, by a common clock.

    Returns:
        The matched rows, in each collective the rank that came last first; and the waits in this order.
    """
    dur = table.dur_ns[matched.rows]
    is_even = table.is_even[matched.rows]
    before_last = matched.most(start_ns) - start_ns
    wait = dur - dur[matched.opens][matched.collective]
    wait = np.where(is_even, wait, np.minimum(wait, before_last))
    order = np.lexsort((table.member[matched.rows], np.where(is_even, 0, before_last), wait, matched.collective))
    ordered = matched.ordered(order)
    dur = dur[order]
    wait = wait[order]
    exposed = table.exposed_ns[ordered.rows]
    is_first = np.zeros(len(dur), np.bool_)
    is_first[ordered.opens] = True
    # of unequal parts the one that starts last came last, even if another sent less and so did not wait either
    later = np.where(is_even[order], wait, before_last[order])
    at_start = _at_start(table, ordered, wait)
    return ordered, RankWaits(
        wait=wait,
        exposed=np.where(exposed == UNKNOWN, wait, np.minimum(wait, exposed)),
        transfer=dur - wait,
        at_start=at_start,
        is_last=is_first & (np.append(later[1:], 0) > 0),
        counts=(table.step[ordered.rows] != UNKNOWN) & ~at_start,
    )


def _at_start(table: RankTable, matched: Matched, wait: I64) -> Bool:
    """Rows of the first collective of each group, if ranks wait in it far longer than in all others.

    Profilers do not begin at once on all ranks: who begins later comes later, once.
    """
    at_start = np.zeros(len(wait), np.bool_)
    if not matched.count or not table.begins:
        return at_start
    opens = matched.opens
    longest = np.maximum.reduceat(wait, opens)
    first_start = np.minimum.reduceat(table.start_ns[matched.rows], opens)
    for _, of_group in members(table.group[matched.rows[opens]]):
        first = of_group[first_start[of_group].argmin()]
        others = of_group[of_group != first]
        if len(others) >= _OTHERS and longest[first] > _FAR_LONGER * longest[others].max():
            at_start |= matched.collective == first
    return at_start


def blame(table: RankTable, matched: Matched, waits: RankWaits, end_ns: I64) -> Blame:
    """Find the cause of every wait.

    Args:
        table: The collectives.
        matched: Those that several ranks have.
        waits: Their waits.
        end_ns: When each row ends, by a common clock.
    """
    members = table.member[matched.rows]
    bounds = np.append(matched.opens, len(members)).tolist()
    sums = Blame(
        by_step=np.zeros((len(table.steps), table.members)),
        by_kind=np.zeros((len(table.kinds), table.members)),
        gap=np.zeros(table.members),
        led=np.zeros(table.members, np.int64),
        largest=np.zeros(table.members),
    )
    delays = _Delays(table.members)
    by_end = np.argsort(end_ns[matched.opens], kind="stable") if matched.count else np.zeros(0, np.int64)
    for number in by_end.tolist():
        rows = slice(bounds[number], bounds[number + 1])
        wait = waits.exposed[rows][1:].astype(np.float64)
        causes = delays.meet(members[rows], wait)
        if waits.counts[rows.start]:
            first = matched.rows[rows.start]
            lead = float(waits.wait[rows.start + 1])
            _add(sums, int(table.step[first]), int(table.kind[first]), causes, _spared(wait, lead))
    return sums


def _spared(wait: F64, lead: float) -> F64:
    """Of each wait the share that would go if the last rank came as early as the one before it."""
    return np.divide(np.minimum(wait, lead), wait, out=np.zeros_like(wait), where=wait > 0)


def _add(sums: Blame, step: int, kind: int, causes: F64, spared: F64) -> None:
    """Add the causes of the waits in one collective, by rank that waits and rank that causes."""
    caused = causes.sum(axis=0)
    sums.by_step[step] += caused
    sums.by_kind[kind] += caused
    sums.gap[:] += spared @ causes
    sums.led[int(caused.argmax())] += bool(caused.any())
    np.maximum(sums.largest, caused, out=sums.largest)


class _Delays:
    """How much each rank (row) has been delayed so far by each other rank (column)."""

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks
        self._by: F64 | None = np.zeros((ranks, ranks)) if ranks <= _MOST_RANKS else None

    def meet(self, members: I64, wait: F64) -> F64:
        """All wait for the first.

        Args:
            members: Ranks of a collective, the one that came last first.
            wait: How long the others wait, in ns.

        Returns:
            For each of the others the causes of its wait, by rank.
        """
        last = int(members[0])
        others = members[1:]
        if self._by is None:
            direct = np.zeros((len(others), self._ranks))
            direct[:, last] = wait
            return direct
        inherited = np.clip(self._by[last] - self._by[others], 0.0, None)
        total = inherited.sum(axis=1)
        share = np.minimum(1.0, np.divide(wait, total, out=np.ones_like(wait), where=total > 0))
        causes: F64 = inherited * share[:, None]
        causes[:, last] += np.maximum(0.0, wait - total)
        self._by[others] += causes
        self._by[last, last] = max(float(self._by[last, last]), float(self._by[others, last].max(initial=0.0)))
        return causes
