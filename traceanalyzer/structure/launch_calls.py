"""Which calls launch graphs, does the trace record the capture of graphs, and how many launches wait on each stream?

A queue has one launch more with each launch call, one less with each start on the device.
"""

from __future__ import annotations

import re
from functools import partial

import msgspec
import numpy as np

from traceanalyzer.knowledge import graph_calls as graph_calls_known
from traceanalyzer.knowledge import marks
from traceanalyzer.structure import gaps, host_activity
from traceanalyzer.structure.context import Context, cached
from traceanalyzer.structure.sums import members
from traceanalyzer.trace.distinct import ascending
from traceanalyzer.trace.table import I64, Bool
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

_CAPTURE = re.compile(r"^(cuda|cu|hip|musa)StreamBeginCapture")
_INSTANTIATE = re.compile(r"^(cuda|cu|hip|musa)GraphInstantiate")
_LAUNCH = re.compile(r"^(cuda|cu|hip|musa)\w{0,20}Launch\w{0,20}Kernel")
_MANY = 100
"""Own choice: fewer launches without an event on the device may be chance."""
_HARDLY_ANY = 0.1
"""Device events over launch calls (own choice): a capture runs nothing, and little runs around it."""
_FAR_LONGER = 10
"""A call this many times as long as the median counts as blocked (own choice)."""
_DEPTH = 1024
"""Launches that a CUDA stream takes before the next launch call waits."""
_NEARLY = 0.98
"""The length is counted at the start of the call, a few launches before the limit."""
_SHALLOW = 256
"""A queue that never was longer cannot be called full."""
_POINTS = 100


class GraphCapture(msgspec.Struct, frozen=True):
    """Calls that record a graph instead of running anything on a device."""

    captures: int
    """Number of captures that were begun on a stream."""
    launch_calls: int
    """Number of calls in the trace that launch a kernel; those within a capture start none."""
    device_events: int
    """Number of kernels, copies and fills that ran on a device."""
    replays: int
    """Number of launches of whole graphs."""
    captured_calls: int = 0
    """Number of the calls that launch a kernel between the begin and the end of a capture on one thread."""

    @property
    def is_most(self) -> bool:
        """Whether the recording is mostly a capture: no graph is replayed, and hardly any launch starts work.

        A model that is captured in pieces runs what is between them, such as attention.
        """
        many = not self.replays and self.launch_calls >= _MANY
        runs_nothing = self.device_events < _HARDLY_ANY * self.launch_calls
        return many and (runs_nothing or 2 * self.captured_calls >= self.launch_calls)


def graph_calls(context: Context) -> Bool:
    """Which rows of the launch table launch a captured graph."""
    launches = context.trace.launches
    return context.trace.names.where(marks.is_graph_launch)[launches.name]


@cached
def graph_capture(context: Context) -> GraphCapture | None:
    """Figures about the capture of graphs; None if the trace captures none."""
    names, called = context.trace.names, context.trace.launches.name

    def calls(pattern: re.Pattern[str]) -> int:
        return int(names.where(partial(_is_call, pattern))[called].sum())

    begun = calls(_CAPTURE) or calls(_INSTANTIATE)
    replays = int(graph_calls(context).sum())
    if not begun:
        return None
    return GraphCapture(begun, calls(_LAUNCH), len(context.trace.device), replays, _captured_calls(context))


def begun_ns(context: Context) -> I64:
    """When captures of graphs begin."""
    called = context.trace.launches
    rows = context.trace.names.where(partial(_is_call, _CAPTURE))[called.name]
    found: I64 = called.start_ns[rows]
    return found


def _captured_calls(context: Context) -> int:
    """How many calls that launch a kernel lie between the begin and the end of a capture on their thread."""
    names, launches = context.trace.names, context.trace.launches
    begins, ends, launching = (
        names.where(known)[launches.name]
        for known in (graph_calls_known.begins_capture, graph_calls_known.ends_capture, partial(_is_call, _LAUNCH))
    )
    found = 0
    for _, rows in members(launches.thread):
        order = rows[np.argsort(launches.start_ns[rows], kind="stable")]
        depth = np.cumsum(begins[order].astype(np.int64) - ends[order])
        has_end = np.cumsum(ends[order][::-1])[::-1] > 0  # one that is begun and does not end is cut off
        found += int((launching[order] & (depth > 0) & has_end).sum())
    return found


def _is_call(pattern: re.Pattern[str], name: str) -> bool:
    return pattern.search(name) is not None


class QueuePoint(msgspec.Struct, frozen=True):
    """The queue during one of up to 100 equal parts of the window."""

    start_ns: int
    """Start of the part in ns since the first event."""
    max_length: int
    """Longest queue within the part, in waiting launches."""


class StreamQueue(msgspec.Struct, frozen=True):
    """The queue of one stream."""

    device: int | None
    """Number of the device; null if the trace does not show it."""
    stream: int | None
    """Number of the stream; null if the trace does not show it."""
    launches: int
    """Number of calls that put something on the stream; copies and fills count, a graph counts once."""
    mean_length: float | None
    """Mean number of waiting launches over the time from the first call to the last start; null where that is no
    time."""
    mean_length_at_events: float
    """Mean number of waiting launches right after each call and each start, as Holistic Trace Analysis computes it."""
    max_length: int
    """Greatest number of waiting launches."""
    curve: tuple[QueuePoint, ...]
    """Longest queue in up to 100 equal parts of the window from the first to the last step."""


def of_streams(context: Context) -> list[tuple[StreamQueue, I64, I64]]:
    """The queue of each stream by device and stream.

    Returns:
        Each with the launches that it holds, as rows of the launch table in the order of their start, and the
        length of the queue right after each of these calls began.
    """
    start_of_call = context.trace.launches.start_ns
    is_counted = context.in_scope(start_of_call[context.links.calls])
    calls = context.links.calls[is_counted]
    heads = context.links.heads[is_counted]  # a graph starts as its first kernel
    queues = []
    for _, of_stream in members(gaps.streams(context)[1][heads]):
        rows = calls[of_stream]
        queue, length_at_call = _of_stream(context, start_of_call[rows], heads[of_stream])
        queues.append((queue, rows, length_at_call))
    return queues


def _of_stream(context: Context, called: I64, heads: I64) -> tuple[StreamQueue, I64]:
    """The queue of one stream, and its length right after each call began.

    Args:
        context: The trace.
        called: Starts of the calls that put something on the stream, ascending.
        heads: The device event of each call that started first.
    """
    device = context.trace.device
    started = ascending(device.start_ns[heads])
    stream = int(device.device[heads[0]]), int(device.stream[heads[0]])
    queue = _queue(context, stream, *_lengths(called, started))
    # The n-th call finds the earlier ones in the queue, except those that have started.
    length_at_call = np.arange(1, len(called) + 1) - np.searchsorted(started, called, side="left")
    return queue, length_at_call


def _lengths(calls: I64, starts: I64) -> tuple[I64, I64]:
    """Times of calls and starts, and the length of the queue right after each; calls first at equal times."""
    times = np.concatenate((calls, starts))
    change = np.repeat(np.array([1, -1]), [len(calls), len(starts)])
    order = np.argsort(times, kind="stable")
    # A start before its call is the clock's fault (a warning counts those): no queue is shorter than empty.
    return times[order], np.maximum(np.cumsum(change[order]), 0)


def _queue(context: Context, stream: tuple[int, int], times: I64, lengths: I64) -> StreamQueue:
    duration = int(times[-1] - times[0])
    mean = int((lengths[:-1] * np.diff(times)).sum()) / duration if duration else None
    window = context.steps.window or (int(times[0]), int(times[-1]))
    return StreamQueue(
        device=stream[0] if stream[0] >= 0 else None,
        stream=stream[1] if stream[1] >= 0 else None,
        launches=len(times) // 2,
        mean_length=mean,
        mean_length_at_events=float(lengths.mean()),
        max_length=int(lengths.max()),
        curve=_curve(times, lengths, window),
    )


def _curve(times: I64, lengths: I64, window: tuple[int, int]) -> tuple[QueuePoint, ...]:
    """The longest queue in each part of the window, including work queued before it."""
    parts = min(_POINTS, window[1] - window[0])
    if parts <= 0:
        return ()
    bounds = window[0] + np.arange(parts + 1) * (window[1] - window[0]) // parts
    starts = bounds[:-1]
    longest = np.append(0, lengths)[np.searchsorted(times, starts, side="right")]  # at the start of each part
    part = np.searchsorted(bounds, times, side="right") - 1
    inside = (part >= 0) & (part < parts)
    np.maximum.at(longest, part[inside], lengths[inside])
    return tuple(map(QueuePoint, starts.tolist(), longest.tolist()))


def blocked_calls(context: Context) -> I64:
    """Rows of launch-table calls that waited because their stream's queue was full."""
    return context.cached(held_up)[0]


def held_up(context: Context) -> tuple[I64, int, int]:
    """Calls far longer than the median that start with a full queue; the queue's length; the median call in ns."""
    queues = context.cached(of_streams)
    longest = max((queue.max_length for queue, _, _ in queues), default=0)
    if longest < _SHALLOW:
        return np.empty(0, np.int64), 0, 0
    full = int(_NEARLY * min(_DEPTH, longest))
    calls = np.concatenate([rows for _, rows, _ in queues])
    length = np.concatenate([lengths for _, _, lengths in queues])
    is_long_by_itself = (graph_calls(context) | _copies_with_host(context))[calls]
    calls, length = calls[~is_long_by_itself], length[~is_long_by_itself]
    duration = context.trace.launches.dur_ns[calls]
    median = int(np.median(duration)) if len(duration) else 0
    is_held_up = (length >= full) & (duration > _FAR_LONGER * median)
    return calls[is_held_up], full, median


def _copies_with_host(context: Context) -> Bool:
    """Which rows of the launch table copy from or to the host, which may take long for another reason."""
    device, launch = context.trace.device, context.links.launch
    with_host = context.trace.names.where(lambda name: "H" in (host_activity.direction(name) or ""))
    is_copy = (device.category == Category.MEMCPY) & (launch != NO_PARENT)
    copies_with_host = np.zeros(len(context.trace.launches), np.bool_)
    copies_with_host[launch[is_copy & with_host[device.name]]] = True
    return copies_with_host
