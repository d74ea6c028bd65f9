"""Which device event waits for an event of another stream?

A stream waits if the program calls `cudaStreamWaitEvent` before it launches the next work on that stream. The file does
not record the event that it waits for. It is taken to be the last event of another stream that was launched before, if
that ended just before the waiting event starts. If such calls are not recorded at all, each change of the stream may be
such a wait. Edges of a graph are not recorded, so all events of a graph may wait for each other.
"""

from __future__ import annotations

import re

import numpy as np

from traceanalyzer.simulation.calls import Calls
from traceanalyzer.simulation.graph import NOTHING, shifted
from traceanalyzer.simulation.streams import StreamEvents, typical
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.sums import members
from traceanalyzer.trace.table import I64, Bool

_WAIT = re.compile(r"StreamWaitEvent")
_JUST_NS = 20_000
"""Own choice: a waiting event starts at most this long after the end of the other, in ns."""
_JUST_SHARE = 0.05
"""Own choice: or at most this share of its unexplained delay after that end."""
_EXPLAINED_NS = 1_000
"""Own choice: an event that starts within so many ns after its predecessor and launch allow waits for no other."""


def find(calls: Calls, events: StreamEvents, candidates: tuple[Bool, I64], earliest_ns: I64) -> tuple[I64, I64]:
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
    found, until = np.zeros(len(events), np.bool_), events.start_ns.copy()
    if not named.any():
        switched = (events.stream[heads] != shifted(events.stream[heads], NOTHING)) & (
            thread == shifted(thread, NOTHING)
        )
        found[heads[switched]], until[heads[switched]] = True, start[switched]
        return found, until
    for number, rows in members(thread):
        wait = launches.start_ns[named & (launches.thread == number)]
        passed = np.searchsorted(wait, start[rows])
        waits = passed > np.append(0, passed)[:-1]
        found[heads[rows[waits]]] = True
        until[heads[rows[waits]]] = wait[passed[waits] - 1]
    return found, until


def _last_before(calls: Calls, events: StreamEvents, rows: I64, limit: I64) -> I64:
    """For each of some events, the last one to end among those of the device's other streams launched by a time."""
    found, ended = np.full(len(rows), NOTHING), np.full(len(rows), np.iinfo(np.int64).min)
    for number, own in members(events.stream):
        others = np.flatnonzero((events.stream[rows] != number) & (events.device[rows] == events.device[own[0]]))
        if not len(others):
            continue
        launched = np.maximum.accumulate(np.append(calls.start_ns, np.iinfo(np.int64).min)[events.call[own]])
        reach = np.maximum.accumulate(events.end_ns[own])
        last = np.searchsorted(launched, limit[others], side="right") - 1
        last = np.minimum(last, np.searchsorted(reach, events.start_ns[rows[others]], side="right") - 1)
        event = own[np.maximum(last, 0)]
        better = (last >= 0) & (events.end_ns[event] > ended[others])
        found[others[better]], ended[others[better]] = event[better], events.end_ns[event[better]]
    return found
