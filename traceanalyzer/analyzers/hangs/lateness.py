"""Does one rank come last to the collectives of a run that does not stand still, and by how much?"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.analyzers.hangs.progress import Run
from traceanalyzer.trace.flight_recorder import FlightDump, RecordedGroup

_COMPARED = 200
"""Collectives that are compared, the last ones."""
_LEAST = 10
"""Fewest collectives from which a habit is told (own choice)."""
_OFTEN = 0.8
"""Share of the collectives to which one rank comes last from which on it is the late one (own choice)."""

_LATE_NS, _LATE = 1_000_000, 0.05
"""A rank that comes last by less, or by a smaller share of the time from one collective to the next, is not late (own
choice: ranks of one machine take turns on its cores in the same order again and again)."""

_Column = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Numbers of a rank's collectives in their order, when it called each, and when each was finished."""


class LateRank(msgspec.Struct, frozen=True):
    """A rank that comes last to most collectives of a group."""

    rank: int
    """Number of the rank."""
    group: str
    """Name of the process group, as torch counts them."""
    description: str
    """What the program calls it; empty if nothing."""
    collectives: int
    """Number of collectives that were compared."""
    last: int
    """To how many of them it came last."""
    late_ns: float
    """Time in ns by which it calls them later than the rank before it, in the median."""
    interval_ns: float
    """Time in ns from one collective to the next, in the median."""
    has_ends: bool
    """Whether the ends of collectives were recorded, by which clocks that differ are told from a late rank."""

    @property
    def title(self) -> str:
        """The group as people know it."""
        return f"{self.description} ({self.group})" if self.description else f"group {self.group}"


def find(run: Run) -> LateRank | None:
    """The rank that comes last again and again in the largest group where one does; None if there is none."""
    for group in sorted(run.progress, key=lambda one: (-len(one.ranks), one.name)):
        ranks = sorted(run.progress[group])
        if len(ranks) > 1 and (found := _of_group(run, group, ranks)) is not None:
            return found
    return None


def _of_group(run: Run, group: RecordedGroup, ranks: list[int]) -> LateRank | None:
    columns = [_times(run.dumps[rank], run.progress[group][rank].code) for rank in ranks]
    shared = _shared(columns)
    if len(shared) < _LEAST:
        return None
    starts, has_ends = _starts(columns, shared)
    order = np.argsort(starts, axis=0, kind="stable")
    counts = np.bincount(order[-1], minlength=len(ranks))
    late = int(counts.argmax())
    ordered = np.take_along_axis(starts, order, axis=0)
    before = np.where(order[-1] == late, ordered[-2], ordered[-1])
    gap = float(np.median(starts[late] - before))
    interval = float(np.median(np.diff(ordered[-1])))
    if counts[late] < _OFTEN * len(shared) or gap < max(_LATE_NS, _LATE * interval):
        return None
    return LateRank(ranks[late], group.name, group.description, len(shared), int(counts[late]), gap, interval, has_ends)


def _shared(columns: list[_Column]) -> np.ndarray:
    """Numbers of the last collectives that all ranks have."""
    shared = columns[0][0]
    for sequences, _, _ in columns[1:]:
        shared = np.intersect1d(shared, sequences, assume_unique=True)
    return shared[-_COMPARED:]


def _starts(columns: list[_Column], shared: np.ndarray) -> tuple[np.ndarray, bool]:
    """When each rank called shared collectives, by the clock of the first one if all their ends are known."""
    places = [np.searchsorted(sequences, shared) for sequences, _, _ in columns]
    starts = np.array([times[at] for (_, times, _), at in zip(columns, places, strict=True)])
    ends = np.array([times[at] for (_, _, times), at in zip(columns, places, strict=True)])
    has_ends = bool((ends >= 0).all())
    if has_ends:  # all finish together, so that a constant difference of the ends is one of the clocks
        starts = starts - np.median(ends - ends[0], axis=1).astype(np.int64)[:, None]
    return starts, has_ends


def _times(dump: FlightDump, code: int) -> _Column:
    """Numbers of a group's collectives in a ring in their order, and when each was called and finished."""
    operations = dump.operations
    mine = np.flatnonzero((operations.group == code) & ~operations.is_p2p & (operations.created_ns >= 0))
    sequences, at = np.unique(operations.sequence[mine], return_index=True)
    return sequences, operations.created_ns[mine][at], operations.completed_ns[mine][at]
