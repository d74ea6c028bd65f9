"""Device events by stream, with the usual times from launch to start and between consecutive events."""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.simulation.graph import NOTHING, shifted
from traceanalyzer.simulation.window import Calls, ModelledWindow
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.gap_causes import SHORT_GAP_NS
from traceanalyzer.structure.launch_calls import graph_calls
from traceanalyzer.structure.sums import group
from traceanalyzer.structure.unrecorded_work import LEAST_NS, unrecorded_work
from traceanalyzer.trace.table import I64, Array, Bool, take_or

FEWEST = 8
"""Least number of events of one kind; with fewer, events of all kinds are used together (own choice)."""
LOW_SHARE = 10
"""Divisor: the value just above the lowest tenth counts as low (own choice: the lowest may be wrong by the clock)."""
NEAR = 2
NEAR_NS = 2_000
"""Values up to twice the low value plus 2 us count as usual (own choices)."""
_QUEUED_NS = 5_000
"""Own choice: an event launched this long before its predecessor ended was surely queued."""


class StreamEvents(msgspec.Struct, frozen=True):
    """The device events of a window, ordered by stream, then by start."""

    row: I64
    """Row in the device table."""
    stream: I64
    """Number of the stream, over all devices."""
    device: I64
    start_ns: I64
    end_ns: I64
    call: I64
    """Position of the call that launched each event; `NOTHING` if not recorded."""
    in_graph: Bool
    """Mask of the events launched by a graph."""
    is_head: Bool
    """Mask of the first event of each call on its stream."""

    def __len__(self) -> int:
        return len(self.row)

    @property
    def is_first(self) -> Bool:
        """Mask of the first event of each stream."""
        first: Bool = self.stream != shifted(self.stream, NOTHING)
        return first

    def gap_ns(self) -> I64:
        """From the end of the previous event on the stream to the start of each; 0 for the first."""
        return np.where(self.is_first, 0, self.start_ns - shifted(self.end_ns, 0))


def find(context: Context, window: ModelledWindow, calls: Calls) -> StreamEvents:
    """The events that a window's calls launched, and events without a launch that run in it."""
    device = context.trace.device
    launch = context.links.launch
    call = take_or(calls.of_row, launch, NOTHING)
    inside = (device.start_ns >= window.start_ns) & (device.start_ns < window.end_ns)
    rows = np.flatnonzero((call != NOTHING) | inside)
    _, stream = group(device.device[rows], device.stream[rows])
    order = np.lexsort((device.end_ns[rows], device.start_ns[rows], stream))
    rows = rows[order]
    stream = stream[order].astype(np.int64)
    call = call[rows]
    continues = (call == shifted(call, NOTHING)) & (stream == shifted(stream, NOTHING))
    return StreamEvents(
        row=rows,
        stream=stream,
        device=device.device[rows].astype(np.int64),
        start_ns=device.start_ns[rows],
        end_ns=device.end_ns[rows],
        call=call,
        in_graph=take_or(graph_calls(context), launch[rows], False),
        is_head=(call != NOTHING) & ~continues,
    )


def latencies(context: Context, calls: Calls, events: StreamEvents, may_wait: Bool) -> I64:
    """Usual time from the start of a launch call to the start of its work on an idle stream, by stream and function.

    Args:
        context: The trace.
        calls: Calls of the window.
        events: Device events of the window.
        may_wait: Mask of the events that may wait for another stream, so that their latency is unknown.
    """
    is_head = events.is_head
    called = np.where(is_head, np.append(calls.start_ns, 0)[events.call], 0)
    returned = np.append(calls.end_ns, 0)[events.call]
    end_before = np.where(events.is_first, np.iinfo(np.int64).min, shifted(events.end_ns, 0))
    is_idle = is_head & ~may_wait & (end_before <= called)
    is_idle &= called > _unrecorded_until(context, events)
    is_idle &= events.start_ns - returned < LEAST_NS
    function = context.trace.launches.name.astype(np.int64)
    name = take_or(function, take_or(calls.row, events.call, NOTHING), NOTHING)
    _, kind = group(events.stream, np.where(is_head, name, NOTHING))
    return typical(events.start_ns - called, is_idle, (kind, events.stream, events.device))


def gaps(context: Context, calls: Calls, events: StreamEvents) -> I64:
    """Usual time from the end of an event to the start of the next queued one, by stream and kinds of events.

    If an event starts before its predecessor has ended, its gap is the recorded one.
    """
    gap = events.gap_ns()
    called = np.append(calls.start_ns, 0)[events.call]
    is_short = (gap >= 0) & (gap < SHORT_GAP_NS)
    is_early = called + _QUEUED_NS <= shifted(events.end_ns, 0)
    is_queued = ~events.is_first & is_short & (events.call != NOTHING)
    is_queued &= is_early | ~events.is_head
    category = context.trace.device.category[events.row].astype(np.int64)
    _, kind = group(events.stream, category, shifted(category, 0), events.in_graph)
    usual = typical(gap, is_queued, (kind, events.stream, events.device))
    usual = np.where(gap < 0, gap, usual)
    return np.where(events.is_first, 0, usual)


def _unrecorded_until(context: Context, events: StreamEvents) -> I64:
    """For each event, the time at which its device finished the work launched before the recording."""
    until = np.full(len(events), np.iinfo(np.int64).min)
    for number, times in unrecorded_work(context).items():
        until[events.device == number] = times.end[-1]
    return until


def typical(values: I64, counts: Bool, kinds: tuple[Array, ...]) -> I64:
    """The usual value of each kind; that of a coarser kind if too few values count, and 0 if none counts.

    The usual value is the mean of the values near the lowest: most values are as low as the machine allows, and larger
    ones have causes that the model represents elsewhere. The mean of a few integers of microseconds is exact, where
    their median could be wrong by half of one.

    Args:
        values: Shape (n,).
        counts: Mask of the values that count.
        kinds: Kinds of each value, finest first.
    """
    usual = np.zeros(len(values), np.int64)
    is_open = np.ones(len(values), np.bool_)
    rows = np.flatnonzero(counts)
    everything = np.zeros(len(values), np.int64)
    for kind in (*kinds, everything):
        if not len(rows) or not is_open.any():
            break
        number = kind - kind.min()
        count, mean = _near_lowest(values[rows], number[rows], int(number.max()) + 1)
        fewest = 1 if kind is kinds[-1] else FEWEST
        is_known = is_open & (count[number] >= fewest)
        usual[is_known] = mean[number[is_known]]
        is_open &= ~is_known
    return usual


def _near_lowest(values: I64, kind: I64, kinds: int) -> tuple[I64, I64]:
    """How many values each kind has, and the mean of those near its lowest ones."""
    count = np.bincount(kind, minlength=kinds)
    order = np.lexsort((values, kind))
    first = np.cumsum(count) - count
    low = values[order][np.minimum(first + count // LOW_SHARE, len(order) - 1)]
    is_near = values <= NEAR * np.abs(low[kind]) + NEAR_NS
    near_kind = kind[is_near]
    total = np.bincount(near_kind, values[is_near], minlength=kinds)
    near_count = np.bincount(near_kind, minlength=kinds)
    mean = (total / np.maximum(near_count, 1)).round().astype(np.int64)
    return count, mean
