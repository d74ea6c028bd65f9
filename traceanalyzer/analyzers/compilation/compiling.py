"""Compilations: those in the recording, by the events that torch writes about them, and those of the logs."""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.analyzers.compilation.from_log import Told, place_of
from traceanalyzer.knowledge import compiled_code
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, Bool, entries
from traceanalyzer.trace.tree import NO_PARENT, Tree


class Compiling(msgspec.Struct, frozen=True):
    """One compilation of a function, or of its backward pass."""

    compilation: str | None
    """Number of the function and of its compilation, both counted by torch from 0: 0/1 is the second compilation of the
    first function; null for versions of torch that do not record it."""
    is_backward: bool
    """Whether the backward pass was compiled."""
    is_again: bool
    """Whether the function had been compiled before, so that an existing compilation could not be used."""
    start_ns: int | None
    """Start in the recording in ns since the first event of the trace; null if it is only in the log."""
    time_ns: int | None
    """Duration in ns, compilations within it included; null if unknown."""
    step: str | None
    """Name of the step in which it started; null outside of steps or of the recording."""
    function: str | None
    """Name of the function, from the log; null without a log."""
    file: str | None
    """File of the function, from the log; null without a log."""
    line: int | None
    """First line of the function, from the log; null without a log."""
    reasons: tuple[str, ...]
    """Why earlier compilations could not be used, from the log."""


def length(context: Context) -> int:
    """Intervals of the recording in which something was compiled."""
    host, rows = context.trace.host, _rows(context)
    return Intervals.union(host.start_ns[rows], host.end_ns[rows]).length


def analyze(context: Context, told: Told) -> tuple[Compiling, ...]:
    """All compilations: first those in the recording, in the order of time, then those only in logs."""
    recorded = _recorded(context, told)
    seen = {row.compilation for row in recorded}
    only_logged = []
    for found in told.compilations:
        if found.id not in seen:
            again = compiled_code.is_recompilation(found.id)
            place = place_of(found.code or found.caller)
            only_logged.append(Compiling(found.id, False, again, None, found.duration_ns, None, *place, found.reasons))
    return (*recorded, *only_logged)


def _rows(context: Context) -> I64:
    host = context.trace.host
    return np.flatnonzero(context.trace.names.where(compiled_code.is_compilation)[host.name])


def _recorded(context: Context, told: Told) -> tuple[Compiling, ...]:
    host, names, rows = context.trace.host, context.trace.names, _rows(context)
    if not len(rows):
        return ()
    tree, order = Tree.build(host.thread[rows], host.start_ns[rows], host.dur_ns[rows])
    rows = rows[order]
    outermost = np.flatnonzero(~_is_within_equal(context, tree, rows))
    ids = _ids(context, tree, rows)
    steps = program_steps(context).every
    step = steps.at(tree.start_ns[outermost])
    found = []
    for position, at in sorted(zip(outermost.tolist(), step.tolist(), strict=True), key=lambda p: rows[p[0]]):
        row, known = int(rows[position]), ids[position]
        logged = told.of(known)
        name = names[int(host.name[row])]
        found.append(
            Compiling(
                known,
                compiled_code.is_backward_compilation(name),
                known is not None and compiled_code.is_recompilation(known),
                int(host.start_ns[row]),
                int(host.dur_ns[row]),
                steps.names[at] if at >= 0 else None,
                *place_of(logged.code if logged else None),
                logged.reasons if logged else (),
            )
        )
    return tuple(found)


def _is_within_equal(context: Context, tree: Tree, rows: I64) -> Bool:
    """Which events are the second range of a compilation: dynamo writes two ranges for each.

    A range of another kind within one of `entire_frame_compile` is the same compilation.
    """
    names = context.trace.names
    second = names.where(_is_inner_name)[context.trace.host.name[rows]]
    within: Bool = second & (tree.parent != NO_PARENT)
    return within


def _is_inner_name(name: str) -> bool:
    return name.startswith("_compile.")


def _ids(context: Context, tree: Tree, rows: I64) -> list[str | None]:
    """The compilation of each event: from the first mark within it that names one."""
    host, names = context.trace.host, context.trace.names
    marks = np.flatnonzero(names.where(compiled_code.is_named_compilation)[host.name])
    around = tree.innermost(host.thread[marks], host.start_ns[marks])
    known = np.full(len(rows), -1, np.int64)
    inside = around != NO_PARENT
    known[around[inside][::-1]] = host.name[marks[inside]][::-1]  # the first of several counts
    outer = entries(known, tree.parent, -1)
    code = np.where(known >= 0, known, outer)
    return [compiled_code.named_compilation(names[int(row)]) if row >= 0 else None for row in code.tolist()]
