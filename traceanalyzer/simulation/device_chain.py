"""Device events and their causes: their launch, their stream, and events of other streams."""

from __future__ import annotations

import numpy as np

from traceanalyzer.simulation import streams, waits
from traceanalyzer.simulation.graph import NOTHING, RECORDED, DeviceChain, HostPoints, TakenTimes, shifted
from traceanalyzer.simulation.host_points import PlacedPoints
from traceanalyzer.simulation.streams import StreamEvents
from traceanalyzer.simulation.waits import Releases
from traceanalyzer.simulation.window import Calls, ModelledWindow
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.gap_causes import SHORT_GAP_NS
from traceanalyzer.structure.sums import members, rows_by
from traceanalyzer.structure.unrecorded_work import unrecorded_work
from traceanalyzer.trace.table import I64, Bool

_FAR_LONGER = 2
_LONGER_NS = 10_000
"""A call that takes at least twice as long as usual, and 10 us, did other work before its launch (own choices)."""


def build(
    context: Context, window: ModelledWindow, tables: tuple[Calls, StreamEvents, Releases], placed: PlacedPoints
) -> tuple[DeviceChain, TakenTimes]:
    """The device events with their causes.

    Args:
        context: The trace.
        window: The window.
        tables: Calls and device events of the window, and the causes that end the calls.
        placed: The points of the host.

    Returns:
        The table, and how many starts are inputs: after work from before the recording, and unlaunched.
    """
    calls, events, released = tables
    points, start_of = placed.points, placed.call_start
    judged_ns = int(points.time_ns[placed.step_start[0]])
    gap = streams.gaps(context, calls, events)
    candidates = waits.candidates(context, calls, events)
    launch, latency = _launches(context, calls, events, released, candidates[0], start_of)
    called = np.where(launch == NOTHING, np.iinfo(np.int64).min, np.append(points.time_ns, 0)[launch] + latency)
    # work of an unrecorded launch that starts right after other work was queued behind it
    gap = np.where((events.call == NOTHING) & (events.gap_ns() < SHORT_GAP_NS), events.gap_ns(), gap)
    follows = np.where(events.is_first, np.iinfo(np.int64).min, shifted(events.end_ns, 0) + gap)
    source, delay = waits.find_waits(calls, events, candidates, np.maximum(called, follows))
    unrecorded = _behind_unrecorded_work(context, calls, events)
    alone = (events.call == NOTHING) & (source == NOTHING)
    unlinked = alone & ~unrecorded & (events.is_first | (events.start_ns > follows))
    known, known_ns = launch, latency
    launch = np.where(unrecorded, RECORDED, launch)
    latency = np.where(unrecorded, events.start_ns, latency)
    launch[unlinked] = _last_point(points, start_of, calls, events, np.flatnonzero(unlinked))
    latency[unlinked] = (events.start_ns - np.where(launch >= 0, np.append(points.time_ns, 0)[launch], 0))[unlinked]
    inside = (events.start_ns >= window.step_start_ns[0]) & (events.start_ns < window.step_end_ns[-1])
    inside = np.where(events.call == NOTHING, inside, points.part[np.append(start_of, 0)[events.call]] >= 0)
    chain = DeviceChain(
        row=events.row,
        stream=events.stream,
        start_ns=events.start_ns,
        dur_ns=events.end_ns - events.start_ns,
        gap_ns=gap,
        launch=launch,
        latency_ns=latency,
        waits_for=source,
        wait_ns=delay,
        is_judged=np.where(events.call == NOTHING, events.start_ns, np.append(calls.start_ns, 0)[events.call])
        >= judged_ns,
        called=np.where(unrecorded, known, launch),
        called_ns=np.where(unrecorded, known_ns, latency),
        part=np.where(inside, 0, NOTHING),
    )
    pinned = int((events.end_ns - events.start_ns)[unlinked & inside].sum())
    return chain, TakenTimes(int(unrecorded.sum()), int(unlinked.sum()), released.unexplained, pinned)


def _launches(
    context: Context,
    calls: Calls,
    events: StreamEvents,
    released: Releases,
    may_wait: Bool,
    start_of: I64,
) -> tuple[I64, I64]:
    """The point from which each event is launched, and the time from there to its start.

    Work is launched at the start of its call, or at its end if the call takes far longer than usual, because it loads
    code or the queue is full. A call that waits for its own work has launched it before.
    """
    usual = streams.latencies(context, calls, events, may_wait)
    heads = np.flatnonzero(events.is_head)
    call = events.call[heads]
    launch = np.full(len(events), NOTHING)
    latency = np.zeros(len(events), np.int64)
    takes = released.usual_ns[call]
    long = calls.end_ns[call] - calls.start_ns[call] > _FAR_LONGER * takes + _LONGER_NS
    long &= events.start_ns[heads] >= calls.end_ns[call] - takes
    long &= np.append(events.call, NOTHING)[released.event[call]] != call
    launch[heads] = start_of[call] + long  # the end of a call follows its start
    latency[heads] = usual[heads] - np.where(long, takes, 0)
    return launch, latency


def _last_point(points: HostPoints, start_of: I64, calls: Calls, events: StreamEvents, rows: I64) -> I64:
    """For events without a recorded launch, the position of the thread that launched their successor on the stream.

    Returns:
        The last point of this thread before each starts, and no later than the launch of the successor;
            `RECORDED` if the thread is unknown.
    """
    after = np.where(events.is_head, np.arange(len(events)), len(events))
    after = np.minimum.accumulate(after[::-1])[::-1][rows]
    before = np.maximum.accumulate(np.where(events.is_head, np.arange(len(events)), NOTHING))[rows]
    stream = np.append(events.stream, NOTHING)
    following = np.where(stream[np.minimum(after, len(events))] == events.stream[rows], after, NOTHING)
    near = np.where(following != NOTHING, following, np.where(stream[before] == events.stream[rows], before, NOTHING))
    call = np.append(events.call, NOTHING)[near]
    thread = np.append(calls.thread, NOTHING)[call]
    bound = np.append(start_of, NOTHING)[np.append(events.call, NOTHING)[following]]
    point_before = np.full(len(rows), RECORDED)
    of_thread, known = rows_by(points.thread), np.flatnonzero(thread != NOTHING)
    for number, place in members(thread[known]):
        on_thread, asked = of_thread(number), known[place]
        last = np.searchsorted(points.time_ns[on_thread], events.start_ns[rows[asked]], side="right") - 1
        point = np.where(last >= 0, on_thread[np.maximum(last, 0)], RECORDED)
        limit = bound[asked]
        point_before[asked] = np.where(limit >= 0, np.minimum(point, np.where(limit >= 0, limit, point)), point)
    return point_before


def _behind_unrecorded_work(context: Context, calls: Calls, events: StreamEvents) -> Bool:
    """Mask of the events that come first on their stream after work that was launched before the recording.

    What was launched after that work had ended is held up by something else.
    """
    launched = np.append(calls.start_ns, np.iinfo(np.int64).min)[events.call]
    behind = np.zeros(len(events), np.bool_)
    for number, times in unrecorded_work(context).items():
        rows = np.flatnonzero(events.device == number)
        for end in times.end.tolist():
            after = rows[events.start_ns[rows] >= end]
            first = after[np.unique(events.stream[after], return_index=True)[1]]
            behind[first[launched[first] < end]] = True
    return behind
