"""A level over time in few points, with every peak and every valley of its time."""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.table import I64

POINTS = 512
"""Most points of a curve: enough for one per pixel column of a chart (own choice)."""


class Curve(msgspec.Struct, frozen=True):
    """A step function: each level holds from its time until the next one."""

    time_ns: tuple[int, ...]
    """Times at which the level changes, in ns since the first event, ascending."""
    level_bytes: tuple[int, ...]
    """The level in bytes from each of these times on."""


def curve(time_ns: I64, level_bytes: I64, points: int = POINTS) -> Curve:
    """The curve in at most this many points.

    The time is cut into buckets of equal length; the lowest and the highest level of each stay, where they
    occurred, and the first and the last of all. Levels that repeat their predecessor are not points.

    Args:
        time_ns: Times in ascending order.
        level_bytes: The level from each time on.
        points: At least 4.
    """
    if not len(time_ns):
        return Curve((), ())
    shown = np.append(True, np.diff(level_bytes) != 0)
    shown[-1] = True
    rows = np.flatnonzero(shown)
    time, level = time_ns[rows], level_bytes[rows]
    if len(rows) > points:
        kept = _extremes(time, level, (points - 2) // 2)
        time, level = time[kept], level[kept]
    return Curve(tuple(time.tolist()), tuple(level.tolist()))


def _extremes(time: I64, level: I64, buckets: int) -> I64:
    """First and last row, and those with the lowest and the highest level of each bucket."""
    span = int(time[-1] - time[0]) + 1
    bucket = np.minimum((time - time[0]) / span * buckets, buckets - 1).astype(np.int64)
    order = np.lexsort((level, bucket))
    ends = np.flatnonzero(np.append(np.diff(bucket[order]), 1))
    starts = np.append(0, ends[:-1] + 1)
    return distinct(np.concatenate(([0, len(time) - 1], order[starts], order[ends])))
