"""How long do the steps take when everything happens at other times?

The steps are those of `analyses.recording`: from their mark, or from the end of the step before if that is later, to the
end of their mark, or to the end of what they launched if that is later.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traceanalyzer.analyzers.context import Context
from traceanalyzer.analyzers.steps import Steps, launched_in
from traceanalyzer.simulation.building import Built
from traceanalyzer.simulation.graph import NOTHING
from traceanalyzer.simulation.longest_path import NEVER, Times
from traceanalyzer.simulation.window import Window
from traceanalyzer.trace.table import I64, Bool


@dataclass(frozen=True)
class StepBounds:
    """What the starts and ends of steps are made of. Shapes (steps,)."""

    start_point: I64
    """The host point at the start of the mark."""
    end_point: I64
    """The host point at the end of the mark."""
    start_event: I64
    """The device event with which a step begins instead; `NOTHING` where the mark counts."""
    previous_event: I64
    """The device event with which the step before ends, if the step begins no earlier; `NOTHING` for none."""
    first_event: I64
    """Events that the step launched and that may end it: `events[first_event:after_event]`."""
    after_event: I64
    events: I64
    """Positions of events, those of each step together."""


def of(context: Context, window: Window, built: Built) -> StepBounds:
    """Find what the starts and ends of the steps of a window are made of."""
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
    sizes = np.array([len(rows) for rows in counted])
    by_mark = window.step_start_ns == built.graph.host.time_ns[built.step_start]
    return StepBounds(
        start_point=built.step_start,
        end_point=built.step_end,
        start_event=np.where(by_mark, NOTHING, _at(device.start_ns, window.step_start_ns)),
        previous_event=np.where(by_mark, NOTHING, _at(ends, window.step_start_ns)),
        first_event=np.cumsum(sizes) - sizes,
        after_event=np.cumsum(sizes),
        events=np.concatenate(counted) if counted else np.empty(0, np.int64),
    )


def _at(times: I64, wanted: I64) -> I64:
    """The first position at which a time stands, `NOTHING` for times that do not occur."""
    order = np.argsort(times, kind="stable")
    place = np.searchsorted(times[order], wanted)
    found = np.append(order, NOTHING)[place]
    return np.where(np.append(times, NEVER)[found] == wanted, found, NOTHING)


def starts(bounds: StepBounds, times: Times) -> I64:
    """When each step begins in a replay."""
    point = times.point_ns[bounds.start_point]
    event = np.append(times.start_ns, NEVER)[bounds.start_event]
    previous = np.append(times.end_ns, NEVER)[bounds.previous_event]
    by_event = (bounds.start_event != NOTHING) & (bounds.previous_event == NOTHING)
    start: I64 = np.where(by_event, event, np.maximum(point, previous))
    return start


def ends(bounds: StepBounds, times: Times) -> I64:
    """When each step ends in a replay."""
    end = times.point_ns[bounds.end_point]
    some = np.flatnonzero(bounds.after_event > bounds.first_event)
    if len(some):
        latest = np.maximum.reduceat(times.end_ns[bounds.events], bounds.first_event[some])
        end[some] = np.maximum(end[some], latest)
    return end


def is_by_device(bounds: StepBounds, times: Times) -> Bool:
    """Which steps end when the device is done, after their mark."""
    later: Bool = ends(bounds, times) > times.point_ns[bounds.end_point]
    return later
