"""Which device event ends a wait of the host?

A waiting call returns after an event has ended that was launched before the call or by it. For each stream, that is the
last such event that ended before the call returned; of all streams, the one that ended last.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.simulation.calls import Calls
from traceanalyzer.simulation.graph import NOTHING
from traceanalyzer.simulation.streams import StreamEvents, typical
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_activity import direction, host_side
from traceanalyzer.structure.sums import members
from traceanalyzer.trace.table import I64, UNKNOWN, Bool
from traceanalyzer.trace.tables import Category

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


def find(context: Context, calls: Calls, events: StreamEvents) -> Releases:
    """Find the event that ends each waiting call, and the host's part of its duration."""
    event, ended = _last_ended(context, calls, events)
    duration = calls.end_ns - calls.start_ns
    held = calls.waits & (event != NOTHING) & (ended > calls.start_ns)
    held |= calls.allocates & _is_drained(calls, events, event, ended)
    name = context.trace.launches.name[calls.row].astype(np.int64)
    alone = typical(duration, ~held, (name,))
    own = np.minimum(alone, duration)
    delay = calls.end_ns - ended
    usual = typical(delay, held, (name,))
    usual = np.where(calls.allocates, delay, usual)  # after the device is done, the host does the work of allocating
    waited = calls.waits & ~held & (duration >= _UNEXPLAINED_NS)
    copy, before = _staged(context, calls, events)
    event[copy], held[copy] = before, True
    usual[copy] = calls.end_ns[copy] - events.end_ns[before]
    own[copy] = np.minimum(duration[copy], calls.end_ns[copy] - events.end_ns[before])
    return Releases(
        event=np.where(held, event, NOTHING),
        delay_ns=np.where(held, usual, 0),
        own_ns=np.where(held, own, duration),
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
    found = np.full(len(calls), NOTHING)
    ended = np.full(len(calls), np.iinfo(np.int64).min)
    rows = np.flatnonzero(calls.waits | calls.allocates)
    only = _recorded_streams(context, calls, rows)
    for _, own in members(events.stream):
        launched = np.maximum.accumulate(np.append(calls.start_ns, np.iinfo(np.int64).min)[events.call[own]])
        reach = np.maximum.accumulate(events.end_ns[own])
        last = np.searchsorted(launched, calls.start_ns[rows], side="right") - 1
        last = np.minimum(last, np.searchsorted(reach, calls.end_ns[rows] + _CLOCKS_NS, side="right") - 1)
        last = np.minimum(last, np.searchsorted(events.start_ns[own], calls.end_ns[rows], side="left") - 1)
        number = int(context.trace.device.stream[events.row[own[0]]])
        possible = (last >= 0) & ((only == UNKNOWN) | (only == number))
        event = own[np.maximum(last, 0)]
        better = possible & (events.end_ns[event] > ended[rows])
        found[rows[better]], ended[rows[better]] = event[better], events.end_ns[event[better]]
    return found, ended


def _recorded_streams(context: Context, calls: Calls, rows: I64) -> I64:
    """The stream that each call waits for, if recorded on the device side, or `UNKNOWN`."""
    syncs, found = context.trace.syncs, np.full(len(rows), UNKNOWN, np.int64)
    if not len(syncs):
        return found
    known = np.flatnonzero(syncs.correlation != UNKNOWN)
    known = known[np.argsort(syncs.correlation[known], kind="stable")]
    ids = syncs.correlation[known]
    wanted = context.trace.launches.correlation[calls.row[rows]]
    place = np.searchsorted(ids, wanted)
    match = np.append(ids, -2)[place] == wanted
    found[match] = syncs.stream[known[place[match]]]
    return found


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
