"""What happens at which time in a step? Lanes of slices, no finer than a report can draw.

Slices shorter than the resolution are drawn together: neighbours of one depth within one cell of the
resolution become one slice without a name, which says how many they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import fsum

import msgspec
import numpy as np

from traceanalyzer.knowledge import accelerators
from traceanalyzer.structure import gaps, resources, step_breakdown
from traceanalyzer.structure.analysis import STEPS, Analysis
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.mark_forest import forest
from traceanalyzer.structure.recording import shown_step
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.structure.sums import count_by, group, least_by, members, most_by
from traceanalyzer.trace.strings import StringPool
from traceanalyzer.trace.table import I32, I64, Array
from traceanalyzer.trace.tables import Vendor

CELLS = 1000
"""Cells of the resolution in the step: two per pixel of a plot 500 pixels wide (own choice)."""

MAX_DEPTH = 6
"""Levels of nested operators that are drawn (own choice: deeper ones are thinner than a line)."""


MAX_LANES = 24
"""Lanes of each kind that are drawn (own choice: more fit no screen)."""


_CANDIDATES = 8 * MAX_LANES
"""Number of lanes that are examined; the lanes with the most content are drawn."""


class Slice(msgspec.Struct, frozen=True):
    """A bar of a lane."""

    start_ns: int
    """Start in ns since the start of the step."""
    duration_ns: int
    """Length of the bar in ns, within the step."""
    depth: int
    """Nesting depth within the lane; 0 is the outermost."""
    name: int | None
    """Position in the timeline's names; null where the bar stands for several events."""
    count: int
    """Number of events that the bar stands for."""


class Lane(msgspec.Struct, frozen=True):
    """One host thread or one stream of one device, whatever kind of device."""

    kind: str
    """What the lane shows: `marks` (ranges that people or frameworks set on a thread), `host`, `launches` (runtime
    calls of a thread), `device`, or `accelerator` (a device that is not a GPU)."""
    label: str
    """Where it happened: `pid/tid` of a thread, `device/stream` of a stream, `kind device/stream` on a device that is
    no GPU."""
    slices: tuple[Slice, ...]
    """Bars of the lane in the order of time."""


class Timeline(msgspec.Struct, frozen=True):
    """A typical step that stands for the others: by duration and most idle time the nearest to their mean."""

    step: str
    """Number of the step that is shown, or the framework's mark, as in the analysis `recording`."""
    start_ns: int
    """Start of that step in ns since the first event."""
    duration_ns: int
    """Duration of that step in ns."""
    resolution_ns: int
    """Length in ns below which events are drawn together."""
    names: tuple[str, ...]
    """Names of the events, which bars refer to by position."""
    lanes: tuple[Lane, ...]
    """Marks of host threads, then the threads, then their runtime calls, then streams; of each kind the busiest
    first."""
    hidden_lanes: int
    """Number of threads and streams with less to show that are left out."""


def analyze(context: Context) -> Timeline:
    """Lanes of a typical step of the program: threads with most to show first, then streams."""
    steps = program_steps(context)
    chosen = shown_step(context)
    start = int(steps.start_ns[chosen])
    end = int(steps.end_ns[chosen])
    cell = max(1, -(-(end - start) // CELLS))
    names: StringPool[int] = StringPool()
    frame = _Frame(start, end, cell, names.encode)
    kinds = (
        _mark_lanes(context, frame),
        *_host_lanes(context, frame),
        _device_lanes(context, frame),
        _accelerator_lanes(context, frame),
    )
    return Timeline(
        steps.names[chosen],
        start,
        end - start,
        cell,
        tuple(context.trace.names[code] for code in names.values()),
        tuple(lane for lanes in kinds for lane in lanes[:MAX_LANES]),
        sum(max(0, len(lanes) - MAX_LANES) for lanes in kinds),
    )


class _Frame(msgspec.Struct, frozen=True):
    """The part of time that is drawn, and a function that gives names their positions."""

    start: int
    end: int
    cell: int
    encode: Callable[[int], int]


def _mark_lanes(context: Context, frame: _Frame) -> list[Lane]:
    """The marks of each thread, nested."""
    marks = context.cached(forest)
    tree = marks.tree
    bars = _Bars(tree.thread, tree.start_ns, tree.end_ns, marks.name[marks.place], tree.depth)
    return _lanes("marks", bars.take(tree.depth < MAX_DEPTH), _thread_labels(context), frame)


def _thread_labels(context: Context) -> list[str]:
    return [f"{t.pid}/{t.tid}" for t in context.trace.threads]


def _host_lanes(context: Context, frame: _Frame) -> tuple[list[Lane], list[Lane]]:
    """Nested operators and annotations of each thread, and the runtime calls of each thread."""
    tree, launches = context.host.tree, context.trace.launches
    labels = _thread_labels(context)
    visible = tree.depth < MAX_DEPTH
    nested = _Bars(tree.thread, tree.start_ns, tree.end_ns, context.host.name, tree.depth)
    calls = _Bars(launches.thread, launches.start_ns, launches.end_ns, launches.name)
    return _lanes("host", nested.take(visible), labels, frame), _lanes("launches", calls, labels, frame)


def _device_lanes(context: Context, frame: _Frame) -> list[Lane]:
    """Kernels, copies and fills of each stream of each device."""
    device = context.trace.device
    first, lane = gaps.streams(context)
    places = zip(device.device[first].tolist(), device.stream[first].tolist(), strict=True)
    bars = _Bars(lane, device.start_ns, device.end_ns, device.name)
    return _lanes("device", bars, [f"{d}/{s}" for d, s in places], frame)


def _accelerator_lanes(context: Context, frame: _Frame) -> list[Lane]:
    """The activity of each stream of each device that is not a GPU, including waiting."""
    events = context.trace.accelerator
    keys = (events.vendor, events.device, events.stream)
    first, lane = group(*keys)
    places = zip(*(key[first].tolist() for key in keys), strict=True)
    labels = [f"{accelerators.NAMES[Vendor(v)]} {d}/{s}" for v, d, s in places]
    return _lanes("accelerator", _Bars(lane, events.start_ns, events.end_ns, events.name), labels, frame)


class _Bars:
    """Slices of many lanes as columns."""

    def __init__(self, lane: Array, start: I64, end: I64, name: Array, depth: I32 | None = None) -> None:
        self.lane, self.start, self.end, self.name = lane, start, end, name
        self.depth = np.zeros(len(start), np.int32) if depth is None else depth

    def take(self, rows: Array) -> _Bars:
        """Keep some of the bars."""
        return _Bars(self.lane[rows], self.start[rows], self.end[rows], self.name[rows], self.depth[rows])


def _lanes(kind: str, bars: _Bars, labels: list[str], frame: _Frame) -> list[Lane]:
    """The lanes that have something in the frame, the busiest first."""
    visible = bars.take((bars.end > frame.start) & (bars.start < frame.end))
    lanes = [Lane(kind, labels[number], _slices(visible.take(rows), frame)) for number, rows in _busiest(visible)]
    return sorted(lanes, key=lambda lane: (-fsum(s.duration_ns for s in lane.slices if not s.depth), lane.label))


def _busiest(bars: _Bars) -> list[tuple[int, I64]]:
    """Lanes with their rows, by number; where there are far more than are drawn, those with most time."""
    lanes = list(members(bars.lane))
    if len(lanes) <= _CANDIDATES:
        return lanes
    time = {number: int((bars.end[rows] - bars.start[rows])[bars.depth[rows] == 0].sum()) for number, rows in lanes}
    kept = set(sorted(time, key=lambda number: (-time[number], number))[:_CANDIDATES])
    return [(number, rows) for number, rows in lanes if number in kept]


def _slices(bars: _Bars, frame: _Frame) -> tuple[Slice, ...]:
    """Slices of a lane: long ones as they are, short ones merged by cell and depth, in the order of time."""
    start = bars.start.clip(frame.start) - frame.start
    end = bars.end.clip(max=frame.end) - frame.start
    is_long = end - start >= frame.cell
    columns = (start, end, bars.depth, bars.name)
    slices = []
    for begin, until, depth, name in zip(*(column[is_long].tolist() for column in columns), strict=True):
        slices.append(Slice(begin, until - begin, depth, frame.encode(name), 1))
    short = np.flatnonzero(~is_long)
    if len(short):
        slices += _merged(bars.take(short), start[short], end[short], frame)
    return tuple(sorted(slices, key=lambda s: (s.start_ns, s.depth, -s.duration_ns, s.name is None, s.name or 0)))


def _merged(bars: _Bars, start: I64, end: I64, frame: _Frame) -> Iterator[Slice]:
    """Short slices, one for all of a depth that start in one cell; one that is alone keeps its name."""
    first, cell = group(start // frame.cell * MAX_DEPTH + bars.depth)
    count = count_by(cell, len(first))
    low = least_by(cell, start, len(first))
    high = most_by(cell, end, len(first))
    columns = (low, high, bars.depth[first], bars.name[first], count)
    for begin, until, depth, name, number in zip(*(column.tolist() for column in columns), strict=True):
        yield Slice(begin, until - begin, depth, frame.encode(name) if number == 1 else None, number)


ANALYSES = (
    Analysis(20, "step_breakdown", step_breakdown.StepBreakdown, step_breakdown.analyze, needs=(STEPS,)),
    Analysis(60, "resources", resources.StepResources, resources.analyze, needs=(STEPS,)),
    Analysis(350, "timeline", Timeline, analyze, needs=(STEPS,)),
)
