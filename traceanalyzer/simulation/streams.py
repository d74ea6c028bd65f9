"""Device events by stream, and how long they take to start: after their launch, and after what ran before them."""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.analyzers.context import Context
from traceanalyzer.analyzers.idle.causes import SHORT_GAP_NS
from traceanalyzer.analyzers.launches import graph_calls
from traceanalyzer.analyzers.sums import group
from traceanalyzer.analyzers.unrecorded_work import LEAST_NS, unrecorded_work
from traceanalyzer.simulation.calls import Calls
from traceanalyzer.simulation.graph import NOTHING, shifted
from traceanalyzer.simulation.window import Window
from traceanalyzer.trace.table import I64, Array, Bool, entries

FEWEST = 8
"""Fewer events of one kind are not enough; then events of all kinds are taken together (own choice)."""
LOW_SHARE = 10
"""The lowest tenth ends at the value that counts as low (own choice: the very lowest may be wrong by the clock)."""
NEAR = 2
NEAR_NS = 2_000
"""Values up to twice what is low and 2 us count as usual (own choices)."""
_QUEUED_NS = 5_000
"""Own choice: an event that was launched so long before its predecessor ended was surely in the queue."""


class StreamEvents(msgspec.Struct, frozen=True):
    """The device events of a window, by stream and then in the order of their start."""

    row: I64
    """Row in the device table."""
    stream: I64
    """Number of the stream, over all devices."""
    device: I64
    start_ns: I64
    end_ns: I64
    call: I64
    """Position of the call that launched each; `NOTHING` where it is not recorded."""
    in_graph: Bool
    """Which were launched by a graph."""
    is_head: Bool
    """Which come first of what their call launched on their stream."""

    def __len__(self) -> int:
        return len(self.row)

    @property
    def is_first(self) -> Bool:
        """Which events are the first of their stream."""
        first: Bool = self.stream != shifted(self.stream, NOTHING)
        return first

    def gap_ns(self) -> I64:
        """From the end of the event before each on its stream to its start; 0 for the first."""
        return np.where(self.is_first, 0, self.start_ns - shifted(self.end_ns, 0))


def find(context: Context, window: Window, calls: Calls) -> StreamEvents:
    """The events that a window's calls launched, and those without a launch that run in it."""
    device = context.trace.device
    launch = context.links.launch
    call = entries(calls.of_row, launch, NOTHING)
    inside = (device.start_ns >= window.start_ns) & (device.start_ns < window.end_ns)
    rows = np.flatnonzero((call != NOTHING) | inside)
    _, stream = group(device.device[rows], device.stream[rows])
    order = np.lexsort((device.end_ns[rows], device.start_ns[rows], stream))
    rows, stream = rows[order], stream[order].astype(np.int64)
    own, linked = call[rows], launch[rows]
    same = (own == shifted(own, NOTHING)) & (stream == shifted(stream, NOTHING))
    return StreamEvents(
        row=rows,
        stream=stream,
        device=device.device[rows].astype(np.int64),
        start_ns=device.start_ns[rows],
        end_ns=device.end_ns[rows],
        call=own,
        in_graph=entries(graph_calls(context), linked, False),
        is_head=(own != NOTHING) & ~same,
    )


def latencies(context: Context, calls: Calls, events: StreamEvents, may_wait: Bool) -> I64:
    """From the start of a launch call to the start of its work on an idle stream, by stream and function.

    Args:
        context: The trace.
        calls: Calls of the window.
        events: Device events of the window.
        may_wait: Which events may wait for another stream, so that their latency is unknown.
    """
    head = events.is_head
    called = np.where(head, np.append(calls.start_ns, 0)[events.call], 0)
    before = np.where(events.is_first, np.iinfo(np.int64).min, shifted(events.end_ns, 0))
    idle = head & ~may_wait & (before <= called) & (called > _unrecorded_until(context, events))
    idle &= events.start_ns - np.append(calls.end_ns, 0)[events.call] < LEAST_NS
    name = entries(context.trace.launches.name.astype(np.int64), entries(calls.row, events.call, NOTHING), NOTHING)
    _, kind = group(events.stream, np.where(head, name, NOTHING))
    return typical(events.start_ns - called, idle, (kind, events.stream, events.device))


def gaps(context: Context, calls: Calls, events: StreamEvents) -> I64:
    """From the end of an event to the start of the next one that was queued behind it, by stream and kinds of events.

    Where an event starts before its predecessor has ended, the gap is what was recorded.
    """
    gap = events.gap_ns()
    called = np.append(calls.start_ns, 0)[events.call]
    early = called + _QUEUED_NS <= shifted(events.end_ns, 0)
    queued = ~events.is_first & (gap >= 0) & (gap < SHORT_GAP_NS) & (early | ~events.is_head) & (events.call != NOTHING)
    category = context.trace.device.category[events.row].astype(np.int64)
    _, kind = group(events.stream, category, shifted(category, 0), events.in_graph)
    usual = typical(gap, queued, (kind, events.stream, events.device))
    return np.where(events.is_first, 0, np.where(gap < 0, gap, usual))


def _unrecorded_until(context: Context, events: StreamEvents) -> I64:
    """For each event when its device had done the work that was launched before the recording."""
    until = np.full(len(events), np.iinfo(np.int64).min)
    for number, times in unrecorded_work(context).items():
        until[events.device == number] = times.end[-1]
    return until


def typical(values: I64, counts: Bool, kinds: tuple[Array, ...]) -> I64:
    """The usual one of some values by kind; of coarser kinds where too few values count, and 0 where none does.

    Usual is the mean of those that are not far above the lowest: many values are as low as the machine allows, and some
    are longer for a reason that the model holds elsewhere. The mean of a few whole microseconds is exact where their
    median would be wrong by half of one.

    Args:
        values: Shape (n,).
        counts: Which of them count.
        kinds: Kinds of each value, the finest first.
    """
    found = np.zeros(len(values), np.int64)
    open_ = np.ones(len(values), np.bool_)
    rows = np.flatnonzero(counts)
    for kind in (*kinds, np.zeros(len(values), np.int64)):
        if not len(rows) or not open_.any():
            break
        low = kind.min()
        size = int(kind.max() - low) + 1
        own = kind[rows] - low
        count = np.bincount(own, minlength=size)
        order = np.lexsort((values[rows], own))
        first = np.cumsum(count) - count
        least = values[rows[order]][np.minimum(first + count // LOW_SHARE, len(order) - 1)]
        near = values[rows] <= NEAR * np.abs(least[own]) + NEAR_NS
        total = np.bincount(own[near], values[rows[near]], minlength=size)
        usual = (total / np.maximum(np.bincount(own[near], minlength=size), 1)).round().astype(np.int64)
        known = open_ & (count[kind - low] >= (FEWEST if kind is not kinds[-1] else 1))
        found[known] = usual[kind[known] - low]
        open_ &= ~known
    return found
