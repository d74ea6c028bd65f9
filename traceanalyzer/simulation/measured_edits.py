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
from traceanalyzer.structure.sums import members
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
    time, most = LoaderTime(model), LoaderEdit(floor_ns)
    saved = _saved(model.context, time.share_above(floor_ns))
    if saved is None or saved[0] >= saved[1]:
        return [most], [most], [most]
    low, middle = ([time.shorter(ns)] if ns > 0 else [] for ns in (saved[0], fsum(saved) / 2))
    return [*low], [*middle], [most]


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
    trace, operators = context.trace, operator_rows(context)
    cost = np.where(operators, _median("operator"), _median("range"))
    cost += np.where(operators & (trace.host.shapes > 0), _median("shapes"), 0.0)
    tables = (
        (trace.host, cost),
        (trace.frames, np.full(len(trace.frames), _median("frame"))),
        (trace.memory, np.full(len(trace.memory), _median("memory"))),
    )
    parts = [_within(windows, table.thread, table.start_ns, costs) for table, costs in tables]
    thread, time, costs = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    less = np.rint(scale * costs).astype(np.int64)
    order = np.argsort(time, kind="stable")
    thread, time, less = thread[order], time[order], less[order]
    end = np.empty(len(time), np.int64)
    for _, rows in members(thread):
        passed = np.cumsum(less[rows])
        end[rows] = passed + np.maximum.accumulate(time[rows] - (passed - less[rows]))
    return HostEdit(thread, end - less, end, 0.0)


def _within(windows: tuple[ModelledWindow, ...], thread: I32, time: I64, costs: F64) -> tuple[I32, I64, F64]:
    """Events inside the windows."""
    inside = np.zeros(len(time), np.bool_)
    for window in windows:
        inside |= (time >= window.start_ns) & (time < window.end_ns)
    return thread[inside], time[inside], costs[inside]


def _median(kind: str) -> float:
    """Cost of an event of a kind in ns: the mean over all measurements of their medians."""
    costs: list[EventCost] = [getattr(each, kind) for each in overheads()]
    return mean(cost.median_ns for cost in costs)
