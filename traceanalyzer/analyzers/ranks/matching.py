"""Which collectives of different ranks are one and the same, and how far are the clocks of the ranks apart?

Collectives are matched by their number within the process group, where it is recorded. Else by order: the i-th of its
kind (operation, group, size) within the step that called it, where all ranks have equally many of the kind. Sizes do
not count where parts may be unequal: then each rank has its own. Recordings do not begin at once on all ranks, so in
the first step the i-th from its end are compared, and clocks show whether they are the same.

A mutual collective in which all send as much ends on all ranks at nearly the same time. What clocks differ by is the
median, over the collectives that two ranks have in common, of the difference of the ends. Ranks that have none in
common are compared along a chain of ranks that have: each group's members with its lowest rank, over the pairs with the
most collectives first.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from traceanalyzer.analyzers.ranks.model import Skew
from traceanalyzer.analyzers.ranks.rank_facts import CollectiveKind, ProcessGroup, RankFacts, RankSteps
from traceanalyzer.structure.sums import count_by, group
from traceanalyzer.trace.distinct import ranked
from traceanalyzer.trace.strings import StringPool
from traceanalyzer.trace.table import I64, UNKNOWN, Bool

_SLACK_NS = 1_000_000
"""Own choice: ends of one collective differ by tens of microseconds, collectives that are mistaken for each other by
milliseconds."""
_SLACK_FROM_END_NS = 100_000
"""Own choice: where nothing but clocks shows that two are the same, they must hardly be apart."""
_BEGINS = 0.5
"""A step begins with the recording if less than half of its duration was recorded before it (own choice)."""
_NORMAL_95 = 1.96


class RankTable(msgspec.Struct, frozen=True):
    """Collectives as columns, rank by rank, each in the order of calls; -1 is unknown."""

    member: I64
    """Position of the rank of each collective."""
    kind: I64
    sequence: I64
    step: I64
    start_ns: I64
    """Since the first event of the first rank, by the clock of the rank; without clocks since its own first event."""
    dur_ns: I64
    exposed_ns: I64
    """Exposed part of each duration in ns; -1 where unknown."""
    kinds: tuple[CollectiveKind, ...]
    """Kinds of collectives, with positions in `groups`."""
    groups: tuple[ProcessGroup, ...]
    steps: tuple[str, ...]
    members: int
    has_clocks: bool
    begins: bool = False
    """Whether the first step of some rank begins with the recording."""

    def __len__(self) -> int:
        return len(self.member)

    @property
    def end_ns(self) -> I64:
        """Time at which each collective ends, in ns."""
        return self.start_ns + self.dur_ns

    @property
    def group(self) -> I64:
        """The process group of each row."""
        return np.array([kind.group for kind in self.kinds] or [0], np.int64)[self.kind]

    @property
    def is_mutual(self) -> Bool:
        """Which collectives no rank can finish before all have come, if waiting can be distinguished from sending.

        Where parts are unequal, the starts show it, which needs the clocks of all ranks.
        """
        told = [kind.is_mutual and (kind.is_even or self.has_clocks) for kind in self.kinds]
        return np.array(told or [False], np.bool_)[self.kind]

    @property
    def is_even(self) -> Bool:
        """In which collectives every rank sends as much as any other."""
        return np.array([kind.is_even for kind in self.kinds] or [True], np.bool_)[self.kind]


def table_of(members: Sequence[RankFacts]) -> RankTable:
    """Put the columns of the ranks under common kinds, groups and steps."""
    pools = _Pools(StringPool(), StringPool(), StringPool())
    clocks = [facts.clock_ns for facts in members if facts.clock_ns is not None]
    has_clocks = len(clocks) == len(members) > 0
    parts = []
    for position, facts in enumerate(members):
        origin = (facts.clock_ns or 0) - min(clocks) if has_clocks else 0
        parts.append(pools.columns(facts, position, origin))
    return RankTable(
        **{name: np.concatenate([part[name] for part in parts]) for name in parts[0]},
        kinds=tuple(pools.kinds.values()),
        groups=tuple(pools.groups.values()),
        steps=tuple(pools.steps.values()),
        members=len(members),
        has_clocks=has_clocks,
        begins=any(_begins(facts.steps) for facts in members),
    )


def _begins(steps: RankSteps) -> bool:
    """Whether the recording of a rank begins with its first step."""
    return bool(steps.start_ns) and steps.start_ns[0] < _BEGINS * steps.duration_ns[0]


class _Pools(NamedTuple):
    """Kinds, groups and steps of all ranks."""

    kinds: StringPool[CollectiveKind]
    groups: StringPool[ProcessGroup]
    steps: StringPool[str]

    def columns(self, facts: RankFacts, position: int, origin: int) -> dict[str, I64]:
        """The columns of a rank; `origin` turns its times into those of the common clock."""
        collectives = facts.collectives
        groups = [self.groups.encode(group) for group in facts.groups]
        kinds = [self.kinds.encode(replace(kind, group=groups[kind.group])) for kind in facts.kinds]
        steps = [self.steps.encode(name) for name in facts.steps.name]
        return {
            "member": np.full(len(collectives.kind), position, np.int64),
            "kind": _coded(collectives.kind, kinds),
            "sequence": _known(collectives.sequence),
            "step": _coded(collectives.step, steps),
            "start_ns": np.array(collectives.start_ns, np.int64) + origin,
            "dur_ns": np.array(collectives.duration_ns, np.int64),
            "exposed_ns": _known(collectives.exposed_ns),
        }


def _known(values: Sequence[int | None]) -> I64:
    return np.array([UNKNOWN if value is None else value for value in values], np.int64)


def _coded(positions: Sequence[int | None], codes: list[int]) -> I64:
    return np.array([UNKNOWN if place is None else codes[place] for place in positions], np.int64)


_BY_ROW = ("rows", "collective", "by_sequence", "from_end")
"""Columns of what is matched."""


class Matched(msgspec.Struct, frozen=True):
    """Rows of collectives that several ranks have."""

    rows: I64
    """Ordered by collective, then by duration (by waiting after `measure_waits`): the rank that came last is the first
    of its collective."""
    collective: I64
    """Number of the collective of each row, 0..count-1."""
    count: int
    by_sequence: Bool
    """Whether each row was matched by its recorded number."""
    from_end: Bool
    """Whether each row was matched by its place before the end of the first step."""

    @property
    def opens(self) -> I64:
        """Where each collective begins."""
        return np.searchsorted(self.collective, np.arange(self.count))

    def least(self, values: I64) -> I64:
        """For each row the least value of its collective."""
        return np.minimum.reduceat(values, self.opens)[self.collective] if self.count else values

    def most(self, values: I64) -> I64:
        """For each row the greatest value of its collective."""
        return np.maximum.reduceat(values, self.opens)[self.collective] if self.count else values

    def ordered(self, order: I64) -> Matched:
        """Put the rows into another order; each stays within its collective."""
        return replace(self, **{name: getattr(self, name)[order] for name in _BY_ROW})

    def only(self, kept: Bool) -> Matched:
        """Keep some of the collectives."""
        chosen = kept[self.collective]
        number = np.cumsum(kept) - 1
        columns = {name: getattr(self, name)[chosen] for name in _BY_ROW}
        return Matched(**{**columns, "collective": number[columns["collective"]]}, count=int(kept.sum()))


def match(table: RankTable, *, same_shapes: bool = False) -> Matched:
    """All collectives that at least two ranks have.

    Args:
        table: The collectives of all ranks.
        same_shapes: Whether those of unequal parts are only matched if their shapes are the same on all ranks.
    """
    is_numbered = table.sequence != UNKNOWN
    numbered = np.flatnonzero(table.is_mutual & is_numbered)
    ordered = np.flatnonzero(table.is_mutual & ~is_numbered & (table.step != UNKNOWN))
    alike = table.kind if same_shapes else _alike(table)
    equal = _equally_many(table, alike, ordered)
    from_end = ordered[~equal & (table.step[ordered] == 0) & table.has_clocks][::-1]
    ordered = ordered[equal]
    rows, collective = _shared(
        (numbered, _occurrence(table, numbered, table.group, _operation(table), table.sequence)),
        (ordered, _occurrence(table, ordered, alike, table.step)),
        (from_end, _occurrence(table, from_end, alike)),
    )
    order = np.lexsort((table.member[rows], table.dur_ns[rows], collective))
    rows = rows[order]
    return Matched(
        rows=rows,
        collective=collective[order],
        count=int(collective.max(initial=-1)) + 1,
        by_sequence=is_numbered[rows],
        from_end=np.isin(rows, from_end),
    )


def _shared(*parts: tuple[I64, I64]) -> tuple[I64, I64]:
    """The rows of collectives that at least two ranks have, and the number of each row's collective, from 0 on.

    Args:
        parts: Rows that were matched in one way, and the number of the collective of each, ascending from 0.
    """
    first = 0
    numbers = []
    for _, collective in parts:
        numbers.append(collective + first)
        first += int(collective.max(initial=-1)) + 1
    rows = np.concatenate([rows for rows, _ in parts])
    number = np.concatenate(numbers)
    is_shared = count_by(number, first)[number] > 1
    return rows[is_shared], ranked(number[is_shared])[1]


def _operation(table: RankTable) -> I64:
    """A code for the operation of each row: two operations may share a number (coalesced calls)."""
    names = sorted({kind.operation or "" for kind in table.kinds})
    return np.array([names.index(kind.operation or "") for kind in table.kinds] or [0], np.int64)[table.kind]


def _alike(table: RankTable) -> I64:
    """A code for what the rows of one collective have in common on all ranks; of unequal parts not the shapes."""
    pool: StringPool[CollectiveKind] = StringPool()
    codes = [pool.encode(kind if kind.is_even else replace(kind, shapes=None)) for kind in table.kinds]
    return np.array(codes or [0], np.int64)[table.kind]


def _equally_many(table: RankTable, alike: I64, rows: I64) -> Bool:
    """Of which all ranks have as many within a step; of the others it is unknown which is missing."""
    if not len(rows):
        return np.zeros(0, np.bool_)
    first, cell = group(alike[rows], table.step[rows], table.member[rows])
    counts = count_by(cell, len(first))
    _, kind = group(alike[rows][first], table.step[rows][first])
    found: Bool = all_equal(kind, counts)[cell]
    return found


def _occurrence(table: RankTable, rows: I64, *keys: I64) -> I64:
    """One number for rows of the same keys that are the n-th of these keys on their rank."""
    if not len(rows):
        return rows
    _, cell = group(table.member[rows], *(key[rows] for key in keys))
    _, found = group(*(key[rows] for key in keys), nth_of(cell))
    return found


def all_equal(groups: I64, values: I64) -> Bool:
    """For each row, whether all rows of its group have the same value; there is at least one row."""
    least = np.full(groups.max() + 1, np.iinfo(np.int64).max)
    most = np.full(groups.max() + 1, np.iinfo(np.int64).min)
    np.minimum.at(least, groups, values)
    np.maximum.at(most, groups, values)
    return np.equal(least, most)[groups]


def nth_of(groups: I64) -> I64:
    """For each row, how many rows of its group come before it; groups are numbered from 0, none is empty."""
    counts = np.bincount(groups)
    nth = np.empty(len(groups), np.int64)
    nth[np.argsort(groups, kind="stable")] = np.arange(len(groups)) - np.repeat(np.cumsum(counts) - counts, counts)
    return nth


def check_clocks(table: RankTable, matched: Matched) -> tuple[Matched, dict[int, Skew]]:
    """Estimate the clocks, leave out collectives that do not overlap in time by them, and estimate again.

    Returns:
        What remains, and the clock of each rank by position (so is the reference); ranks that have nothing in common
        with others have none.
    """
    clocks = _estimate(table, matched)
    sound = matched.only(_overlap(table, matched, clocks))
    return sound, _estimate(table, sound)


def _overlap(table: RankTable, matched: Matched, clocks: dict[int, Skew]) -> Bool:
    """Which collectives have all begun everywhere before they end anywhere."""
    if not matched.count:
        return np.zeros(0, np.bool_)
    start, end = aligned(table, matched, clocks)
    last_start = np.maximum.reduceat(start, matched.opens)
    first_end = np.minimum.reduceat(end, matched.opens)
    slack = np.where(matched.from_end[matched.opens], _SLACK_FROM_END_NS, _SLACK_NS)
    found: Bool = last_start <= first_end + slack
    return found


def aligned(table: RankTable, matched: Matched, clocks: dict[int, Skew]) -> tuple[I64, I64]:
    """Start and end of each matched row by the clock of its reference."""
    shift = np.zeros(table.members, np.int64)
    for member, offset in clocks.items():
        shift[member] = offset.ns
    start = table.start_ns[matched.rows] - shift[table.member[matched.rows]]
    return start, start + table.dur_ns[matched.rows]


def _estimate(table: RankTable, matched: Matched) -> dict[int, Skew]:
    """The clock of every rank that was matched with another.

    Of ranks that only exchange parts which may be unequal, the clocks stay as recorded: taking their ends for the same
    would take every difference in sending for waiting.
    """
    links = _links(table, matched.only(table.is_even[matched.rows][matched.opens]))
    clocks: dict[int, Skew] = {}
    for root in sorted(links):
        if root not in clocks:
            _spread(root, links, clocks)
    return clocks


def _links(table: RankTable, matched: Matched) -> dict[int, dict[int, Skew]]:
    """Between the lowest rank of each collective and its others, in both directions."""
    member = table.member[matched.rows]
    end = table.end_ns[matched.rows]
    links: defaultdict[int, dict[int, Skew]] = defaultdict(dict)
    if not matched.count:
        return links
    by_member = np.lexsort((member, matched.collective))
    row_of_lowest = by_member[matched.opens][matched.collective]
    lowest = member[row_of_lowest]
    late = end - end[row_of_lowest]
    for rows in _by_pair(lowest, member, late):
        one = int(lowest[rows[0]])
        other = int(member[rows[0]])
        link = _median(one, late[rows])
        links[one][other] = link
        links[other][one] = Skew(other, -link.ns, -link.high_ns, -link.low_ns, link.collectives)
    return links


def _by_pair(lowest: I64, member: I64, late: I64) -> list[I64]:
    """The rows of others than the lowest rank by both ranks, those of a pair by how late they end."""
    others = np.flatnonzero(member != lowest)
    order = others[np.lexsort((late[others], member[others], lowest[others]))]
    is_new_pair = (np.diff(lowest[order]) != 0) | (np.diff(member[order]) != 0)
    return np.split(order, np.flatnonzero(is_new_pair) + 1)


def _median(reference: int, ordered: I64) -> Skew:
    """Median with the 95 % interval that order statistics give whatever the distribution; of few values their range."""
    size = len(ordered)
    below = max(0, int((size - _NORMAL_95 * size**0.5) / 2))
    low = int(ordered[below])
    high = int(ordered[size - 1 - below])
    return Skew(reference, round(float(np.median(ordered))), low, high, size)


def _spread(root: int, links: dict[int, dict[int, Skew]], clocks: dict[int, Skew]) -> None:
    """From a rank to all that it is linked to, by the links with the most collectives first."""
    number = count()  # decides between equals
    waiting = [(0, root, next(number), Skew(root, 0, 0, 0, 0))]
    while waiting:
        _, member, _, offset = heapq.heappop(waiting)
        if member in clocks:
            continue
        clocks[member] = offset
        for other, link in links[member].items():
            if other not in clocks:
                heapq.heappush(waiting, (-link.collectives, other, next(number), _along(offset, link)))


def _along(offset: Skew, link: Skew) -> Skew:
    return replace(
        offset,
        ns=offset.ns + link.ns,
        low_ns=offset.low_ns + link.low_ns,
        high_ns=offset.high_ns + link.high_ns,
        collectives=min(offset.collectives or link.collectives, link.collectives),
    )
