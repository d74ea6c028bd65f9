"""How far are the clocks of the ranks apart?

A mutual collective in which all send as much ends on all ranks at nearly the same time. What clocks differ by is the
median, over the collectives that two ranks have in common, of the difference of the ends. Ranks that have none in
common are compared along a chain of ranks that have: each group's members with its lowest rank, over the pairs with the
most collectives first.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from itertools import count

import msgspec
import numpy as np

from traceanalyzer.analyzers.ranks.matching import Matched
from traceanalyzer.analyzers.ranks.table import RankTable
from traceanalyzer.trace.table import I64, Bool

_SLACK_NS = 1_000_000
"""Own choice: ends of one collective differ by tens of microseconds, collectives that are mistaken for each other by
milliseconds."""

_NORMAL_95 = 1.96


class Offset(msgspec.Struct, frozen=True):
    """The clock of a rank against that of a reference; positions of ranks."""

    reference: int
    ns: int
    low_ns: int
    high_ns: int
    collectives: int


class _Link(msgspec.Struct, frozen=True):
    """The clock of one rank against that of another."""

    ns: int
    low_ns: int
    high_ns: int
    collectives: int


def check(table: RankTable, matched: Matched) -> tuple[Matched, dict[int, Offset]]:
    """Estimate the clocks, leave out collectives that do not overlap in time by them, and estimate again.

    Returns:
        What remains, and the clock of each rank by position; ranks that have nothing in common with others have none.
    """
    clocks = _estimate(table, matched)
    sound = matched.only(_overlap(table, matched, clocks))
    return sound, _estimate(table, sound)


def _overlap(table: RankTable, matched: Matched, clocks: dict[int, Offset]) -> Bool:
    """Which collectives have all begun everywhere before they end anywhere."""
    if not matched.count:
        return np.zeros(0, np.bool_)
    start, end = aligned(table, matched, clocks)
    last_start = np.maximum.reduceat(start, matched.opens)
    first_end = np.minimum.reduceat(end, matched.opens)
    found: Bool = last_start <= first_end + _SLACK_NS
    return found


def aligned(table: RankTable, matched: Matched, clocks: dict[int, Offset]) -> tuple[I64, I64]:
    """Start and end of each matched row by the clock of its reference."""
    shift = np.zeros(table.members, np.int64)
    for member, offset in clocks.items():
        shift[member] = offset.ns
    start = table.start_ns[matched.rows] - shift[table.member[matched.rows]]
    return start, start + table.dur_ns[matched.rows]


def _estimate(table: RankTable, matched: Matched) -> dict[int, Offset]:
    """The clock of every rank that was matched with another.

    Of ranks that only exchange parts which may be unequal, the clocks stay as recorded: taking their ends for the same
    would take every difference in sending for waiting.
    """
    links = _links(table, matched.only(table.is_even[matched.rows][matched.opens]))
    found: dict[int, Offset] = {}
    for root in sorted(links):
        if root not in found:
            _spread(root, links, found)
    return found


def _links(table: RankTable, matched: Matched) -> dict[int, dict[int, _Link]]:
    """Between the lowest rank of each collective and its others, in both directions."""
    member, end = table.member[matched.rows], table.end_ns[matched.rows]
    links: defaultdict[int, dict[int, _Link]] = defaultdict(dict)
    if not matched.count:
        return links
    by_member = np.lexsort((member, matched.collective))
    hub_row = by_member[matched.opens][matched.collective]
    hub, late = member[hub_row], end - end[hub_row]
    others = np.flatnonzero(member != hub)
    order = others[np.lexsort((late[others], member[others], hub[others]))]
    opens = np.flatnonzero(np.append(True, (np.diff(hub[order]) != 0) | (np.diff(member[order]) != 0)))
    for rows in np.split(order, opens[1:]):
        one, other = int(hub[rows[0]]), int(member[rows[0]])
        link = _median(late[rows])
        links[one][other] = link
        links[other][one] = _Link(-link.ns, -link.high_ns, -link.low_ns, link.collectives)
    return links


def _median(ordered: I64) -> _Link:
    """Median with the 95 % interval that order statistics give whatever the distribution; of few values their range."""
    size = len(ordered)
    below = max(0, int((size - _NORMAL_95 * size**0.5) / 2))
    low, high = int(ordered[below]), int(ordered[size - 1 - below])
    return _Link(round(float(np.median(ordered))), low, high, size)


def _spread(root: int, links: dict[int, dict[int, _Link]], found: dict[int, Offset]) -> None:
    """From a rank to all that it is linked to, by the links with the most collectives first."""
    number = count()  # decides between equals
    waiting = [(0, root, next(number), Offset(root, 0, 0, 0, 0))]
    while waiting:
        _, member, _, offset = heapq.heappop(waiting)
        if member in found:
            continue
        found[member] = offset
        for other, link in links[member].items():
            if other not in found:
                heapq.heappush(waiting, (-link.collectives, other, next(number), _along(offset, link)))


def _along(offset: Offset, link: _Link) -> Offset:
    return Offset(
        offset.reference,
        offset.ns + link.ns,
        offset.low_ns + link.low_ns,
        offset.high_ns + link.high_ns,
        min(offset.collectives or link.collectives, link.collectives),
    )
