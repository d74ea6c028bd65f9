"""When and why does a GPU do nothing?

Idle time is the step window without the union of the kernels, copies and fills of a device. Every idle nanosecond
belongs to exactly one cause, the first in the order of `CAUSES` that applies (docs/metrics/idle.md), so the causes of a
device sum to its idle time.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.analyzers.idle.gap_details import LongGap, longest_gaps
from traceanalyzer.report.message import Text
from traceanalyzer.structure import gaps
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.gap_causes import CAUSES, SHORT_GAP_NS
from traceanalyzer.structure.graph_dependencies import callbacks
from traceanalyzer.structure.idle_times import are_disjoint, divide
from traceanalyzer.structure.steps import Steps
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.table import UNKNOWN, Bool, take_or
from traceanalyzer.trace.tree import NO_PARENT


class Cause(msgspec.Struct, frozen=True):
    """Idle time of a device by one cause."""

    cause: str
    """Id of the cause, as listed in the documentation of idle time."""
    time_ns: int
    """Time in ns for which the device did nothing for this cause."""
    share: float | None
    """Share of the device's idle time (0 to 1); null where it was never idle."""
    gaps: int
    """Number of gaps that have some time of this cause."""


class DeviceIdle(msgspec.Struct, frozen=True):
    """One device over the window from the first to the last step."""

    device: int
    """Number of the device as in the trace."""
    window_ns: int
    """Time from the start of the first to the end of the last step, in ns."""
    busy_ns: int
    """Time of the window in which a kernel, copy or fill runs, in ns."""
    idle_ns: int
    """Time of the window in which nothing runs on the device, in ns."""
    idle_share: float
    """Share of the window (0 to 1) in which nothing runs on the device."""
    gaps: int
    """Number of intervals in which nothing runs on the device."""
    causes: tuple[Cause, ...]
    """Idle time by cause in the order of priority; all causes are listed and sum to the idle time."""
    callbacks_ns: int = 0
    """Part of the idle time in ns in which a stream waits for a callback of the host inside a graph."""
    callback: str | None = None
    """The callback that runs longest, as recorded; null if there is none."""


class Idle(msgspec.Struct, frozen=True):
    """When and why each device did nothing, between the first and the last step."""

    devices: tuple[DeviceIdle, ...]
    """Every device that ran a kernel, by number."""
    streams: tuple[StreamIdle, ...]
    """The streams of these devices, their idle time by the three causes of Holistic Trace Analysis."""
    longest_gaps: tuple[LongGap, ...]
    """The 20 longest gaps of all devices, longest first."""


def analyze(context: Context) -> Idle:
    """Idle time of every device that ran a kernel; nothing without a window of some length."""
    window = context.steps.window
    if window is None or window[1] <= window[0]:
        return Idle((), (), ())
    found = {device: gaps.of_device(context, device, window) for device in gaps.with_kernels(context)}
    return Idle(
        devices=tuple(_device(context, device, own, window) for device, own in found.items()),
        streams=tuple(row for device in found for row in streams_of(context, device, window)),
        longest_gaps=longest_gaps(context, found),
    )


def _device(context: Context, device: int, own: gaps.Gaps, window: tuple[int, int]) -> DeviceIdle:
    parts = divide(context, device, _steps(context, window))
    times = parts.by_cause(np.ones(len(parts.gaps), np.bool_))
    touched = parts.gaps_by_cause()
    idle = int(own.length.sum())
    length = window[1] - window[0]
    rows, held = callbacks(context, device)
    nodes = context.trace.graph_nodes
    return DeviceIdle(
        device=device,
        window_ns=length,
        busy_ns=length - idle,
        idle_ns=idle,
        idle_share=idle / length,
        gaps=len(own),
        causes=tuple(
            Cause(cause, time, time / idle if idle else None, count)
            for cause, time, count in zip(CAUSES, times.tolist(), touched.tolist(), strict=True)
        ),
        callbacks_ns=int(held.within(own.start_ns, own.end_ns).sum()) if len(rows) else 0,
        callback=context.trace.names[int(nodes.name[rows[np.argmax(nodes.dur_ns[rows])]])] if len(rows) else None,
    )


def _steps(context: Context, window: tuple[int, int]) -> Steps:
    """The steps, at whose bounds other analyses cut gaps as well, or the window if steps overlap."""
    if are_disjoint(context.steps):
        return context.steps
    return Steps(("0",), np.array([window[0]]), np.array([window[1]]), None)


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


def streams_of(context: Context, device: int, window: tuple[int, int]) -> tuple[StreamIdle, ...]:
    """The streams of a device by number."""
    table = context.trace.device
    here = table.device == device
    numbers = distinct(table.stream[here & (table.stream != UNKNOWN)]).tolist()
    return tuple(_stream(context, device, number, window) for number in numbers)


def _stream(context: Context, device: int, stream: int, window: tuple[int, int]) -> StreamIdle:
    table = context.trace.device
    rows = np.flatnonzero((table.device == device) & (table.stream == stream))
    found = gaps.find(context, rows, window)
    started = take_or(context.trace.launches.start_ns, found.launch, 0)
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


_WINDOW = Need(
    Text("skip-idle-no-window", "all steps have a length of 0, so there is no time in which a GPU could idle"),
    lambda context: context.steps.has_length,
)
_KERNELS = Need(
    Text("skip-idle-no-kernels", "the trace has no kernels with a device number, so idle time is unknown"),
    lambda context: bool(gaps.with_kernels(context)),
)
ANALYSES = (Analysis(130, "idle", Idle, analyze, needs=(_KERNELS, _WINDOW)),)
