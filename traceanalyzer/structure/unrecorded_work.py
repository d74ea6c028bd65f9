"""When did a device most likely run work that was launched before the recording began?

A stream runs its work in order. Three signs at the start of a recording, before much work was launched, show that
unrecorded work was in front; each counts only while no recorded event runs:

* an event starts long after its launch call returned, and later ones on its stream do not;
* a call waits for the device although no launch was recorded before it;
* a copy starts late within its own call, and the copies of later calls do not.

They do not count if the program loads code or allocates memory before its first work, because it has just begun to use
the device, which also takes time. Host work in this time does not keep the device waiting, so this time is not idle
time of the program.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from traceanalyzer.structure import busy_times, host_activity
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.sums import group
from traceanalyzer.trace.distinct import ascending, distinct
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, UNKNOWN
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

LEAST_NS = 1_000_000
"""Own choice: a first launch, copy or wait may well take less on an idle device."""
_EMPTY = 0.9
"""Share of a delay in which the device must run nothing that was recorded (own choice: nearly all)."""
_HARDLY_ANY = 0.05
"""Greatest share of recorded work in a delay; with more, other streams may have waited for recorded work."""
_USUAL = 10
"""Own choice: a delay within this many times the median of later ones is usual."""


def unrecorded_work(context: Context) -> Mapping[int, Intervals]:
    """The times of such work by number of the device; devices without any are left out."""
    return context.once(_of_devices)


def longest_ns(context: Context) -> int:
    """The most such time that one device has, in ns; 0 if none has any."""
    return max((times.length for times in unrecorded_work(context).values()), default=0)


def _of_devices(context: Context) -> dict[int, Intervals]:
    device = context.trace.device
    numbers = distinct(device.device[device.device != UNKNOWN]).tolist()
    found = {number: _of_device(context, number) for number in numbers}
    return {number: times for number, times in found.items() if times}


def _of_device(context: Context, number: int) -> Intervals:
    """The times of unrecorded work on one device: those that the three signs show, without recorded work."""
    device = context.trace.device
    own = np.flatnonzero(device.device == number)
    linked = own[context.links.launch[own] != NO_PARENT]
    if not len(linked):
        return Intervals.none()
    first = int(device.start_ns[linked].min())
    busy = busy_times.of_device(context, number)
    spans = [*_late_starts(context, linked, busy), *_waits_for_nothing(context, linked, first)]
    spans += _late_copies(context, linked, first)
    begun = _first_use_ns(context)
    empty = [(start, end) for start, end in spans if _is_empty(busy, start, end) and begun > max(first, end)]
    bounds = np.array(empty, np.int64).reshape(-1, 2)
    return Intervals.union(bounds[:, 0], bounds[:, 1]) - busy


def _is_empty(busy: Intervals, start: int, end: int) -> bool:
    """Whether a span is long, and hardly any recorded event runs in it."""
    ran = int(busy.within(np.array([start]), np.array([end]))[0])
    return end - start >= LEAST_NS and end - start - ran >= _EMPTY * (end - start)


def _first_use_ns(context: Context) -> int:
    """When a call first loads code for the device, or takes long to allocate memory; without one, the largest int64."""
    launches, names = context.trace.launches, context.trace.names
    loads = names.where(host_activity.is_loading)[launches.name]
    takes = names.where(_takes_memory)[launches.name] & (launches.dur_ns >= LEAST_NS)
    return int(launches.start_ns[loads | takes].min(initial=np.iinfo(np.int64).max))


def _takes_memory(name: str) -> bool:
    """Whether a call takes memory; one that frees it waits for the device."""
    return host_activity.is_allocation(name) and not host_activity.is_free(name)


def _late_starts(context: Context, linked: I64, busy: Intervals) -> list[tuple[int, int]]:
    """On each stream from the return of the first launch to its start, if later launches wait far less."""
    device, launches = context.trace.device, context.trace.launches
    found = []
    for stream in distinct(device.stream[linked]).tolist():
        rows = linked[device.stream[linked] == stream]
        rows = rows[ascending(group(context.links.launch[rows])[0])]  # one of each graph
        called, start = launches.end_ns[context.links.launch[rows]], device.start_ns[rows]
        earliest = int(np.argmin(start))
        begin, end = int(called[earliest]), int(start[earliest])
        # events launched after the first wait for the same work: compare with events launched afterwards
        later = (start - called)[called > end]
        ran = int(busy.within(np.array([0]), np.array([begin]))[0])
        if ran <= _HARDLY_ANY * (end - begin) and not _is_usual(end - begin, later):
            found.append((begin, end))
    return found


def _waits_for_nothing(context: Context, linked: I64, first: int) -> list[tuple[int, int]]:
    """Waits that end although nothing that was recorded before them was launched, up to the first event."""
    launches, waits = context.trace.launches, context.once(host_activity.waits)
    launched = int(launches.start_ns[context.links.launch[linked]].min())
    copies = context.trace.names.where(host_activity.is_synchronous_copy)[launches.name[waits.row]]
    early = (waits.start_ns < launched) & (waits.start_ns < first) & ~copies
    return list(zip(waits.start_ns[early].tolist(), np.minimum(waits.end_ns[early], first).tolist(), strict=True))


def _late_copies(context: Context, linked: I64, first: int) -> list[tuple[int, int]]:
    """From the call of the first copy to its start within the call, if copies of later calls start sooner."""
    device, launches = context.trace.device, context.trace.launches
    rows = linked[device.category[linked] == Category.MEMCPY]
    call = context.links.launch[rows]
    held = (launches.start_ns[call] < device.start_ns[rows]) & (device.start_ns[rows] < launches.end_ns[call])
    rows, call = rows[held], call[held]
    if not len(rows) or int(device.start_ns[rows[0]]) != first:
        return []
    delay = device.start_ns[rows] - launches.start_ns[call]
    if len(delay) < 2 or _is_usual(int(delay[0]), delay[1:]):
        return []
    return [(int(launches.start_ns[call[0]]), first)]


def _is_usual(delay: int, others: I64) -> bool:
    """Whether a delay is like the others; without others it is unknown whether it is."""
    return len(others) > 0 and delay <= _USUAL * float(np.median(np.maximum(others, 0)))
