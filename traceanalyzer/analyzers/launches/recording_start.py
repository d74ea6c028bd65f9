"""Did the recording begin while a device still ran work that was launched before?

A stream takes its work in order. If the first recorded event of the trace that waits for a device starts long after
its launch returned, and nothing that was recorded runs on this device meanwhile, then something else does: most likely
work from before the recording. That the host works meanwhile does not keep the device waiting.
"""

from __future__ import annotations

import numpy as np

from traceanalyzer.analyzers.context import Context
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import UNKNOWN
from traceanalyzer.trace.tree import NO_PARENT

_LEAST_NS = 1_000_000
"""Own choice: a first launch may well take less to reach an idle device."""
_EMPTY = 0.9
"""Share of the delay in which the device must run nothing that was recorded (own choice: nearly all)."""
_USUAL = 10
"""Own choice: a delay within this many times the median of later ones is usual on the stream."""


def earlier_work_ns(context: Context) -> int:
    """The longest such time of all devices in ns; 0 if there is none."""
    device = context.trace.device
    streams = np.unique(np.stack([device.device, device.stream]), axis=1).T.tolist() if len(device) else []
    return max((_of_stream(context, number, stream) for number, stream in streams if number != UNKNOWN), default=0)


def _of_stream(context: Context, number: int, stream: int) -> int:
    device, launches = context.trace.device, context.trace.launches
    own = device.device == number
    rows = np.flatnonzero(own & (device.stream == stream))
    launch = context.links.launch[rows]
    first = int(np.argmin(device.start_ns[rows]))
    if launch[first] == NO_PARENT:
        return 0
    linked = launch != NO_PARENT
    called = launches.end_ns[launch[linked]]
    delay = device.start_ns[rows][linked] - called
    begin, end = int(launches.end_ns[launch[first]]), int(device.start_ns[rows[first]])
    if end - begin < _LEAST_NS:
        return 0
    # the launches that waited behind the first are held up by the same work: compare with those made afterwards
    later = delay[called > end]
    if len(later) and end - begin <= _USUAL * float(np.median(np.maximum(later, 0))):
        return 0
    busy = Intervals.union(device.start_ns[own], device.end_ns[own])
    empty = end - begin - int(busy.within(np.array([begin]), np.array([end]))[0])
    return empty if empty >= _EMPTY * (end - begin) else 0
