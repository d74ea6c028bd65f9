"""Which requests and tokens do the typical steps of a server work on, by its own marks?

A mark belongs to the step in which the device does the last work launched in the mark, because the host may be far
ahead of the device.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np

from traceanalyzer.analyzers.serving.typical import typical
from traceanalyzer.knowledge.framework_marks import StepMark
from traceanalyzer.knowledge.frameworks import FRAMEWORKS
from traceanalyzer.structure.context import Context
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.table import I64
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

_PHASES = frozenset({"prefill", "decode", "mixed"})
"""Phases in which tokens are worked on."""


class ServedStep(msgspec.Struct, frozen=True):
    """A typical step that a server marked."""

    phase: str
    requests: int | None
    tokens: int | None
    length_ns: int


def served(context: Context) -> tuple[ServedStep, ...]:
    """Typical steps whose marks show a phase, in the order of time; other steps are left out."""
    rows, marks = _marks(context)
    steps = context.once(typical)
    members: dict[int, list[StepMark]] = {}
    for step, mark in zip(steps.at(_worked_on(context, rows)).tolist(), marks, strict=True):
        members.setdefault(step, []).append(mark)
    lengths = (steps.end_ns - steps.start_ns).tolist()
    found = [_step(own, lengths[step]) for step, own in sorted(members.items()) if step != NO_PARENT]
    return tuple(step for step in found if step is not None)


def _marks(context: Context) -> tuple[I64, list[StepMark]]:
    """Rows and content of the annotations with which a framework marks steps, the first of the table that has any."""
    host, names = context.trace.host, context.trace.names
    annotations = np.flatnonzero(host.category == Category.ANNOTATION)
    codes = distinct(host.name[annotations]).tolist()
    for framework in FRAMEWORKS:
        if framework.step_mark is not None:
            read = {code: mark for code in codes if (mark := framework.step_mark(names[code])) is not None}
            if read:
                rows = annotations[np.isin(host.name[annotations], list(read))]
                return rows, [read[code] for code in host.name[rows].tolist()]
    return annotations[:0], []


def _worked_on(context: Context, rows: I64) -> I64:
    """For each mark, when the device begins the last work launched in it; the mark's own start without any."""
    host, launches, device = context.trace.host, context.trace.launches, context.trace.device
    launch = context.links.launch
    events = np.flatnonzero(launch != NO_PARENT)
    called = launches.start_ns[launch[events]]
    order = np.argsort(called, kind="stable")
    called, begins = called[order], device.start_ns[events[order]]
    times = host.start_ns[rows].copy()
    for place, row in enumerate(rows.tolist()):
        start = int(host.start_ns[row])
        low, high = np.searchsorted(called, (start, start + int(host.dur_ns[row])))
        times[place] = begins[low:high].max(initial=start)
    return times


def _step(marks: list[StepMark], length_ns: int) -> ServedStep | None:
    """A step with all its marks; None if one of them has no phase."""
    phases = {mark.phase for mark in marks}
    if not phases <= _PHASES:
        return None
    phase = phases.pop() if len(phases) == 1 else "mixed"
    return ServedStep(str(phase), _sum(mark.requests for mark in marks), _sum(mark.tokens for mark in marks), length_ns)


def _sum(values: Iterable[int | None]) -> int | None:
    numbers = list(values)
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None
