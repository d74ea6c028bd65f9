"""Waits between host, streams and devices: which device event ends a wait, and which waits for another stream.

A stream waits if the program calls `cudaStreamWaitEvent` before it launches the next work on that stream. Most files do
not record the event that it waits for. It is taken to be the last event of another stream that was launched before, if
that ended just before the waiting event starts. If such calls are not recorded at all, each change of the stream may
be such a wait. Where synchronizations were recorded on the device (`cuda_sync`), they name the call that recorded the
event. Most writers do not record the edges of a graph, so all events of a graph may wait for each other; where there
are arrows, what they say is exact.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec
import numpy as np

from traceanalyzer.simulation.graph import NOTHING, shifted
from traceanalyzer.simulation.streams import StreamEvents, typical
from traceanalyzer.simulation.window import Calls
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.graph_dependencies import dependencies
from traceanalyzer.structure.host_activity import direction, host_side
from traceanalyzer.structure.sums import members, rows_by
from traceanalyzer.trace.table import I32, I64, UNKNOWN, Bool
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
    is_in_graph = events.in_graph & (unexplained > _EXPLAINED_NS)
    may_wait, launched_by = candidates
    rows = np.flatnonzero(may_wait | is_in_graph)
    limit = np.where(is_in_graph[rows], events.start_ns[rows], launched_by[rows])
    source = np.full(len(events), NOTHING)
    source[rows] = _last_before(calls, events, rows, limit)

    known = np.flatnonzero(source != NOTHING)
    late = events.start_ns[known] - events.end_ns[source[known]]
    most_late = np.maximum(_JUST_NS, _JUST_SHARE * unexplained[known])
    is_accepted = (late >= 0) & (late <= most_late)
    source[known[~is_accepted]] = NOTHING
    delay = np.zeros(len(events), np.int64)
    delay[known] = typical(late, is_accepted, (np.zeros(len(known), np.int64),))
    return source, np.where(source != NOTHING, delay, 0)


def by_records(context: Context, calls: Calls, events: StreamEvents, source: I64, delay_ns: I64) -> tuple[I64, I64]:
    """What `find_waits` found, but for waits of streams that are recorded with the event that they wait for.

    The next work of the waiting stream waits for what the other stream was given before that event; of several such
    waits, for the last to end.
    """
    waits = _RecordedWaits.of(context)
    if not len(waits.called_ns):
        return source, delay_ns
    first, second = _held(context, calls, events, waits)
    known = np.flatnonzero((first != NOTHING) & (second != NOTHING))
    late = events.start_ns[second[known]] - events.end_ns[first[known]]
    known, late = known[late >= 0], late[late >= 0]
    usual = np.minimum(typical(late, late <= _JUST_NS, (np.zeros(len(known), np.int64),)), late)
    order = np.argsort(events.end_ns[first[known]], kind="stable")  # the last to end is written last
    source, delay_ns = source.copy(), delay_ns.copy()
    source[second[known[order]]] = first[known[order]]
    delay_ns[second[known[order]]] = usual[order]
    return source, delay_ns


def _held(context: Context, calls: Calls, events: StreamEvents, waits: _RecordedWaits) -> tuple[I64, I64]:
    """For each recorded wait, the last work before its event and the first work after it; `NOTHING` for none."""
    first, second = (np.full(len(waits.called_ns), NOTHING) for _ in range(2))
    for _, on_stream in members(events.stream):
        row = events.row[on_stream[0]]
        device, stream = context.trace.device.device[row], context.trace.device.stream[row]
        launched = _StreamReach.of(calls, events, on_stream).launched_ns
        given = np.flatnonzero((waits.device == device) & (waits.waited_stream == stream))
        number = np.searchsorted(launched, waits.recorded_ns[given], side="right") - 1
        first[given[number >= 0]] = on_stream[number[number >= 0]]
        held = np.flatnonzero((waits.device == device) & (waits.stream == stream))
        number = np.searchsorted(launched, waits.called_ns[held], side="right")
        is_followed = number < len(on_stream)
        second[held[is_followed]] = on_stream[number[is_followed]]
    return first, second


class _RecordedWaits(NamedTuple):
    """Waits of streams for events of others, as recorded on the device's side. Shapes (waits,)."""

    device: I32
    stream: I64
    waited_stream: I64
    called_ns: I64
    """Start of the call that lets the stream wait."""
    recorded_ns: I64
    """Start of the call that recorded the event: what its stream was given before is waited for."""

    @classmethod
    def of(cls, context: Context) -> _RecordedWaits:
        """Those whose two calls are in the trace."""
        syncs = context.trace.syncs
        between = (syncs.stream != UNKNOWN) & (syncs.waited_stream != UNKNOWN) & (syncs.stream != syncs.waited_stream)
        rows = np.flatnonzero(between & (syncs.correlation != UNKNOWN) & (syncs.record != UNKNOWN))
        called, recorded = (_starts(context, ids[rows]) for ids in (syncs.correlation, syncs.record))
        both = (called != UNKNOWN) & (recorded != UNKNOWN)
        rows = rows[both]
        return cls(
            syncs.device[rows],
            syncs.stream[rows],
            syncs.waited_stream[rows],
            called[both],
            recorded[both],
        )


def _starts(context: Context, ids: I64) -> I64:
    """The starts of the calls with these ids of correlation; `UNKNOWN` for ids that no call has."""
    launches = context.trace.launches
    order = np.argsort(launches.correlation, kind="stable")
    place = np.searchsorted(launches.correlation[order], ids)
    found = np.append(order, 0)[place]
    is_call = np.append(launches.correlation, -2)[found] == ids
    starts: I64 = np.where(is_call & (place < len(order)), np.append(launches.start_ns, 0)[found], UNKNOWN)
    return starts


def by_arrows(context: Context, events: StreamEvents, source: I64, delay_ns: I64) -> tuple[I64, I64]:
    """What `find_waits` found, but for work of graphs whose dependencies the writer drew: it waits for these.

    Of several events of other streams it waits for the last one to end. Callbacks between the two take as long as they
    did.
    """
    known = dependencies(context)
    if not len(known.second):
        return source, delay_ns
    position = np.full(len(context.trace.device) + 1, NOTHING)
    position[events.row] = np.arange(len(events))
    first, second = position[known.first], position[known.second]
    drawn = (first != NOTHING) & (second != NOTHING)
    source, delay_ns = source.copy(), delay_ns.copy()
    source[second[drawn]], delay_ns[second[drawn]] = NOTHING, 0
    late = events.start_ns[second] - events.end_ns[first]
    waits = np.flatnonzero(drawn & (late >= 0) & (events.stream[first] != events.stream[second]))
    waits = waits[np.argsort(events.end_ns[first[waits]], kind="stable")]  # the last to end is written last
    usual = typical(late[waits], known.is_direct[waits], (np.zeros(len(waits), np.int64),))
    source[second[waits]] = first[waits]
    delay_ns[second[waits]] = np.where(known.is_direct[waits], usual, late[waits])
    return source, delay_ns


def candidates(context: Context, calls: Calls, events: StreamEvents) -> tuple[Bool, I64]:
    """Mask of the events that may wait for another stream, and the latest launch time of the work they wait for."""
    launches = context.trace.launches
    is_wait = context.trace.names.where(lambda name: _WAIT.search(name) is not None)[launches.name]
    # the first events of calls, in the order of threads and their calls
    heads = np.flatnonzero(events.is_head)
    call = events.call[heads]
    order = np.lexsort((heads, calls.start_ns[call], calls.thread[call]))
    heads = heads[order]
    thread, start = calls.thread[call[order]], calls.start_ns[call[order]]
    if is_wait.any():
        waiting, launched_by = _after_wait_calls(launches.thread[is_wait], launches.start_ns[is_wait], thread, start)
    else:
        waiting = np.flatnonzero(_switches(events.stream[heads], thread))
        launched_by = start[waiting]
    may_wait = np.zeros(len(events), np.bool_)
    may_wait[heads[waiting]] = True
    until = events.start_ns.copy()
    until[heads[waiting]] = launched_by
    return may_wait, until


def _after_wait_calls(wait_thread: I32, wait_start: I64, thread: I64, start: I64) -> tuple[I64, I64]:
    """The launches before which their thread let a stream wait since its last launch, and when it last did.

    Args:
        wait_thread: Thread of each call that lets a stream wait.
        wait_start: Start of each such call.
        thread: Thread of each launch.
        start: Start of each launch, ascending on each thread.
    """
    waits_of = rows_by(wait_thread)
    waiting, last_wait = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for number, rows in members(thread):
        starts_of_waits = wait_start[waits_of(number)]
        passed = np.searchsorted(starts_of_waits, start[rows])
        is_waiting = passed > np.append(0, passed)[:-1]
        waiting.append(rows[is_waiting])
        last_wait.append(starts_of_waits[passed[is_waiting] - 1])
    return np.concatenate(waiting), np.concatenate(last_wait)


def _switches(stream: I64, thread: I64) -> Bool:
    """Mask of the launches to another stream than the one before on their thread."""
    switches: Bool = (stream != shifted(stream, NOTHING)) & (thread == shifted(thread, NOTHING))
    return switches


class _StreamReach(NamedTuple):
    """How far a stream has got, for the search of its last event to end by a time. Shapes (events of the stream,)."""

    event: I64
    """Positions of the events of the stream."""
    launched_ns: I64
    """The latest launch of this event and all before it."""
    ended_ns: I64
    """The latest end of this event and all before it."""

    @classmethod
    def of(cls, calls: Calls, events: StreamEvents, on_stream: I64) -> _StreamReach:
        """The events of a stream, given by their positions."""
        launched = np.append(calls.start_ns, np.iinfo(np.int64).min)[events.call[on_stream]]
        ended = events.end_ns[on_stream]
        return cls(on_stream, np.maximum.accumulate(launched), np.maximum.accumulate(ended))

    def last(self, launched_by: I64, ended_by: I64) -> I64:
        """The last event launched and ended by given times, as its number on the stream; -1 for none."""
        last_launched = np.searchsorted(self.launched_ns, launched_by, side="right") - 1
        last_ended = np.searchsorted(self.ended_ns, ended_by, side="right") - 1
        return np.minimum(last_launched, last_ended)


class _LastEnded(NamedTuple):
    """The event that ended last, of those seen so far, for each of some rows. Shapes (rows,)."""

    event: I64
    """Its position; `NOTHING` for none."""
    end_ns: I64

    @classmethod
    def nothing(cls, rows: int) -> _LastEnded:
        """Before any event is seen."""
        return cls(np.full(rows, NOTHING), np.full(rows, np.iinfo(np.int64).min))

    def see(self, rows: I64, event: I64, end_ns: I64) -> None:
        """Keep the events that ended later than those of some rows."""
        is_later = end_ns > self.end_ns[rows]
        self.event[rows[is_later]] = event[is_later]
        self.end_ns[rows[is_later]] = end_ns[is_later]


def _last_before(calls: Calls, events: StreamEvents, rows: I64, limit: I64) -> I64:
    """For each of some events, the last one to end among those of the device's other streams launched by a time."""
    last_ended = _LastEnded.nothing(len(rows))
    for number, on_stream in members(events.stream):
        is_same_device = events.device[rows] == events.device[on_stream[0]]
        others = np.flatnonzero((events.stream[rows] != number) & is_same_device)
        if not len(others):
            continue
        reach = _StreamReach.of(calls, events, on_stream)
        last = reach.last(limit[others], events.start_ns[rows[others]])
        others = others[last >= 0]
        event = on_stream[last[last >= 0]]
        last_ended.see(others, event, events.end_ns[event])
    return last_ended.event


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
    is_held = calls.waits & (event != NOTHING) & (ended > calls.start_ns)
    is_held |= calls.allocates & _is_drained(calls, events, event, ended)
    name = context.trace.launches.name[calls.row].astype(np.int64)
    alone = typical(duration, ~is_held, (name,))
    own = np.minimum(alone, duration)
    delay = calls.end_ns - ended
    # after the device is done, the host does the work of allocating
    delay = np.where(calls.allocates, delay, typical(delay, is_held, (name,)))
    is_unexplained = calls.waits & ~is_held & (duration >= _UNEXPLAINED_NS)

    copy, before = _staged(context, calls, events)
    event[copy] = before
    is_held[copy] = True
    delay[copy] = calls.end_ns[copy] - events.end_ns[before]
    own[copy] = np.minimum(duration[copy], delay[copy])
    return Releases(
        event=np.where(is_held, event, NOTHING),
        delay_ns=np.where(is_held, delay, 0),
        own_ns=np.where(is_held, own, duration),
        usual_ns=alone,
        unexplained=int(is_unexplained.sum()),
    )


def _staged(context: Context, calls: Calls, events: StreamEvents) -> tuple[I64, I64]:
    """Find copies from pageable memory that begin during their call, which returns when all data is staged.

    Such a call cannot stage its data before the stream has finished the work launched before.

    Returns:
        The calls that waited, and for each the event before its copy on the stream.
    """
    trace = context.trace
    is_pageable = trace.names.where(lambda name: host_side(name) == "pageable" and (direction(name) or "")[:1] == "H")
    is_copy = trace.device.category[events.row] == Category.MEMCPY
    copies = np.flatnonzero(is_copy & events.is_head & ~events.is_first)
    copies = copies[is_pageable[trace.device.name[events.row[copies]]]]
    call = events.call[copies]
    is_behind = events.end_ns[copies - 1] > calls.start_ns[call]
    starts_inside = events.start_ns[copies] < calls.end_ns[call]
    waits = is_behind & starts_inside & ~calls.waits[call]
    return call[waits], copies[waits] - 1


def _last_ended(context: Context, calls: Calls, events: StreamEvents) -> tuple[I64, I64]:
    """For each waiting call, the last event that it may have waited for, and the end of that event."""
    last_ended = _LastEnded.nothing(len(calls))
    rows = np.flatnonzero(calls.waits | calls.allocates)
    only_stream = _recorded_streams(context, calls, rows)
    for _, on_stream in members(events.stream):
        reach = _StreamReach.of(calls, events, on_stream)
        last = reach.last(calls.start_ns[rows], calls.end_ns[rows] + _CLOCKS_NS)
        last_begun = np.searchsorted(events.start_ns[on_stream], calls.end_ns[rows], side="left") - 1
        last = np.minimum(last, last_begun)
        number = int(context.trace.device.stream[events.row[on_stream[0]]])
        is_possible = (last >= 0) & ((only_stream == UNKNOWN) | (only_stream == number))
        event = on_stream[last[is_possible]]
        last_ended.see(rows[is_possible], event, events.end_ns[event])
    return last_ended.event, last_ended.end_ns


def _recorded_streams(context: Context, calls: Calls, rows: I64) -> I64:
    """The stream that each call waits for, if recorded on the device side, or `UNKNOWN`."""
    syncs = context.trace.syncs
    streams = np.full(len(rows), UNKNOWN, np.int64)
    if not len(syncs):
        return streams
    known = np.flatnonzero(syncs.correlation != UNKNOWN)
    known = known[np.argsort(syncs.correlation[known], kind="stable")]
    ids = syncs.correlation[known]
    wanted = context.trace.launches.correlation[calls.row[rows]]
    number = np.searchsorted(ids, wanted)
    is_recorded = np.append(ids, -2)[number] == wanted
    streams[is_recorded] = syncs.stream[known[number[is_recorded]]]
    return streams


def _is_drained(calls: Calls, events: StreamEvents, event: I64, ended: I64) -> Bool:
    """Mask of the calls at whose return all work launched before had ended, the last of it during the call."""
    ended_inside = (event != NOTHING) & (ended > calls.start_ns)
    # the latest end of all events launched before each call
    launched = np.append(calls.start_ns, np.iinfo(np.int64).min)[events.call]
    order = np.argsort(launched, kind="stable")
    reach = np.maximum.accumulate(events.end_ns[order]) if len(order) else order
    before = np.searchsorted(launched[order], calls.start_ns, side="left")
    latest = np.append(np.iinfo(np.int64).min, reach)[before]
    drained: Bool = ended_inside & (latest <= calls.end_ns + _CLOCKS_NS)
    return drained
