"""Selects the parts of a recording to model: its typical steps, their runtime calls and host threads.

A part consists of consecutive typical steps, the judged steps. It begins with the step before them, which fills the
queues but is not judged. The time of a replay grows with the number of events, so in long recordings only as many steps
are modelled as have some ten thousand events.
"""

from __future__ import annotations

import msgspec
import numpy as np
from msgspec.structs import replace

from traceanalyzer.simulation.graph import NOTHING
from traceanalyzer.structure import host_activity
from traceanalyzer.structure.autograd import critical_threads
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.launch_calls import blocked_calls
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.structure.steps import host_part
from traceanalyzer.trace.distinct import is_among
from traceanalyzer.trace.table import I64, Bool
from traceanalyzer.trace.tree import NO_PARENT, Tree

MOST_EVENTS = 30_000
"""Most calls and device events (own choice: a replay takes some milliseconds, and a report makes about fifty)."""
MOST_PARTS = 8
"""Most parts (own choice): if atypical steps split the recording into more, the longest parts represent all."""
FOREVER = 1 << 60


class ModelledWindow(msgspec.Struct, frozen=True):
    """An interval of the recording, and its consecutive judged steps."""

    start_ns: int
    end_ns: int
    step_start_ns: I64
    """Starts of the judged steps, ascending."""
    step_end_ns: I64
    mark_start_ns: I64
    """Starts of the marks of these steps, which may be before the starts of the steps."""
    mark_end_ns: I64

    def __len__(self) -> int:
        return len(self.step_start_ns)


def find_windows(context: Context) -> tuple[ModelledWindow, ...]:
    """The parts with the typical steps of a recording, or with the first of them if they have too many events.

    Empty if no step is longer than 0.
    """
    steps = program_steps(context)
    kept = np.flatnonzero(steps.is_typical)
    kept = kept[steps.end_ns[kept] > steps.start_ns[kept]]
    if not len(kept):
        return ()
    kept = np.concatenate(_longest(_consecutive(kept)))
    events = _events_before(context, steps.end_ns[kept]) - _events_before(context, steps.start_ns[kept])
    count = int(np.searchsorted(np.cumsum(events), MOST_EVENTS, side="right"))
    kept = kept[: max(1, count)]
    return tuple(of_steps(context, part) for part in _consecutive(kept))


def _consecutive(rows: I64) -> list[I64]:
    """Split ascending rows where one is missing."""
    return np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1)


def _longest(parts: list[I64]) -> list[I64]:
    """The parts with most steps, in the order of time."""
    order = sorted(range(len(parts)), key=lambda part: (-len(parts[part]), part))
    return [parts[part] for part in sorted(order[:MOST_PARTS])]


def of_steps(context: Context, kept: I64) -> ModelledWindow:
    """The part of some consecutive steps, given by their rows in ascending order."""
    steps = program_steps(context)
    first, last = int(kept[0]), int(kept[-1])
    mark_start, mark_end = host_part(context.trace, replace(steps.every, mark_ns=steps.mark_ns))
    start = -FOREVER
    if first > 0:
        start = int(min(mark_start[first - 1], steps.start_ns[first - 1]))
    end = FOREVER
    if last < len(steps) - 1:
        end = int(max(mark_end[last], steps.end_ns[last]))
    return ModelledWindow(
        start_ns=start,
        end_ns=end,
        step_start_ns=steps.start_ns[kept],
        step_end_ns=steps.end_ns[kept],
        mark_start_ns=mark_start[kept],
        mark_end_ns=mark_end[kept],
    )


def _events_before(context: Context, times: I64) -> I64:
    """Number of calls and device events that start before each time."""
    launches, device = context.trace.launches, context.trace.device
    return np.searchsorted(launches.start_ns, times) + np.searchsorted(device.start_ns, times)


class Calls(msgspec.Struct, frozen=True):
    """Outermost calls of a window that launch work, wait or allocate memory, ordered by thread, then by start."""

    row: I64
    """Row in the launch table."""
    thread: I64
    start_ns: I64
    end_ns: I64
    waits: Bool
    """Whether a call returns only after some device work: a synchronization, blocking copy, full queue."""
    allocates: Bool
    """Whether a call allocates or frees memory, for which it may wait."""
    of_row: I64
    """For each row of the launch table, the position of its outermost call."""

    def __len__(self) -> int:
        return len(self.row)


def find_calls(context: Context, window: ModelledWindow) -> Calls:
    """The calls of the threads that launch work, within a window."""
    launches = context.trace.launches
    waits = np.zeros(len(launches), np.bool_)
    waits[context.cached(host_activity.waits).row] = True
    waits[blocked_calls(context)] = True
    allocates = context.trace.names.where(host_activity.is_allocation)[launches.name]
    rows = np.flatnonzero((_launching(context) | waits | allocates) & _is_followed(context, window))
    tree, order = Tree.build(launches.thread[rows], launches.start_ns[rows], launches.dur_ns[rows])
    rows = rows[order]

    # calls inside others are part of the outermost one
    is_outer = tree.parent == NO_PARENT
    outer = rows[is_outer]
    of_row = np.full(len(launches), NOTHING)
    of_row[rows] = np.searchsorted(np.flatnonzero(is_outer), tree.nearest(is_outer))
    any_waits = np.zeros(len(outer), np.bool_)
    any_waits[of_row[rows[waits[rows]]]] = True
    return Calls(
        row=outer,
        thread=launches.thread[outer].astype(np.int64),
        start_ns=launches.start_ns[outer],
        end_ns=launches.end_ns[outer],
        waits=any_waits,
        allocates=allocates[outer],
        of_row=of_row,
    )


def _launching(context: Context) -> Bool:
    """Mask of the calls that launch work."""
    launching = np.zeros(len(context.trace.launches), np.bool_)
    launching[context.links.launch[context.links.launch != NO_PARENT]] = True
    return launching


def _is_followed(context: Context, window: ModelledWindow) -> Bool:
    """Mask of the calls within a window, of threads that launch work or wait for one that does."""
    launches = context.trace.launches
    is_inside = (launches.start_ns >= window.start_ns) & (launches.start_ns < window.end_ns)
    threads = sorted({*host_activity.launching_threads(context), *critical_threads(context)})
    return is_among(launches.thread, threads) & is_inside
