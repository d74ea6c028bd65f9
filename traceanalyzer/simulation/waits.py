"""Waits between host, streams and devices: which device event ends a wait, and which waits for another stream.

A stream waits if the program calls `cudaStreamWaitEvent` before it launches the next work on that stream. The file does
not record the event that it waits for. It is taken to be the last event of another stream that was launched before, if
that ended just before the waiting event starts. If such calls are not recorded at all, each change of the stream may be
such a wait. Edges of a graph are not recorded, so all events of a graph may wait for each other.
"""

from __future__ import annotations

import re

import msgspec
import numpy as np

from traceanalyzer.simulation.graph import NOTHING, shifted
from traceanalyzer.simulation.streams import StreamEvents, typical
from traceanalyzer.simulation.window import Calls
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_activity import direction, host_side
from traceanalyzer.structure.sums import members, rows_by
from traceanalyzer.trace.table import I64, UNKNOWN, Bool
from traceanalyzer.trace.tables import Category

_WAIT = re.compile(r"StreamWaitEvent")
_JUST_NS = 20_000
"""Own choice: a waiting event starts at most this long after the end of the other, in ns."""
_JUST_SHARE = 0.05
"""Own choice: or at most this share of its unexplained delay after that end."""
_EXPLAINED_NS = 1_000
"""Own choice: an event that starts within so many ns after its predecessor and launch allow waits for no other."""


def find_waits(calls: Calls, events: StreamEvents, candidates: tuple[Bool, I64], earliest_ns: I64) -> tuple[I64, I64]:
    """For each event, the event that it waits for (or `NOTHING`), and the usual time from that end to its start.

    Args:
        calls: Calls of the window.
        events: Device events of the window.
        candidates: The result of `candidates`.
        earliest_ns: For each event, the earliest start that its stream and its launch allow.
    """
    unexplained = events.start_ns - earliest_ns
    inside = events.in_graph & (unexplained > _EXPLAINED_NS)
    waiting, before = candidates
    rows = np.flatnonzero(waiting | inside)
    limit = np.where(inside[rows], events.start_ns[rows], before[rows])
    source = np.full(len(events), NOTHING)
    source[rows] = _last_before(calls, events, rows, limit)
    known = np.flatnonzero(source != NOTHING)
    late = events.start_ns[known] - events.end_ns[source[known]]
    accepted = (late >= 0) & (late <= np.maximum(_JUST_NS, _JUST_SHARE * unexplained[known]))
    source[known[~accepted]] = NOTHING
    delay = np.zeros(len(events), np.int64)
    delay[known] = typical(late, accepted, (np.zeros(len(known), np.int64),))
    return source, np.where(source != NOTHING, delay, 0)


def candidates(context: Context, calls: Calls, events: StreamEvents) -> tuple[Bool, I64]:
    """Mask of the events that may wait for another stream, and the latest launch time of the work they wait for."""
    launches = context.trace.launches
    named = context.trace.names.where(lambda name: _WAIT.search(name) is not None)[launches.name]
    heads = np.flatnonzero(events.is_head)
    call = events.call[heads]
    order = np.lexsort((heads, calls.start_ns[call], calls.thread[call]))
    heads, call = heads[order], call[order]
    thread, start = calls.thread[call], calls.start_ns[call]
    waiting, until = np.zeros(len(events), np.bool_), events.start_ns.copy()
    if not named.any():
        switched = (events.stream[heads] != shifted(events.stream[heads], NOTHING)) & (
            thread == shifted(thread, NOTHING)
        )
        waiting[heads[switched]], until[heads[switched]] = True, start[switched]
        return waiting, until
    waits_of = rows_by(launches.thread[named])
    for number, rows in members(thread):
        wait = launches.start_ns[named][waits_of(number)]
        passed = np.searchsorted(wait, start[rows])
        waits = passed > np.append(0, passed)[:-1]
        waiting[heads[rows[waits]]] = True
        until[heads[rows[waits]]] = wait[passed[waits] - 1]
    return waiting, until


def _last_before(calls: Calls, events: StreamEvents, rows: I64, limit: I64) -> I64:
    """For each of some events, the last one to end among those of the device's other streams launched by a time."""
    event_before, ended = np.full(len(rows), NOTHING), np.full(len(rows), np.iinfo(np.int64).min)
    for number, on_stream in members(events.stream):
        others = np.flatnonzero((events.stream[rows] != number) & (events.device[rows] == events.device[on_stream[0]]))
        if not len(others):
            continue
        launched = np.maximum.accumulate(np.append(calls.start_ns, np.iinfo(np.int64).min)[events.call[on_stream]])
        reach = np.maximum.accumulate(events.end_ns[on_stream])
        last = np.searchsorted(launched, limit[others], side="right") - 1
        last = np.minimum(last, np.searchsorted(reach, events.start_ns[rows[others]], side="right") - 1)
        event = on_stream[np.maximum(last, 0)]
        better = (last >= 0) & (events.end_ns[event] > ended[others])
        event_before[others[better]], ended[others[better]] = event[better], events.end_ns[event[better]]
    return event_before


# Which device event ends a wait of the host?
#
# A waiting call returns after an event has ended that was launched before the call or by it. For each stream, that is
# the last such event that ended before the call returned; of all streams, the one that ended last.

_CLOCKS_NS = 2_000
"""Own choice: tolerance in ns for an event that seems to end after the call, because host and device clocks differ."""
_UNEXPLAINED_NS = 1_000_000
"""Own choice: a wait in which no device event ended is reported if it is at least this long, in ns."""


class Releases(msgspec.Struct, frozen=True):
    """The device event that ends each call, by position of the call."""

    event: I64
    """Position of the device event; `NOTHING` if the call waits for none."""
    delay_ns: I64
    """Typical time from the end of that event to the return of the call."""
    own_ns: I64
    """Time of the call without waiting."""
    usual_ns: I64
    """Typical time of calls of the same function that do not wait."""
    unexplained: int
    """Number of long waits in which no recorded event ended."""


def find_releases(context: Context, calls: Calls, events: StreamEvents) -> Releases:
    """Find the event that ends each waiting call, and the host's part of its duration."""
    event, ended = _last_ended(context, calls, events)
    duration = calls.end_ns - calls.start_ns
    held = calls.waits & (event != NOTHING) & (ended > calls.start_ns)
    held |= calls.allocates & _is_drained(calls, events, event, ended)
    name = context.trace.launches.name[calls.row].astype(np.int64)
    alone = typical(duration, ~held, (name,))
    at_least = np.minimum(alone, duration)
    delay = calls.end_ns - ended
    usual = typical(delay, held, (name,))
    usual = np.where(calls.allocates, delay, usual)  # after the device is done, the host does the work of allocating
    waited = calls.waits & ~held & (duration >= _UNEXPLAINED_NS)
    copy, before = _staged(context, calls, events)
    event[copy], held[copy] = before, True
    usual[copy] = calls.end_ns[copy] - events.end_ns[before]
    at_least[copy] = np.minimum(duration[copy], calls.end_ns[copy] - events.end_ns[before])
    return Releases(
        event=np.where(held, event, NOTHING),
        delay_ns=np.where(held, usual, 0),
        own_ns=np.where(held, at_least, duration),
        usual_ns=alone,
        unexplained=int(waited.sum()),
    )


def _staged(context: Context, calls: Calls, events: StreamEvents) -> tuple[I64, I64]:
    """Find copies from pageable memory that begin during their call, which returns when all data is staged.

    Such a call cannot stage its data before the stream has finished the work launched before.

    Returns:
        The calls that waited, and for each the event before its copy on the stream.
    """
    trace, row = context.trace, events.row
    named = trace.names.where(lambda name: host_side(name) == "pageable" and (direction(name) or "")[:1] == "H")
    place = np.flatnonzero((trace.device.category[row] == Category.MEMCPY) & events.is_head & ~events.is_first)
    place = place[named[trace.device.name[row[place]]]]
    call = events.call[place]
    behind = (events.end_ns[place - 1] > calls.start_ns[call]) & (events.start_ns[place] < calls.end_ns[call])
    behind &= ~calls.waits[call]
    return call[behind], place[behind] - 1


def _last_ended(context: Context, calls: Calls, events: StreamEvents) -> tuple[I64, I64]:
    """For each waiting call, the last event that it may have waited for, and the end of that event."""
    ended_last = np.full(len(calls), NOTHING)
    ended = np.full(len(calls), np.iinfo(np.int64).min)
    rows = np.flatnonzero(calls.waits | calls.allocates)
    only = _recorded_streams(context, calls, rows)
    for _, on_stream in members(events.stream):
        launched = np.maximum.accumulate(np.append(calls.start_ns, np.iinfo(np.int64).min)[events.call[on_stream]])
        reach = np.maximum.accumulate(events.end_ns[on_stream])
        last = np.searchsorted(launched, calls.start_ns[rows], side="right") - 1
        last = np.minimum(last, np.searchsorted(reach, calls.end_ns[rows] + _CLOCKS_NS, side="right") - 1)
        last = np.minimum(last, np.searchsorted(events.start_ns[on_stream], calls.end_ns[rows], side="left") - 1)
        number = int(context.trace.device.stream[events.row[on_stream[0]]])
        possible = (last >= 0) & ((only == UNKNOWN) | (only == number))
        event = on_stream[np.maximum(last, 0)]
        better = possible & (events.end_ns[event] > ended[rows])
        ended_last[rows[better]], ended[rows[better]] = event[better], events.end_ns[event[better]]
    return ended_last, ended


def _recorded_streams(context: Context, calls: Calls, rows: I64) -> I64:
    """The stream that each call waits for, if recorded on the device side, or `UNKNOWN`."""
    syncs, streams = context.trace.syncs, np.full(len(rows), UNKNOWN, np.int64)
    if not len(syncs):
        return streams
    known = np.flatnonzero(syncs.correlation != UNKNOWN)
    known = known[np.argsort(syncs.correlation[known], kind="stable")]
    ids = syncs.correlation[known]
    wanted = context.trace.launches.correlation[calls.row[rows]]
    place = np.searchsorted(ids, wanted)
    match = np.append(ids, -2)[place] == wanted
    streams[match] = syncs.stream[known[place[match]]]
    return streams


def _is_drained(calls: Calls, events: StreamEvents, event: I64, ended: I64) -> Bool:
    """Mask of the calls at whose return all work launched before had ended, the last of it during the call."""
    waited = (event != NOTHING) & (ended > calls.start_ns)
    launched = np.append(calls.start_ns, np.iinfo(np.int64).min)[events.call]
    order = np.argsort(launched, kind="stable")
    reach = np.maximum.accumulate(events.end_ns[order]) if len(order) else order
    before = np.searchsorted(launched[order], calls.start_ns, side="left")
    latest = np.append(np.iinfo(np.int64).min, reach)[before]
    drained: Bool = waited & (latest <= calls.end_ns + _CLOCKS_NS)
    return drained
