"""Which operation came closest to its time limit though all came to it?

The watchdog counts from the call on the host. So an operation that all called, the last one nearly when the limit of
the first was over, would have finished with a longer limit; and one that did finish shows how close it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

import msgspec
import numpy as np

from traceanalyzer.analyzers.hangs.progress import Meeting, Run
from traceanalyzer.trace.flight_recorder import COMPLETED, FlightDump, RecordedGroup

NEAR = 0.8
"""Part of its limit from which on an operation is close to it (own choice)."""
_MS = 1_000_000


class Near(msgspec.Struct, frozen=True):
    """An operation and how long it took of its limit."""

    rank: int
    row: int
    group: RecordedGroup
    sequence: int
    is_p2p: bool
    taken_ns: int
    limit_ns: int
    last: tuple[int, ...] = ()
    """The ranks that came last, unless it has finished."""

    @property
    def share(self) -> float:
        """The part of the limit that it took."""
        return self.taken_ns / self.limit_ns


def nearest(run: Run) -> Near | None:
    """The operation that took most of its limit, of those to which all came; None if no times and limits are known.

    What nobody has finished counts before what is finished.
    """
    came = [near for meeting in run.meetings if (near := _of_arrivals(run, meeting)) is not None]
    best = max(came, key=_SHARE, default=None)
    if best is not None and best.share >= NEAR:
        return best
    return max((*came, *_finished(run)), key=_SHARE, default=None)


_SHARE = attrgetter("share")


def _of_arrivals(run: Run, meeting: Meeting) -> Near | None:
    """How much later than the first the last one came to an operation to which all came."""
    if meeting.absent or meeting.behind or meeting.undumped or meeting.passed or meeting.sequence < 0:
        return None
    times = {rank: int(run.dumps[rank].operations.created_ns[row]) for rank, row in meeting.rows.items() if row >= 0}
    limits = [int(run.dumps[rank].operations.timeout_ms[row]) for rank, row in meeting.rows.items() if row >= 0]
    if len(times) < max(2, len(meeting.rows)) or min(times.values()) < 0 or min(limits) <= 0:
        return None
    first, latest, limit = min(times.values()), max(times.values()), min(limits) * _MS
    last = tuple(sorted(rank for rank, time in times.items() if latest - time <= (1 - NEAR) * limit))
    rank = last[0]
    return Near(rank, meeting.rows[rank], meeting.group, meeting.sequence, False, latest - first, limit, last)


def _finished(run: Run) -> Iterator[Near]:
    """Of each rank the finished operation that took most of its limit."""
    for rank, dump in run.dumps.items():
        operations = dump.operations
        taken = _taken(dump)
        known = (operations.state == COMPLETED) & (operations.timeout_ms > 0) & (taken >= 0)
        rows = np.flatnonzero(known)
        if len(rows):
            row = int(rows[np.argmax(taken[rows] / operations.timeout_ms[rows])])
            limit, group = int(operations.timeout_ms[row]) * _MS, dump.groups[int(operations.group[row])]
            is_p2p = bool(operations.is_p2p[row])
            yield Near(rank, row, group, int(operations.sequence[row]), is_p2p, int(taken[row]), limit)


def _taken(dump: FlightDump) -> np.ndarray:
    """From the call of each operation to when its end was seen, else the time of the device; -1: unknown."""
    operations = dump.operations
    is_seen = (operations.completed_ns >= 0) & (operations.created_ns >= 0)
    return np.where(is_seen, operations.completed_ns - operations.created_ns, operations.duration_ns)
