"""What cannot be true of a trace: more devices and streams than any machine has, events days apart, late returns.

Analyses look at devices and streams one by one, so a file that names one on every event would cost the square of its
size. Those with most events keep their numbers; the others count as unknown, and a warning has the number of their
events. Events a day before or after all others are dropped and counted. A call of Python that lasts longer than the one
around it is one whose return was not recorded: until torch 2.13, it lasts until the recording ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import fsum
from typing import Any

import numpy as np
from msgspec.structs import replace

from traceanalyzer.trace.model import Loss, Trace, all_tables
from traceanalyzer.trace.table import I32, I64, UNKNOWN, Bool, Table
from traceanalyzer.trace.tables import DeviceEvents, Frames

_FAR_NS = 24 * 3600 * 10**9
"""Distance or duration beyond which a time must be wrong, because no profile lasts a day."""

_FEW = 0.01
"""Share of far events up to which they are strays; more of them, and the file is made that way."""

_ABSURD_NS = 1 << 57
"""Span of four years, beyond which far events are dropped however many they are: differences of such times no longer
fit into 64 bits with what is added to them."""

_SAMPLES = "counters"

DEVICES = 64
"""A process sees those of its machine, of which there are 16 at most."""

STREAMS = 512
"""Most streams of all devices together; a device has queues for 128 at a time."""


def with_limited_ids(events: DeviceEvents) -> tuple[DeviceEvents, tuple[Loss, ...]]:
    """Forget the ids of all but the `DEVICES` devices and `STREAMS` streams that have most events.

    Args:
        events: All events of devices.

    Returns:
        The events, with `UNKNOWN` in place of these ids, and a loss for each kind of ids with the number of events.
    """
    losses = []
    crowd = _crowd(events.device.astype(np.int64), DEVICES)
    if crowd.any():
        losses.append(Loss("read-many-devices", int(crowd.sum()), {"kept": DEVICES}))
        events = events.changed(device=_forgotten(events.device, crowd))
    crowd = _crowd(_places(events), STREAMS)
    if crowd.any():
        losses.append(Loss("read-many-streams", int(crowd.sum()), {"kept": STREAMS}))
        events = events.changed(stream=np.where(crowd, UNKNOWN, events.stream))
    return events, tuple(losses)


_ROUNDED_NS = 2_000
"""Nanoseconds by which a call may seem to outlive its caller: writers rounded start and duration to microseconds."""


def with_returns(frames: Frames) -> tuple[Frames, tuple[Loss, ...]]:
    """Let calls that outlive their callers end where these end, or where these call another function.

    As torch does from 2.14 on; a caller is the one whose id the call names.

    Returns:
        The calls, and a loss with the number of those that end earlier now, if there are any.
    """
    caller = _callers(frames)
    around: I64 = np.append(frames.end_ns, np.iinfo(np.int64).max)  # the last one is of those without a caller
    outlive = frames.end_ns - _ROUNDED_NS > around[caller]
    if not outlive.any():
        return frames, ()
    around[:-1] = np.where(outlive, np.minimum(frames.end_ns, _next_calls(frames, caller)), frames.end_ns)
    for _ in range(len(caller).bit_length()):  # callers of callers, twice as far each time
        around[:-1] = np.minimum(around[:-1], around[caller])
        caller = np.append(caller, UNKNOWN)[caller]
    late = (frames.end_ns > around[:-1] + _ROUNDED_NS) & (around[:-1] >= frames.start_ns)
    end = np.where(late, around[:-1], frames.end_ns)
    return frames.changed(dur_ns=end - frames.start_ns), (Loss("read-no-return", int(late.sum())),)


def _callers(frames: Frames) -> I64:
    """For each call the row of the one that contains its start, on its thread, and has the id that it names."""
    if not len(frames):
        return np.zeros(0, np.int64)
    own, wanted = ((frames.thread.astype(np.int64) << 40) + ids for ids in (frames.python_id, frames.parent_id))
    order = np.argsort(own, kind="stable")
    row = order[np.minimum(np.searchsorted(own, wanted, sorter=order), len(order) - 1)]
    is_around = (frames.start_ns[row] <= frames.start_ns) & (frames.end_ns[row] >= frames.start_ns)
    is_known = (own[row] == wanted) & (frames.parent_id >= 0) & is_around & (row != np.arange(len(row)))
    return np.where(is_known, row, UNKNOWN)


def _next_calls(frames: Frames, caller: I64) -> I64:
    """When the caller of each call calls something else."""
    order = np.lexsort((frames.start_ns, caller))
    start = np.full(len(caller), np.iinfo(np.int64).max)
    is_same = caller[order][1:] == caller[order][:-1]
    start[order[:-1][is_same]] = frames.start_ns[order[1:][is_same]]
    return start


def _places(events: DeviceEvents) -> I64:
    """A number for each stream of each device; unknown where the stream is."""
    stream, device = (np.unique(column, return_inverse=True)[1] for column in (events.stream, events.device))
    return np.where(events.stream == UNKNOWN, UNKNOWN, stream * (int(device.max(initial=0)) + 1) + device)


def _crowd(places: I64, most: int) -> Bool:
    """Which events lie at none of the places that have most events; of equal ones the lower numbers stay."""
    known = places != UNKNOWN
    numbers, counts = np.unique(places[known], return_counts=True)
    kept = numbers[np.lexsort((numbers, -counts))[:most]]
    return known & ~np.isin(places, kept) if len(numbers) > most else np.zeros(len(places), np.bool_)


def _forgotten(numbers: I32, crowd: Bool) -> I32:
    return np.where(crowd, UNKNOWN, numbers).astype(np.int32)


def without_far_events(trace: Trace) -> Trace:
    """Drop events whose time cannot be true, count them, and let time begin with the first remaining event.

    Samples of counters are no events: they may lie before the first one and after the last.

    Args:
        trace: The whole trace, with times of the file's clock.

    Returns:
        The trace with times since its first event, and with a loss if events were dropped.
    """
    tables = all_tables(trace)
    middle = _middle(tables.values())
    kept = {name: _near(table, middle) for name, table in tables.items()}
    strays = Counter({name: int((~rows).sum()) for name, rows in kept.items()})
    is_made_so = strays.total() > _FEW * fsum(map(len, tables.values())) + 1
    if is_made_so and _span_ns(tables.values()) <= _ABSURD_NS:
        strays.clear()
    if strays.total():
        for name, count in strays.items():
            if count:
                tables[name] = tables[name].take(kept[name])
        losses = (*trace.losses, Loss("read-absurd-time", strays.total()))
        trace = replace(trace, losses=tuple(sorted(losses, key=lambda loss: loss.id)))
    return _from_first_event(trace, tables, middle)


def _middle(tables: Iterable[Table]) -> int:
    """The median of the starts of some events of each table."""
    starts = [table.start_ns for table in tables if len(table)]
    return int(np.median(np.concatenate([times[:: max(1, len(times) // 10_000)] for times in starts])))


def _from_first_event(trace: Trace, tables: dict[str, Table], middle: int) -> Trace:
    """Let time begin with the first event of the tables, which are in the order of time."""
    origin = min(int(table.start_ns[0]) for name, table in tables.items() if len(table) and name != _SAMPLES)
    shifted = {name: _shifted(table, origin) for name, table in tables.items()}
    end = max(int(_ends(table).max()) for name, table in shifted.items() if len(table) and name != _SAMPLES)
    began = trace.info.profiler_start_ns
    if began is not None:
        began = began - origin if abs(began - middle) <= _FAR_NS else None
    info = replace(trace.info, origin_ns=origin, span_ns=end, profiler_start_ns=began)
    changes: dict[str, Any] = {**shifted, "info": info}
    return replace(trace, **changes)


def _span_ns(tables: Iterable[Table]) -> int:
    """Time from the first start to the last end; in Python's integers, because it may exceed 64 bits."""
    filled = [table for table in tables if len(table)]
    return max(int(_ends(table).max()) for table in filled) - min(int(table.start_ns.min()) for table in filled)


def _shifted(table: Table, origin: int) -> Table:
    changes: dict[str, Any] = {"start_ns": table.start_ns - origin}
    return table.changed(**changes)


def _near(table: Table, middle: int) -> Bool:
    near: Bool = np.abs(table.start_ns - middle) <= _FAR_NS
    if hasattr(table, "dur_ns"):
        near &= table.dur_ns <= _FAR_NS
    return near


def _ends(table: Table) -> I64:
    return table.start_ns + getattr(table, "dur_ns", 0)
