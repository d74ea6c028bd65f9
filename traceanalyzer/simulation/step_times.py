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
from traceanalyzer.simulation.graph import NOTHING
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
    position = np.full(len(context.trace.device), NOTHING)
    position[device.row] = np.arange(len(device))
    marks = Steps(("",) * len(window), window.mark_start_ns, window.mark_end_ns, None)
    launched = [position[rows][position[rows] != NOTHING] for rows in launched_in(context.trace, context.links, marks)]
    ends = device.start_ns + device.dur_ns
    latest = [int(ends[rows].max(initial=NEVER)) for rows in launched]
    counted = [
        rows if max(end, mark) == step else rows[:0]
        for rows, end, mark, step in zip(
            launched, latest, window.mark_end_ns.tolist(), window.step_end_ns.tolist(), strict=True
        )
    ]
    sizes = np.array([len(rows) for rows in counted], np.int64)
    late = window.step_start_ns - built.graph.host.time_ns[built.step_start]
    start_event = np.where(late == 0, NOTHING, _at(device.start_ns, window.step_start_ns))
    previous_event = np.where(late == 0, NOTHING, _at(ends, window.step_start_ns))
    return StepBounds(
        part=np.zeros(len(window), np.int64),
        start_point=built.step_start,
        end_point=built.step_end,
        start_event=start_event,
        previous_event=previous_event,
        lag_ns=np.where((start_event == NOTHING) & (previous_event == NOTHING), late, 0),
        size=sizes,
        events=np.concatenate(counted) if counted else np.empty(0, np.int64),
    )


def _at(times: I64, wanted: I64) -> I64:
    """The first position of each time in a column; `NOTHING` for times that do not occur."""
    order = np.argsort(times, kind="stable")
    place = np.searchsorted(times[order], wanted)
    points = np.append(order, NOTHING)[place]
    return np.where(np.append(times, NEVER)[points] == wanted, points, NOTHING)


def starts(bounds: StepBounds, times: Times) -> I64:
    """Start of each step in a replay."""
    point = times.point_ns[bounds.start_point] + bounds.lag_ns
    event = np.append(times.start_ns, NEVER)[bounds.start_event]
    previous = np.append(times.end_ns, NEVER)[bounds.previous_event]
    by_event = (bounds.start_event != NOTHING) & (bounds.previous_event == NOTHING)
    return np.where(by_event, event, np.maximum(point, previous))


def ends(bounds: StepBounds, times: Times) -> I64:
    """End of each step in a replay; not before its start, where its mark lies within one runtime call."""
    end = times.point_ns[bounds.end_point]
    some = np.flatnonzero(bounds.size)
    if len(some):
        first = np.cumsum(bounds.size) - bounds.size
        latest = np.maximum.reduceat(times.end_ns[bounds.events], first[some])
        end[some] = np.maximum(end[some], latest)
    return np.maximum(end, starts(bounds, times))


def lengths(bounds: StepBounds, times: Times) -> I64:
    """Time in ns that each step takes in a replay: from its start, or from the end of the step before if that is later.

    A host that gets ahead of its device starts steps ever earlier, but they do not take longer for that.
    """
    first = np.diff(bounds.part, prepend=-1) != 0
    start, end = starts(bounds, times), ends(bounds, times)
    return end - np.where(first, start, np.maximum(start, np.append(0, end)[:-1]))


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
