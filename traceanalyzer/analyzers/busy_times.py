"""When do devices work? Found once for all that ask."""

from __future__ import annotations

import numpy as np

from traceanalyzer.analyzers.context import Context
from traceanalyzer.trace.intervals import Intervals


def any_device(context: Context) -> Intervals:
    """When a kernel, copy or fill runs on some device, or on one that the file does not name."""
    return context.once(_of_any)


def of_device(context: Context, number: int) -> Intervals:
    """When a kernel, copy or fill runs on one device, `UNKNOWN` for those that the file does not name."""
    known = context.once(_of_devices)
    if number not in known:
        device = context.trace.device
        own = device.device == number
        if own.all():
            known[number] = any_device(context)
        else:
            rows = np.flatnonzero(own)
            start = device.start_ns[rows]
            known[number] = Intervals.union(start, start + device.dur_ns[rows])
    return known[number]


def _of_any(context: Context) -> Intervals:
    return Intervals.union(context.trace.device.start_ns, context.trace.device.end_ns)


def _of_devices(_: Context) -> dict[int, Intervals]:
    """The devices that somebody has asked for."""
    return {}
