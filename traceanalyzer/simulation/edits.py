"""Changes of a program as data. Rows are those of the trace's tables.

All edits are combined before any is applied: factors that overlap are multiplied, the highest floor counts (but one
edit keeps no more than another would leave alone), and a removed event or wait stays removed. So their order does not
matter, and an edit that only shortens durations or removes causes never makes a replay longer. Together with others it
does so only if these leave nothing beside which communication could run.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import msgspec

from traceanalyzer.structure.sums import members
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, Array

LEAST_FACTOR, MOST_FACTOR = 1e-6, 1e9
"""Range of factors that users ask for (own choice: what is computed with them stays finite)."""


class LoaderEdit(msgspec.Struct, frozen=True):
    """Shorten waits for the loader: all by a factor, and then to at most a given time each."""

    floor_ns: int | None = None
    """Longest wait in ns; None for no limit."""
    factor: float = 1.0
    """Ratio of new to old time, 0 to 1."""


class ScaleEdit(msgspec.Struct, frozen=True):
    """Shorten or lengthen device events."""

    rows: I64
    """Rows of the device table."""
    factor: float
    """Ratio of new to old duration, 0 or more."""
    floor_ns: I64 | int = 0
    """Least duration after the change: one number, or one for each row. Events that are already shorter are kept."""


class DropEdit(msgspec.Struct, frozen=True):
    """Remove device events, with their launches and the operators that only launch them."""

    rows: I64
    """Rows of the device table."""


class UnblockEdit(msgspec.Struct, frozen=True):
    """Calls no longer wait for the device; the time of the call itself is kept."""

    rows: I64
    """Rows of the launch table."""


class ThreadTimes:
    """Intervals of host threads; those of a thread are joined once, however many replays ask."""

    def __init__(self, thread: Array, start_ns: I64, end_ns: I64) -> None:
        self._known = {number: Intervals.union(start_ns[rows], end_ns[rows]) for number, rows in members(thread)}

    def of(self, thread: int) -> Intervals:
        """The times of one thread, given by its row."""
        return self._known.get(thread, _NEVER)


_NEVER = Intervals.none()


class StartEdit(msgspec.Struct, frozen=True):
    """Device events that start late for no recorded reason start sooner."""

    rows: I64
    """Rows of the device table."""
    earlier_ns: I64
    """By how much, in ns; an event whose replay has no such delay starts as before."""


class HostEdit(msgspec.Struct, frozen=True, dict=True):
    """Shorten or lengthen host time. Intervals of one thread must not overlap."""

    thread: Array
    """Rows of the thread table, shape (intervals,)."""
    start_ns: I64
    end_ns: I64
    factor: float
    """Ratio of new to old time, 0 or more."""

    @cached_property
    def times(self) -> ThreadTimes:
        """The intervals by thread."""
        return ThreadTimes(self.thread, self.start_ns, self.end_ns)


class RelaunchEdit(msgspec.Struct, frozen=True):
    """Replace many launches by one, as in a CUDA graph: no host time passes between its first and last launch.

    A step has one graph, and one more after each wait for the loader or for the device.
    """

    rows: I64
    """Rows of the device table."""
    cost_ns: int
    """Host time of the one launch of each graph; limited to the time that is saved."""


class OverlapEdit(msgspec.Struct, frozen=True):
    """Overlap collectives with computation; only the end of the step waits for them."""

    rows: I64
    """Rows of the device table."""


class BandwidthEdit(msgspec.Struct, frozen=True):
    """Change the transfer rate of collectives; in a trace of one rank, durations include waiting for other ranks."""

    rows: I64
    """Rows of the device table."""
    factor: float
    """Ratio of new to old duration, 0 or more."""


Edit = (
    LoaderEdit | ScaleEdit | StartEdit | DropEdit | UnblockEdit | HostEdit | RelaunchEdit | OverlapEdit | BandwidthEdit
)
Edits = Sequence[Edit]
