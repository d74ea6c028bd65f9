"""When was a device or a stream busy, when was it idle, and what ended each gap?"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from traceanalyzer.structure.context import Context, cached
from traceanalyzer.structure.sums import Columns, group
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, UNKNOWN, Bool, SliceTable, take_or
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

NOTHING = -1
_BEGINNING = -(2**62)
"""Before every event."""


@cached
def any_busy(context: Context) -> Intervals:
    """When a kernel, copy or fill runs on any device, including devices without a number in the file."""
    return Intervals.union(context.trace.device.start_ns, context.trace.device.end_ns)


@cached
def busy(context: Context, number: int) -> Intervals:
    """When a kernel, copy or fill runs on one device; `UNKNOWN` is the device of events without a device number."""
    rows = context.trace.device.device == number
    return any_busy(context) if rows.all() else times_of(context.trace.device, np.flatnonzero(rows))


@cached
def streams(context: Context) -> tuple[I64, I64]:
    """The first event of each stream, and for each device event the number of its stream, by device and stream."""
    device = context.trace.device
    return group(device.device, device.stream)


def with_kernels(context: Context) -> list[int]:
    """Numbers of the devices that ran a kernel."""
    device = context.trace.device
    kernels = (device.category == Category.KERNEL) & (device.device != UNKNOWN)
    numbers: list[int] = distinct(device.device[kernels]).tolist()
    return numbers


def times_of(table: SliceTable, rows: I64 | Bool) -> Intervals:
    """When any of some rows of a table runs."""
    where = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
    start = table.start_ns.take(where)
    return Intervals.union(start, start + table.dur_ns.take(where))


class Gaps(Columns, frozen=True):
    """Times within a window in which none of the given device events ran, ascending."""

    whole_start_ns: I64
    """Start of the gap, possibly before the window; 0 before the first event of the trace."""
    start_ns: I64
    """The part within the window."""
    end_ns: I64
    whole_end_ns: I64
    next: I64
    """Row of the device event that ended the gap, or -1 after the last one."""
    launch: I64
    """Row of that event's launch, or -1."""
    is_first_of_launch: Bool
    """Whether that event is the first that its launch put on a device (a graph launch puts many)."""
    has_previous: Bool
    """Whether an event ran before the gap."""

    @property
    def length(self) -> I64:
        """Time of each gap within the window, in nanoseconds."""
        return self.end_ns - self.start_ns

    def cut(self, start_ns: I64, end_ns: I64) -> tuple[Gaps, I64]:
        """Cut gaps at the bounds of the given times, and leave out the parts outside of them.

        Args:
            start_ns: Starts of times that do not overlap, ascending.
            end_ns: Their ends.

        Returns:
            The parts, and for each the position of the time in which it lies.
        """
        first = np.searchsorted(end_ns, self.start_ns, side="right")
        count = np.maximum(np.searchsorted(start_ns, self.end_ns, side="left") - first, 0)
        parts, within = self, first
        if not (count == 1).all():
            parts = self.take(np.repeat(np.arange(len(self)), count))
            within = np.repeat(first - np.cumsum(count) + count, count) + np.arange(len(parts))
        low, high = np.maximum(parts.start_ns, start_ns[within]), np.minimum(parts.end_ns, end_ns[within])
        cut = replace(parts, start_ns=low, end_ns=high)
        return (cut, within) if (filled := high > low).all() else (cut.take(filled), within[filled])


def find(context: Context, rows: I64, window: tuple[int, int]) -> Gaps:
    """The gaps between the given device events (rows in ascending order) within a window."""
    return _within(_between(context, rows), window)


def of_device(context: Context, device: int, window: tuple[int, int]) -> Gaps:
    """The gaps between the events of a device within a window."""
    return _within(_all_of_device(context, device), window)


@cached
def _all_of_device(context: Context, device: int) -> Gaps:
    return _between(context, np.flatnonzero(context.trace.device.device == device))


def _between(context: Context, rows: I64) -> Gaps:
    """The gaps before, between and after some device events; the last one has no length yet."""
    device = context.trace.device
    if not (lasting := device.dur_ns[rows] > 0).all():  # events without duration do not end a gap
        rows = rows[lasting]
    start = device.start_ns[rows]
    busy = Intervals.union(start, start + device.dur_ns[rows])
    if busy:
        whole_start = np.append(min(0, int(busy.start[0])), busy.end)
        whole_end = np.append(busy.start, busy.end[-1])
        ends = np.append(rows[np.searchsorted(start, busy.start, side="left")], NOTHING)
    else:
        whole_start, whole_end, ends = np.array([0]), np.array([_BEGINNING]), np.array([NOTHING])
    has_previous = np.ones(len(whole_start), np.bool_)
    has_previous[0] = False
    launch = take_or(context.links.launch, ends, NO_PARENT)
    first = take_or(context.cached(first_of_launch), ends, False)
    return Gaps(whole_start, whole_start, whole_end, whole_end, ends, launch, first, has_previous)


def _within(gaps: Gaps, window: tuple[int, int]) -> Gaps:
    """The parts of gaps within a window; the last gap lasts until its end."""
    whole_end = gaps.whole_end_ns.copy()
    whole_end[-1] = max(window[1], int(whole_end[-1]))
    low, high = np.maximum(gaps.whole_start_ns, window[0]), np.minimum(whole_end, window[1])
    found = replace(gaps, start_ns=low, end_ns=high, whole_end_ns=whole_end)
    return found if (filled := high > low).all() else found.take(filled)


def first_of_launch(context: Context) -> Bool:
    """Which device events are the first of their launch; events without a launch count, too."""
    first: Bool = context.links.launch == NO_PARENT
    first[context.links.heads] = True
    return first
