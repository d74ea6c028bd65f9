"""Counts what lowers the confidence of the comparison of ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from traceanalyzer.analyzers.ranks.member import Member
from traceanalyzer.analyzers.ranks.model import RankRange, Ranks
from traceanalyzer.report import units
from traceanalyzer.trace.model import Loss

_UNMATCHED = 0.2
"""Share of collectives from which on it is worth a warning (own choice: below, no ranking changes)."""

_RANGES = 12
"""Named in a text; the result has all."""


def doubts(found: Ranks) -> tuple[Loss, ...]:
    """Count all doubts, in a fixed order."""
    return tuple(_doubts(found))


def _doubts(found: Ranks) -> Iterator[Loss]:
    if len(found.ranks) == 1:
        yield Loss("q-ranks-one", 1)
    if found.missing and found.world_size:
        count = sum(part.last - part.first + 1 for part in found.missing)
        yield Loss("q-ranks-missing", count, {"world": found.world_size, "ranks": ranges(found.missing)})
    if found.missing is None:
        yield Loss("q-ranks-world-unknown", 1)
    matching = found.matching
    mutual = matching.recorded - matching.not_mutual
    lost = matching.unmatched + matching.contradicted
    if len(found.ranks) > 1 and lost > _UNMATCHED * mutual:
        yield Loss("q-ranks-unmatched", lost, {"all": mutual})
    if matching.matched and not found.has_clocks:
        yield Loss("q-ranks-no-clock", 1)
    if found.left_out:
        yield Loss("q-ranks-left-out", found.left_out)


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
