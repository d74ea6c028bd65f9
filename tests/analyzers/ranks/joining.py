"""Ranks from builders, joined."""

from __future__ import annotations

from collections.abc import Iterable

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers import ranks
from traceanalyzer.analyzers.ranks import Ranks
from traceanalyzer.analyzers.ranks.member import Member
from traceanalyzer.analyzers.ranks.model import RankRow
from traceanalyzer.multirank import measure_rank


def members(traces: Iterable[TraceBuilder]) -> dict[int, Member]:
    """By rank, in the order of the traces."""
    found = {rank: measure_rank(read_built(trace)) for rank, trace in enumerate(traces)}
    return {rank: member for rank, member in found.items() if member is not None}


def joined(traces: Iterable[TraceBuilder], world_size: int | None = None) -> Ranks:
    """The comparison of all traces."""
    return ranks.join(members(traces), world_size)


def by_rank(found: Ranks) -> dict[int, RankRow]:
    """The rows of the joined result."""
    return {row.rank: row for row in found.ranks}
