"""Estimates the host time that recording took: a cost for each event, as measured on another machine.

Recording operators, ranges of `record_function`, calls of Python functions and allocations takes host time
(`knowledge/profiler_overhead.json`), which a program without the profiler does not spend. So the true host time is
between the recorded time and that time without these costs. The costs of runtime calls and device events were not
measured.
"""

from __future__ import annotations

from statistics import mean

import numpy as np

from traceanalyzer.knowledge.profiler_overhead import EventCost, overheads
from traceanalyzer.simulation.edits import HostEdit
from traceanalyzer.simulation.window import ModelledWindow
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_activity import operator_rows
from traceanalyzer.structure.sums import members
from traceanalyzer.trace.table import F64, I64


def without(context: Context, windows: tuple[ModelledWindow, ...], scale: float = 1.0) -> HostEdit:
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
    parts = [_within(windows, table.thread.astype(np.int64), table.start_ns, costs) for table, costs in tables]
    thread, time, costs = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    less = np.rint(scale * costs).astype(np.int64)
    order = np.argsort(time, kind="stable")
    thread, time, less = thread[order], time[order], less[order]
    end = np.empty(len(time), np.int64)
    for _, rows in members(thread):
        passed = np.cumsum(less[rows])
        end[rows] = passed + np.maximum.accumulate(time[rows] - (passed - less[rows]))
    return HostEdit(thread, end - less, end, 0.0)


def _within(windows: tuple[ModelledWindow, ...], thread: I64, time: I64, costs: F64) -> tuple[I64, I64, F64]:
    """Events inside the windows."""
    inside = np.zeros(len(time), np.bool_)
    for window in windows:
        inside |= (time >= window.start_ns) & (time < window.end_ns)
    return thread[inside], time[inside], costs[inside]


def _median(kind: str) -> float:
    """Cost of an event of a kind in ns: the mean over all measurements of their medians."""
    found: list[EventCost] = [getattr(each, kind) for each in overheads()]
    return mean(cost.median_ns for cost in found)
