"""Computes the durations of steps in a replay.

The steps are those of `analyses.recording`. A step starts at its mark, or at the end of the previous step if that is
later; it ends at the end of its mark, or at the end of the work that it launched if that is later.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from traceanalyzer.simulation.building import Built
from traceanalyzer.simulation.graph import NOTHING, DeviceChain
from traceanalyzer.simulation.longest_path import NEVER, Times
from traceanalyzer.simulation.window import ModelledWindow
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.steps import Steps, launched_in
from traceanalyzer.trace.table import I64


class StepBounds(msgspec.Struct, frozen=True):
    """The points and events that define the starts and ends of steps. Shapes (steps,)."""

    part: I64
    """Number of the part of the recording; its steps follow each other."""
    start_point: I64
    """The host point at the start of the mark."""
    end_point: I64
    """The host point at the end of the mark."""
    start_event: I64
    """The device event at which a step begins instead; `NOTHING` if it begins at the mark."""
    previous_event: I64
    """The device event at which the previous step ends, if the step begins no earlier; `NOTHING` for none."""
    lag_ns: I64
    """From the start of the mark to the start of the step, if the event at which it begins is not part of the model."""
    size: I64
    """Number of device events launched by the step, each of which may end it."""
    events: I64
    """These events, grouped by step. Shape (sum of sizes,)."""


def of(context: Context, window: ModelledWindow, built: Built) -> StepBounds:
    """Find the bounds of the steps of a window."""
    device = built.graph.device
    ends = device.start_ns + device.dur_ns
    late = window.step_start_ns - built.graph.host.time_ns[built.step_start]
    start_event = np.where(late == 0, NOTHING, _at(device.start_ns, window.step_start_ns))
    previous_event = np.where(late == 0, NOTHING, _at(ends, window.step_start_ns))
    is_at_event = (start_event != NOTHING) | (previous_event != NOTHING)
    ending = _ending_events(context, window, device)
    return StepBounds(
        part=np.zeros(len(window), np.int64),
        start_point=built.step_start,
        end_point=built.step_end,
        start_event=start_event,
        previous_event=previous_event,
        lag_ns=np.where(is_at_event, 0, late),
        size=np.array([len(events) for events in ending], np.int64),
        events=np.concatenate(ending) if ending else np.empty(0, np.int64),
    )


def _ending_events(context: Context, window: ModelledWindow, device: DeviceChain) -> list[I64]:
    """For each step the events that it launched, each of which may end it; none if the step ends otherwise."""
    position = np.full(len(context.trace.device), NOTHING)
    position[device.row] = np.arange(len(device))
    ends = device.start_ns + device.dur_ns
    marks = Steps(("",) * len(window), window.mark_start_ns, window.mark_end_ns, None)
    ending = []
    for step, rows in enumerate(launched_in(context.trace, context.links, marks)):
        events = position[rows]
        events = events[events != NOTHING]
        latest = int(ends[events].max(initial=NEVER))
        end_of_work = max(latest, int(window.mark_end_ns[step]))
        ending.append(events if end_of_work == window.step_end_ns[step] else events[:0])
    return ending


def _at(times: I64, wanted: I64) -> I64:
    """The first position of each time in a column; `NOTHING` for times that do not occur."""
    order = np.argsort(times, kind="stable")
    position = np.append(order, NOTHING)[np.searchsorted(times[order], wanted)]
    return np.where(np.append(times, NEVER)[position] == wanted, position, NOTHING)


def starts(bounds: StepBounds, times: Times) -> I64:
    """Start of each step in a replay."""
    point = times.point_ns[bounds.start_point] + bounds.lag_ns
    event = np.append(times.start_ns, NEVER)[bounds.start_event]
    previous = np.append(times.end_ns, NEVER)[bounds.previous_event]
    begins_at_event = (bounds.start_event != NOTHING) & (bounds.previous_event == NOTHING)
    return np.where(begins_at_event, event, np.maximum(point, previous))


def ends(bounds: StepBounds, times: Times) -> I64:
    """End of each step in a replay; not before its start, where its mark lies within one runtime call."""
    end = times.point_ns[bounds.end_point]
    with_events = np.flatnonzero(bounds.size)
    if len(with_events):
        first = np.cumsum(bounds.size) - bounds.size
        latest = np.maximum.reduceat(times.end_ns[bounds.events], first[with_events])
        end[with_events] = np.maximum(end[with_events], latest)
    return np.maximum(end, starts(bounds, times))


def lengths(bounds: StepBounds, times: Times) -> I64:
    """Time in ns that each step takes in a replay: from its start, or from the end of the step before if that is later.

    A host that gets ahead of its device starts steps ever earlier, but they do not take longer for that.
    """
    is_first = np.diff(bounds.part, prepend=-1) != 0
    start = starts(bounds, times)
    end = ends(bounds, times)
    end_before = np.append(0, end)[:-1]
    return end - np.where(is_first, start, np.maximum(start, end_before))


def moved(bounds: StepBounds, place: I64) -> StepBounds:
    """The bounds for a graph whose device events have new positions."""
    known = np.append(place, NOTHING)
    return replace(
        bounds,
        start_event=known[bounds.start_event],
        previous_event=known[bounds.previous_event],
        events=known[bounds.events],
    )


def joined(parts: Sequence[tuple[StepBounds, int, int]]) -> StepBounds:
    """Join the bounds of several parts.

    Args:
        parts: The bounds of each part, and the numbers of points and device events before it in the joined graph.
    """

    def column(name: str, offset: int) -> I64:
        values = [(getattr(part[0], name), part[offset] if offset else 0) for part in parts]
        return np.concatenate([np.where(positions >= 0, positions + by, positions) for positions, by in values])

    return StepBounds(
        part=np.repeat(np.arange(len(parts)), [len(part[0].part) for part in parts]),
        start_point=column("start_point", 1),
        end_point=column("end_point", 1),
        start_event=column("start_event", 2),
        previous_event=column("previous_event", 2),
        lag_ns=column("lag_ns", 0),
        size=column("size", 0),
        events=column("events", 2),
    )
