"""Why was a stream idle, by the three causes of Holistic Trace Analysis (`get_idle_time_breakdown`)?"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.structure import gaps
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.gap_causes import SHORT_GAP_NS
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.table import UNKNOWN, Bool, entries
from traceanalyzer.trace.tree import NO_PARENT


class GapStatistics(msgspec.Struct, frozen=True):
    """Some gaps of a stream."""

    gaps: int
    """Number of gaps."""
    time_ns: int
    """Sum of their lengths in ns."""
    median_ns: float | None
    """Median length of a gap in ns; null where there is no gap."""
    max_ns: int | None
    """Length of the longest gap in ns; null where there is no gap."""


class StreamIdle(msgspec.Struct, frozen=True):
    """One stream over the window from the first to the last step; the causes and the edges sum to its idle time."""

    device: int
    """Number of the device as in the trace."""
    stream: int
    """Number of the stream as in the trace."""
    busy_ns: int
    """Time of the window in which something of the stream runs, in ns."""
    idle_ns: int
    """Time of the window in which nothing of the stream runs, in ns."""
    host_wait: GapStatistics
    """Gaps whose next event was launched only after the gap had begun."""
    kernel_wait: GapStatistics
    """Gaps shorter than 30 us whose next event had been launched in time."""
    other: GapStatistics
    """All other gaps between two events: launched in time or by an unknown call, and 30 us or longer."""
    edge_ns: int
    """Time of the window before the first and after the last event of the stream, in ns."""


def of_device(context: Context, device: int, window: tuple[int, int]) -> tuple[StreamIdle, ...]:
    """The streams of a device by number."""
    table = context.trace.device
    here = table.device == device
    numbers = distinct(table.stream[here & (table.stream != UNKNOWN)]).tolist()
    return tuple(_stream(context, device, number, window) for number in numbers)


def _stream(context: Context, device: int, stream: int, window: tuple[int, int]) -> StreamIdle:
    table = context.trace.device
    rows = np.flatnonzero((table.device == device) & (table.stream == stream))
    found = gaps.find(context, rows, window)
    started = entries(context.trace.launches.start_ns, found.launch, 0)
    between = found.has_previous & (found.next != gaps.NOTHING)
    late = between & (found.launch != NO_PARENT) & (started > found.whole_start_ns)
    short = found.whole_end_ns - found.whole_start_ns < SHORT_GAP_NS
    idle = int(found.length.sum())
    return StreamIdle(
        device=device,
        stream=stream,
        busy_ns=window[1] - window[0] - idle,
        idle_ns=idle,
        host_wait=_statistics(found, late),
        kernel_wait=_statistics(found, between & ~late & short),
        other=_statistics(found, between & ~late & ~short),
        edge_ns=int(found.length[~between].sum()),
    )


def _statistics(found: gaps.Gaps, rows: Bool) -> GapStatistics:
    length = found.length[rows]
    if not len(length):
        return GapStatistics(0, 0, None, None)
    return GapStatistics(len(length), int(length.sum()), float(np.median(length)), int(length.max()))
