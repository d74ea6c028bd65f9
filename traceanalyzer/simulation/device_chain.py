"""Device events and their causes: their launch, their stream, and events of other streams."""

from __future__ import annotations

from typing import NamedTuple

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

_NEVER = np.iinfo(np.int64).min
"""A time before all others."""
_FAR_LONGER = 2
_LONGER_NS = 10_000
"""A call that takes at least twice as long as usual, and 10 us, did other work before its launch (own choices)."""


class WindowTables(NamedTuple):
    """What is known of the calls and device events of a window."""

    calls: Calls
    events: StreamEvents
    releases: Releases
    """The causes that end the calls."""


def build(
    context: Context, window: ModelledWindow, tables: WindowTables, placed: PlacedPoints
) -> tuple[DeviceChain, TakenTimes]:
    """The device events with their causes.

    Args:
        context: The trace.
        window: The window.
        tables: Calls and device events of the window.
        placed: The points of the host.

    Returns:
        The table, and how many starts are inputs: after work from before the recording, and unlaunched.
    """
    events = tables.events
    candidates = waits.candidates(context, tables.calls, events)
    called = _launches(context, tables, candidates[0], placed.call_start)
    gap = _gaps(context, tables.calls, events)
    follows = np.where(events.is_first, _NEVER, shifted(events.end_ns, 0) + gap)
    earliest = np.maximum(called.start_ns(placed.points), follows)
    source, delay = waits.find_waits(tables.calls, events, candidates, earliest)
    source, delay = waits.by_records(context, tables.calls, events, source, delay)
    source, delay = waits.by_arrows(context, events, source, delay)

    is_behind = _behind_unrecorded_work(context, tables.calls, events)
    is_unlinked = (events.call == NOTHING) & (source == NOTHING) & ~is_behind
    is_unlinked &= events.is_first | (events.start_ns > follows)
    decided = _decided(called, is_behind, events)
    _launch_unlinked(placed, tables, np.flatnonzero(is_unlinked), decided)
    chain = DeviceChain(
        row=events.row,
        stream=events.stream,
        start_ns=events.start_ns,
        dur_ns=events.end_ns - events.start_ns,
        gap_ns=gap,
        launch=decided.point,
        latency_ns=decided.latency_ns,
        waits_for=source,
        wait_ns=delay,
        is_judged=_begun(tables.calls, events) >= placed.points.time_ns[placed.step_start[0]],
        called=np.where(is_behind, called.point, decided.point),
        called_ns=np.where(is_behind, called.latency_ns, decided.latency_ns),
        part=_part(window, placed, events),
    )
    taken = TakenTimes(
        unrecorded_starts=int(is_behind.sum()),
        unlinked_starts=int(is_unlinked.sum()),
        unexplained_waits=tables.releases.unexplained,
        pinned_ns=int(chain.dur_ns[is_unlinked & (chain.part != NOTHING)].sum()),
    )
    return chain, taken


def _gaps(context: Context, calls: Calls, events: StreamEvents) -> I64:
    """The usual time from the event before to each event.

    Work of an unrecorded launch that starts right after other work was queued behind it: its gap is the recorded one.
    """
    recorded = events.gap_ns()
    is_queued = (events.call == NOTHING) & (recorded < SHORT_GAP_NS)
    return np.where(is_queued, recorded, streams.gaps(context, calls, events))


class _Launches(NamedTuple):
    """What launches each event. Shapes (events,)."""

    point: I64
    """The point from which it is launched; `NOTHING` for none, `RECORDED` if its start is an input."""
    latency_ns: I64
    """Time from there to its start."""

    def start_ns(self, points: HostPoints) -> I64:
        """When each event starts, as far as its launch tells; `_NEVER` for those without one."""
        return np.where(self.point == NOTHING, _NEVER, np.append(points.time_ns, 0)[self.point] + self.latency_ns)


def _decided(called: _Launches, is_behind: Bool, events: StreamEvents) -> _Launches:
    """The launches that decide when events start: those behind unrecorded work start when they did."""
    return _Launches(
        point=np.where(is_behind, RECORDED, called.point),
        latency_ns=np.where(is_behind, events.start_ns, called.latency_ns),
    )


def _begun(calls: Calls, events: StreamEvents) -> I64:
    """When each event was launched; of those without a recorded launch, when it started."""
    return np.where(events.call == NOTHING, events.start_ns, np.append(calls.start_ns, 0)[events.call])


def _part(window: ModelledWindow, placed: PlacedPoints, events: StreamEvents) -> I64:
    """0 for the events that the judged steps launched, or that start in them without a launch; `NOTHING` for others."""
    starts_inside = (events.start_ns >= window.step_start_ns[0]) & (events.start_ns < window.step_end_ns[-1])
    part_of_call = placed.points.part[np.append(placed.call_start, 0)[events.call]]
    is_inside = np.where(events.call == NOTHING, starts_inside, part_of_call >= 0)
    return np.where(is_inside, 0, NOTHING)


def _launches(context: Context, tables: WindowTables, may_wait: Bool, start_of: I64) -> _Launches:
    """The point from which each event is launched, and the time from there to its start.

    Work is launched at the start of its call, or at its end if the call takes far longer than usual, because it loads
    code or the queue is full. A call that waits for its own work has launched it before.
    """
    calls, events, released = tables
    usual = streams.latencies(context, calls, events, may_wait)
    heads = np.flatnonzero(events.is_head)
    call = events.call[heads]
    usual_call = released.usual_ns[call]
    duration = calls.end_ns[call] - calls.start_ns[call]
    waits_for_itself = np.append(events.call, NOTHING)[released.event[call]] == call
    is_late = duration > _FAR_LONGER * usual_call + _LONGER_NS
    is_late &= events.start_ns[heads] >= calls.end_ns[call] - usual_call
    is_late &= ~waits_for_itself

    launches = _Launches(np.full(len(events), NOTHING), np.zeros(len(events), np.int64))
    launches.point[heads] = start_of[call] + is_late  # the end of a call follows its start
    launches.latency_ns[heads] = usual[heads] - np.where(is_late, usual_call, 0)
    return launches


def _launch_unlinked(placed: PlacedPoints, tables: WindowTables, rows: I64, launches: _Launches) -> None:
    """Let events without a recorded launch start as long after the last point of their thread as they did."""
    calls, events, _ = tables
    near, following = _calls_around(events, rows)
    thread = np.append(calls.thread, NOTHING)[near]
    limit = np.append(placed.call_start, NOTHING)[following]
    point = _last_point(placed.points, thread, events.start_ns[rows], limit)
    point_ns = np.where(point >= 0, placed.points.time_ns[point], 0)
    launches.point[rows] = point
    launches.latency_ns[rows] = events.start_ns[rows] - point_ns


def _calls_around(events: StreamEvents, rows: I64) -> tuple[I64, I64]:
    """Calls around some events on their streams, or `NOTHING`.

    Returns:
        The call of the next event with a recorded launch, or else of the last one; and only that of the next one.
    """
    position = np.arange(len(events))
    after = np.where(events.is_head, position, len(events))
    after = np.minimum.accumulate(after[::-1])[::-1][rows]
    before = np.maximum.accumulate(np.where(events.is_head, position, NOTHING))[rows]
    stream = np.append(events.stream, NOTHING)
    call = np.append(events.call, NOTHING)
    following = np.where(stream[after] == events.stream[rows], after, NOTHING)
    previous = np.where(stream[before] == events.stream[rows], before, NOTHING)
    near = np.where(following != NOTHING, following, previous)
    return call[near], call[following]


def _last_point(points: HostPoints, thread: I64, times: I64, limit: I64) -> I64:
    """The last point of a thread before each time.

    Args:
        points: All points.
        thread: The thread of each time, or `NOTHING`.
        times: Times in ns.
        limit: For each time the point that is the last one possible, or a negative number.

    Returns:
        Positions of points; `RECORDED` if the thread is unknown.
    """
    last_point = np.full(len(times), RECORDED)
    points_of = rows_by(points.thread)
    known = np.flatnonzero(thread != NOTHING)
    for number, members_of_thread in members(thread[known]):
        asked = known[members_of_thread]
        on_thread = points_of(number)
        last = np.searchsorted(points.time_ns[on_thread], times[asked], side="right") - 1
        point = np.where(last >= 0, on_thread[np.maximum(last, 0)], RECORDED)
        is_limited = limit[asked] >= 0
        last_point[asked] = np.where(is_limited, np.minimum(point, limit[asked]), point)
    return last_point


def _behind_unrecorded_work(context: Context, calls: Calls, events: StreamEvents) -> Bool:
    """Mask of the events that come first on their stream after work that was launched before the recording.

    What was launched after that work had ended is held up by something else.
    """
    launched = np.append(calls.start_ns, _NEVER)[events.call]
    behind = np.zeros(len(events), np.bool_)
    for number, times in unrecorded_work(context).items():
        rows = np.flatnonzero(events.device == number)
        for end in times.end.tolist():
            after = rows[events.start_ns[rows] >= end]
            _, first = np.unique(events.stream[after], return_index=True)
            next_on_stream = after[first]
            behind[next_on_stream[launched[next_on_stream] < end]] = True
    return behind
