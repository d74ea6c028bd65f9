"""When do devices work? The intervals are computed once and shared by all analyses."""

from __future__ import annotations

import numpy as np

from traceanalyzer.structure.context import Context
from traceanalyzer.trace.intervals import Intervals


def any_device(context: Context) -> Intervals:
    """When a kernel, copy or fill runs on any device, including devices without a number in the file."""
    return context.once(_of_any)


def of_device(context: Context, number: int) -> Intervals:
    """When a kernel, copy or fill runs on one device; `UNKNOWN` is the device of events without a device number."""
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
    """Results for the devices that were requested so far."""
    return {}
