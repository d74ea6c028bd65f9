"""Edits whose size was measured: waits for the loader that workers take away, and the cost of recording."""

from __future__ import annotations

from functools import cached_property
from math import fsum
from statistics import mean

import numpy as np

from traceanalyzer.analyzers import loader
from traceanalyzer.analyzers.loader import in_workers
from traceanalyzer.knowledge.profiler_overhead import EventCost, overheads
from traceanalyzer.simulation.applying import loader_waits
from traceanalyzer.simulation.edits import Edit, HostEdit, LoaderEdit
from traceanalyzer.simulation.model import Model
from traceanalyzer.simulation.window import ModelledWindow
from traceanalyzer.structure import recording
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_activity import operator_rows
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.sums import Columns, members
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import F64, I32, I64

_ALL = 0.99
"""Share of the exposed waiting from which on all of it is meant (own choice: less than its uncertainty)."""


class LoaderTime:
    """Waiting for the loader in the steps of a model, and edits that take some of it away."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._steps = len(model.bounds.part)

    def shorter(self, ns: float, gone_ns: float = 0.0) -> LoaderEdit:
        """Waits become shorter, all by the same share; if a device no longer waits at all, neither does the host.

        Args:
            ns: Time in ns per step that goes away.
            gone_ns: Time in ns per step that other edits have taken away.
        """
        if ns + gone_ns >= _ALL * self._exposed_ns:
            return LoaderEdit(factor=0.0)
        left = self._all_ns - gone_ns
        return LoaderEdit(factor=max(0.0, 1.0 - ns / left) if left > 0 else 1.0)

    def share_above(self, floor_ns: int) -> float:
        """Share of the waiting that goes away if no wait takes longer than some time in ns."""
        _, length = loader_waits(self._model.graph.host)
        total = int(length.sum())
        return float(np.maximum(length - floor_ns, 0).sum()) / total if total else 0.0

    @cached_property
    def _all_ns(self) -> float:
        """Time in ns per step in which the host waits for the loader."""
        return float(loader_waits(self._model.graph.host)[1].sum()) / self._steps

    @cached_property
    def _exposed_ns(self) -> float:
        """Time in ns per step in which the host waits for the loader and no device works."""
        context = self._model.context
        host, device = context.trace.host, context.trace.device
        rows = context.kind == NodeKind.DATALOADER
        waits = self._model.judged & Intervals.union(host.start_ns[rows], host.end_ns[rows])
        return (waits - Intervals.union(device.start_ns, device.end_ns)).length / self._steps


def loader_waits_at_most(model: Model, floor_ns: int) -> tuple[list[Edit], list[Edit], list[Edit]]:
    """Edits so that no wait takes longer than some time: with what workers cost at most, half of that, and nothing.

    Args:
        model: The model.
        floor_ns: What a wait takes at most, in ns.
    """
    time = LoaderTime(model)
    most = LoaderEdit(floor_ns)
    saved = _saved(model.context, time.share_above(floor_ns))
    if saved is None or saved[0] >= saved[1]:
        return [most], [most], [most]
    least, mean_saving = saved[0], fsum(saved) / 2
    low: list[Edit] = [time.shorter(least)] if least > 0 else []
    middle: list[Edit] = [time.shorter(mean_saving)] if mean_saving > 0 else []
    return low, middle, [most]


def _saved(context: Context, share: float) -> tuple[float, float] | None:
    """What workers save in ns per step if a share of the waiting goes away: least and most; None if unknown."""
    typical = recording.analyze(context).typical
    if typical is None or loader.ANALYSES[0].missing(context) is not None:
        return None
    capture = context.trace.info.capture
    loaders = loader.analyze(context).loaders
    if in_workers.are_workers(loaders, capture):
        return 0.0, typical.parts.dataloader_ns * share
    room = in_workers.room(capture.host if capture else None, is_on_host=typical.resources.gpu_ns is None)
    asleep = in_workers.asleep_share(typical.parts, loaders, capture)
    return in_workers.saving(typical.parts, loaders, asleep, room, share)


# Estimates the host time that recording took: a cost for each event, as measured on another machine.
#
# Recording operators, ranges of `record_function`, calls of Python functions and allocations takes host time
# (`knowledge/profiler_overhead.json`), which a program without the profiler does not spend. So the true host time is
# between the recorded time and that time without these costs. The costs of runtime calls and device events were not
# measured.


def without_recording(context: Context, windows: tuple[ModelledWindow, ...], scale: float = 1.0) -> HostEdit:
    """The edit that removes the cost of recording from host time, after the start of each event.

    Where events begin so fast that their costs would overlap, each cost follows the previous one.

    Args:
        context: The trace.
        windows: The modelled parts; events outside are ignored.
        scale: Ratio of the cost here to the measured cost, 0 or more.
    """
    recorded = _recorded_events(context)
    inside = np.zeros(len(recorded), np.bool_)
    for window in windows:
        inside |= (recorded.time_ns >= window.start_ns) & (recorded.time_ns < window.end_ns)
    recorded = recorded.take(inside)
    recorded = recorded.take(np.argsort(recorded.time_ns, kind="stable"))

    cost = np.rint(scale * recorded.cost_ns).astype(np.int64)
    end = np.empty(len(recorded), np.int64)
    for _, rows in members(recorded.thread):
        # each cost ends after its own event and after the cost before it
        passed = np.cumsum(cost[rows])
        before = passed - cost[rows]
        end[rows] = passed + np.maximum.accumulate(recorded.time_ns[rows] - before)
    return HostEdit(recorded.thread, end - cost, end, 0.0)


class _RecordedEvents(Columns, frozen=True):
    """Events of the host whose recording takes time. Shapes (events,)."""

    thread: I32
    time_ns: I64
    """Start of the event."""
    cost_ns: F64
    """What its recording takes, as measured."""


def _recorded_events(context: Context) -> _RecordedEvents:
    """Operators and ranges of the program, calls of Python functions, and allocations."""
    host, frames, memory = context.trace.host, context.trace.frames, context.trace.memory
    is_operator = operator_rows(context)
    host_cost = np.where(is_operator, _median("operator"), _median("range"))
    host_cost += np.where(is_operator & (host.shapes > 0), _median("shapes"), 0.0)
    frame_cost = np.full(len(frames), _median("frame"))
    memory_cost = np.full(len(memory), _median("memory"))
    return _RecordedEvents.join(
        (
            _RecordedEvents(host.thread, host.start_ns, host_cost),
            _RecordedEvents(frames.thread, frames.start_ns, frame_cost),
            _RecordedEvents(memory.thread, memory.start_ns, memory_cost),
        )
    )


def _median(kind: str) -> float:
    """Cost of an event of a kind in ns: the mean over all measurements of their medians."""
    costs: list[EventCost] = [getattr(each, kind) for each in overheads()]
    return mean(cost.median_ns for cost in costs)
