"""Idle time of a device whose next work was launched too late, and what would end it earlier."""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.structure import gap_causes, gaps, host_activity
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.gap_causes import CAUSES
from traceanalyzer.trace.distinct import ranked
from traceanalyzer.trace.table import I64, UNKNOWN, entries
from traceanalyzer.trace.tree import NO_PARENT


class IdleTime(msgspec.Struct, frozen=True):
    """Idle time of a device that has one cause."""

    cause: str
    """Id of the cause, one of those of the analysis `idle`."""
    time_ns: int
    """Idle time of that cause in ns."""


class Starvation(msgspec.Struct, frozen=True):
    """Gaps of the busiest device that ended late, because the host had not launched the next work."""

    start_ns: I64
    end_ns: I64
    launch: I64
    """Row of the launch that ended each gap."""
    by_cause: I64
    """Time of each gap by cause, one row per gap and one column per cause."""


def starvation(context: Context) -> Starvation:
    """Find these gaps within the steps; none without steps or launches."""
    device, window = context.trace.device, context.steps.window
    numbers, rank = ranked(device.device[device.device != UNKNOWN])
    if window is None or not len(numbers):
        none = np.empty(0, np.int64)
        return Starvation(none, none, none, np.empty((0, len(CAUSES)), np.int64))
    found = gaps.of_device(context, int(numbers[np.bincount(rank).argmax()]), window)
    late = found.take(gap_causes.fed_late(context, found) & (found.launch != NO_PARENT))
    return Starvation(late.start_ns, late.end_ns, late.launch, gap_causes.attribute(context, late))


def ended_earlier(context: Context, start_ns: I64, end_ns: I64, less_ns: I64) -> I64:
    """How much idle time of each cause disappears if host ranges take less time.

    Only gaps of `starvation` count that end with a launch after the start of the range and before the host next waits
    for the device, because a host that reaches this wait earlier only waits longer. Until then, each launch comes
    earlier, and the gaps that waited for launches become shorter: the first ones by all of the saved time, until it is
    used up.

    Returns:
        One row per range, one column per cause.
    """
    found, waits = context.once(starvation), context.once(host_activity.waits).start_ns
    if not len(found.start_ns):
        return np.zeros((len(start_ns), len(CAUSES)), np.int64)
    until = entries(waits, np.searchsorted(waits, end_ns), np.iinfo(np.int64).max)
    launched = np.maximum.accumulate(context.trace.launches.start_ns[found.launch])  # streams may overtake each other
    first = np.searchsorted(launched, start_ns)
    last = np.maximum(np.searchsorted(found.start_ns, until), first)
    passed = np.concatenate(([0], np.cumsum(found.end_ns - found.start_ns)))
    before = np.maximum(start_ns - entries(found.start_ns, first, 0), 0)  # of a gap that was open already
    begin = passed[first] + np.where(last > first, before, 0)
    end = np.maximum(np.minimum(passed[last], begin + less_ns), begin)
    return _passed(found, passed, end) - _passed(found, passed, begin)


def _passed(found: Starvation, passed: I64, time: I64) -> I64:
    """Time of each cause in the gaps up to a time that counts within gaps only; within a gap causes mix evenly."""
    gap = np.clip(np.searchsorted(passed, time, side="right") - 1, 0, len(found.start_ns) - 1)
    sums = np.concatenate((np.zeros((1, len(CAUSES)), np.int64), np.cumsum(found.by_cause, axis=0)))
    part = (time - passed[gap]) / (passed[gap + 1] - passed[gap])
    until = np.rint(np.cumsum(found.by_cause[gap], axis=1) * part[:, None]).astype(np.int64)  # rounded as a whole
    result: I64 = sums[gap] + np.diff(until, axis=1, prepend=0)
    return result


def summed(times: I64) -> tuple[IdleTime, ...]:
    """Sum the rows of `ended_earlier` by cause; causes without time are left out."""
    total = times.sum(axis=0).tolist()
    return tuple(IdleTime(cause, time) for cause, time in zip(CAUSES, total, strict=True) if time)
