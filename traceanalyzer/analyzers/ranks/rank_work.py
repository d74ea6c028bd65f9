"""What does a rank do between the starts and ends of its collectives?

Starts and ends of the collectives of a step are its events. The time before the start of a collective is the rank's
own: kernels run, only copies run, it only waits for its loader, or none of these, so that the host is what takes time.
Before the end of a collective only kernels are the rank's own work; the rest may be waiting for other ranks.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.structure import recorded_collectives
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, Bool
from traceanalyzer.trace.tables import Category


class RankEvents(msgspec.Struct, frozen=True):
    """Starts and ends of collectives, and ends of steps, by step and time; times are ns since the first event."""

    row: I64
    """Collective of each event; of the end of a step its step."""
    is_start: Bool
    is_end_of_step: Bool
    step: I64
    since_ns: I64
    """Time of the event before it in the same step; of the first one the start of the step."""
    time_ns: I64


class RankWork(msgspec.Struct, frozen=True):
    """Own work between the events, in ns: columns by collective, and by step what follows its last collective."""

    before: tuple[I64, I64, I64]
    """Before the start of each collective: kernels, only copies, only waiting for the loader."""
    during: I64
    """Kernels before the end of each collective."""
    after: tuple[I64, I64, I64]
    """Before the end of each step, as `before`."""


def events(step: I64, start: I64, dur: I64, step_start: I64, step_end: I64) -> RankEvents:
    """Put starts and ends in order, within the bounds of their steps.

    Args:
        step: Step of each collective; those with -1 have no events.
        start: Start of each collective.
        dur: Its duration.
        step_start: Start of each step.
        step_end: End of each step.
    """
    rows = np.flatnonzero(step >= 0)
    own, steps = step[rows], np.arange(len(step_start))
    opens, ends = (np.clip(time[rows], step_start[own], step_end[own]) for time in (start, start + dur))
    has_length = ends > opens
    row = np.concatenate((rows, rows, steps))
    where, time = np.concatenate((own, own, steps)), np.concatenate((opens, ends, step_end))
    # order at one time: running events end, events without length start and end, others start, the step ends
    turn = np.concatenate((np.where(has_length, 2, 1), np.where(has_length, 0, 1), np.full(len(steps), 3)))
    order = np.lexsort((np.arange(len(row)) >= len(rows), row, turn, time, where))
    where, time = where[order], time[order]
    is_first = np.append(True, where[1:] != where[:-1])[: len(where)]
    since = np.where(is_first, step_start[where], np.append(0, time)[: len(time)])
    return RankEvents(row[order], order < len(rows), order >= 2 * len(rows), where, since, time)


def measure(context: Context, found: RankEvents, collectives: int, steps: int) -> RankWork:
    """Measure the work before each event.

    Args:
        context: The trace.
        found: The events.
        collectives: Number of collectives.
        steps: Number of steps.
    """
    device, host = context.trace.device, context.trace.host
    _, kernels = recorded_collectives.times_of(context, np.ones(len(device), np.bool_))
    moves = np.isin(device.category, (Category.MEMCPY, Category.MEMSET))
    copies = Intervals.union(device.start_ns[moves], device.end_ns[moves]) - kernels
    waits = context.kind == NodeKind.DATALOADER
    loader = Intervals.union(host.start_ns[waits], host.end_ns[waits]) - kernels - copies
    times = [part.within(found.since_ns, found.time_ns) for part in (kernels, copies, loader)]
    last = found.is_end_of_step
    ends = ~found.is_start & ~last

    def by(rows: Bool, values: I64, count: int) -> I64:
        column = np.zeros(count, np.int64)
        column[found.row[rows]] = values[rows]
        return column

    before = [by(found.is_start, time, collectives) for time in times]
    after = [by(last, time, steps) for time in times]
    return RankWork((before[0], before[1], before[2]), by(ends, times[0], collectives), (after[0], after[1], after[2]))
