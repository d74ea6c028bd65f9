"""Which marks of the framework are steps, and what do they say of the steps that something else marks?"""

from __future__ import annotations

import numpy as np

from traceanalyzer.knowledge.framework_marks import StepMark
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.recording.frameworks import main_framework
from traceanalyzer.structure.steps import Steps
from traceanalyzer.structure.sums import count_by
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.table import I64, entries
from traceanalyzer.trace.tables import Category


def step_marks(context: Context) -> tuple[I64, dict[int, StepMark]]:
    """Host rows that are step marks of the main framework, and what the mark of each name says, by its code."""
    framework, trace = main_framework(context), context.trace
    if framework is None or framework.step_mark is None:
        return np.empty(0, np.int64), {}
    annotation = np.flatnonzero(trace.host.category == Category.ANNOTATION)
    codes = distinct(trace.host.name[annotation]).tolist()
    said = {code: mark for code in codes if (mark := framework.step_mark(trace.names[code])) is not None}
    return annotation[np.isin(trace.host.name[annotation], [*said])], said


def outermost(context: Context, rows: I64) -> I64:
    """The host rows that do not start within another of the given rows."""
    start, end = context.trace.host.start_ns[rows], context.trace.host.end_ns[rows]
    before = np.maximum.accumulate(np.append(-1, end))[:-1]
    return rows[start >= before]


def marks_within(context: Context, steps: Steps) -> tuple[StepMark | None, ...]:
    """What the framework's only mark in each step says; None for steps with none or several, empty without any."""
    rows, said = step_marks(context)
    start, end = steps.mark_ns or (steps.start_ns, steps.end_ns)
    times = context.trace.host.start_ns[rows := outermost(context, rows)]
    step = np.searchsorted(start, times, side="right") - 1
    inside = times < entries(end, step, 0)
    rows, step = rows[inside], step[inside]
    if not len(rows):
        return ()
    alone = count_by(step, len(steps))[step] == 1
    marks: list[StepMark | None] = [None] * len(steps)
    for row, number in zip(rows[alone].tolist(), step[alone].tolist(), strict=True):
        marks[number] = said[int(context.trace.host.name[row])]
    return tuple(marks)
