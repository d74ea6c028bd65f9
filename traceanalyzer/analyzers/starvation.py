"""Before which device events did a device do nothing because they were launched too late?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traceanalyzer.analyzers import host_activity
from traceanalyzer.analyzers.context import Context
from traceanalyzer.analyzers.idle import causes, gaps
from traceanalyzer.trace.table import I64, UNKNOWN
from traceanalyzer.trace.tree import NO_PARENT


@dataclass(frozen=True)
class Starvation:
    """The gaps of the device with most events that ended late, because the host had not launched what ended them."""

    start_ns: I64
    end_ns: I64
    launch: I64
    """Row of the launch that ended each gap."""


def starvation(context: Context) -> Starvation:
    """Gaps within the steps; none without steps or launches."""
    device, window = context.trace.device, context.steps.window
    numbers, counts = np.unique(device.device[device.device != UNKNOWN], return_counts=True)
    if window is None or not len(numbers):
        return Starvation(*(np.empty(0, np.int64) for _ in range(3)))
    found = gaps.find(context, np.flatnonzero(device.device == numbers[counts.argmax()]), window)
    late = found.take(causes.fed_late(context, found) & (found.launch != NO_PARENT))
    return Starvation(late.start_ns, late.end_ns, late.launch)


def reachable(context: Context, start_ns: I64, end_ns: I64) -> I64:
    """For host ranges: how much idle time of the device ends earlier if the range ends earlier.

    The gaps of `starvation` from the start of the range until the host next waits for the device. A host that gets
    there earlier waits longer; until then, each launch comes earlier, and so does what was starved for it.
    """
    found, waits = context.once(starvation), context.once(host_activity.waits).start_ns
    until = np.append(waits, np.iinfo(np.int64).max)[np.searchsorted(waits, end_ns)]
    first = np.searchsorted(found.end_ns, start_ns, side="right")
    last = np.maximum(np.searchsorted(found.start_ns, until), first)
    passed = np.concatenate(([0], np.cumsum(found.end_ns - found.start_ns)))
    before = np.maximum(start_ns - np.append(found.start_ns, 0)[first], 0)  # of a gap that was open already
    reached: I64 = passed[last] - passed[first] - np.where(last > first, before, 0)
    return reached
