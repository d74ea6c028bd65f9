"""Does the program empty the allocator's cache in its steps, and what does that cost?

Python frames show `torch.cuda.empty_cache()` by name. Without any, two or more calls in a row that free device memory
outside of operators most likely are one: tensors go to the cache, and only emptying it gives memory back to the driver.
What was given back has to be taken from the driver again, so calls that take memory after the first clearing count too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
import numpy as np

from traceanalyzer.knowledge.first_match import finds
from traceanalyzer.report.message import Text
from traceanalyzer.structure import host_activity
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.autograd import backward
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import Occurrences, event_set
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.structure.sums import Columns, count_by, group, sum_by
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, take_or
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

_is_function = finds(r"(?:^|[/\\])torch[/\\]\w+[/\\](?:memory|__init__)\.py\(\d+\): empty_cache$")
_is_built_in = finds(r"_emptyCache\b", re.IGNORECASE)
_IN_A_ROW = 2
"""Least calls in a row that free where no frame names what frees (own choice: one may be a tensor of its own)."""
_LINES = 5
_BURST, _IN_BURSTS = 4, 0.8
"""Calls that free per clearing, and share of all that free in clearings, from which on they empty a cache although
each tensor was taken from the driver (own choice: without a cache most tensors are freed alone, between others that
are taken)."""


class ClearingLine(msgspec.Struct, frozen=True):
    """Clearings that one Python line of the program asks for."""

    name: str
    """The line `file.py(12): function`."""
    clears: int
    """Clearings in the typical steps."""
    time_ns: int
    """Time of these clearings in ns."""


class CacheClears(msgspec.Struct, frozen=True):
    """Clearings of the allocator's cache in the typical steps, and calls that take memory again."""

    steps: int
    """Number of typical steps."""
    by_frames: bool
    """Whether Python frames name the clearings; else calls in a row that free memory are taken for them."""
    clears: int
    """Clearings in the typical steps."""
    cleared_steps: int
    """Number of typical steps in which a clearing starts."""
    time_ns: int
    """Time of the clearings in ns, waits for the device included."""
    frees: int
    """Calls in the clearings that give memory back to the driver."""
    all_frees: int
    """Calls in the typical steps that do so, also outside of the clearings."""
    takes: int
    """Calls in the typical steps that take device memory from the driver."""
    takes_again: int
    """Those of them that start after the first clearing of the recording."""
    taking_ns: int
    """Time of the calls that take memory again in ns."""
    lines: tuple[ClearingLine, ...]
    """Where clearings are asked for, those that take longest first, at most five; empty without frames."""
    in_backward: int = 0
    """Clearings within a backward pass, in which no line of a program empties the cache."""

    @property
    def is_of_allocator(self) -> bool:
        """Whether the allocator gives memory back by itself to get other blocks, because little is free."""
        return not self.by_frames and self.in_backward > 0

    @property
    def frees_in_bursts(self) -> bool:
        """Whether nearly all memory is given back in a few bursts, as empty_cache() does, and not tensor by tensor."""
        return self.frees >= max(_BURST * self.clears, _IN_BURSTS * self.all_frees)


class Clears(Columns, frozen=True):
    """Clearings in the whole recording, in the order of time for each thread."""

    thread: I64
    start_ns: I64
    end_ns: I64


def analyze(context: Context) -> CacheClears:
    """Add up the clearings and the calls that take memory again, in the typical steps."""
    steps = program_steps(context).typical
    clears, launches = context.cached(_in_steps), context.trace.launches
    again = context.cached(_takes_again)
    frees = np.flatnonzero(context.trace.names.where(host_activity.is_free)[launches.name])
    frees = frees[steps.at(launches.start_ns[frees]) >= 0]
    times = Intervals.union(clears.start_ns, clears.end_ns)
    return CacheClears(
        steps=len(steps),
        by_frames=len(context.cached(_frames)) > 0,
        clears=len(clears.thread),
        cleared_steps=len(distinct(steps.at(clears.start_ns))),
        time_ns=times.length,
        frees=int(times.contains(launches.start_ns[frees]).sum()),
        all_frees=len(frees),
        takes=len(context.cached(_takes)),
        takes_again=len(again),
        taking_ns=int(launches.dur_ns[again].sum()),
        lines=_lines(context, clears) if len(context.cached(_frames)) else (),
        in_backward=_in_backward(context, clears),
    )


@event_set
def clears_at(context: Context) -> Iterator[Occurrences]:
    """When the cache is emptied in typical steps, and when memory is taken again."""
    clears = context.cached(_in_steps)
    yield Occurrences("host", "empty_cache", clears.thread, clears.start_ns, clears.end_ns)
    yield Occurrences.of_calls(context, "empty_cache", context.cached(_takes_again))


def _in_backward(context: Context, clears: Clears) -> int:
    passes = context.cached(backward)
    times = Intervals.union(passes.start_ns, passes.end_ns)
    return int(times.contains(clears.start_ns).sum())


def _frames(context: Context) -> I64:
    """Rows of frames that empty the cache: the functions of torch, or the built-in functions where only these are."""
    names, frames = context.trace.names, context.trace.frames
    functions = np.flatnonzero(names.where(_is_function)[frames.name])
    return functions if len(functions) else np.flatnonzero(names.where(_is_built_in)[frames.name])


def _clears(context: Context) -> Clears:
    rows, frames = context.cached(_frames), context.trace.frames
    if not len(rows):
        return _without_frames(context)
    return Clears(frames.thread[rows].astype(np.int64), frames.start_ns[rows], frames.end_ns[rows])


def _without_frames(context: Context) -> Clears:
    """Calls in a row that free, outside of operators; waits for the device may be between them."""
    launches, host, names = context.trace.launches, context.host, context.trace.names
    frees = names.where(host_activity.is_free)[launches.name]
    if np.count_nonzero(frees) < _IN_A_ROW:
        return Clears(*np.empty((3, 0), np.int64))
    is_wait = names.where(host_activity.is_synchronization)[launches.name]
    rows = np.flatnonzero(~is_wait)
    rows = rows[np.lexsort((launches.start_ns[rows], launches.thread[rows]))]
    in_operator = take_or(host.category == Category.OPERATOR, context.links.node[rows], missing=False)
    is_free = frees[rows] & ~in_operator
    is_same = np.append(False, launches.thread[rows[1:]] == launches.thread[rows[:-1]])[: len(rows)]
    is_same &= np.append(False, is_free[:-1])[: len(rows)]
    first = np.flatnonzero(is_free & ~is_same)
    follows = np.append(is_same[1:] & is_free[1:], False)[: len(rows)]
    last = np.flatnonzero(is_free & ~follows)
    long = last - first + 1 >= _IN_A_ROW
    begin, end = rows[first[long]], rows[last[long]]
    return Clears(launches.thread[begin].astype(np.int64), launches.start_ns[begin], launches.end_ns[end])


def _in_steps(context: Context) -> Clears:
    """The clearings that start in typical steps."""
    found = context.cached(_clears)
    kept = program_steps(context).typical.at(found.start_ns) >= 0
    return Clears(found.thread[kept], found.start_ns[kept], found.end_ns[kept])


def _takes(context: Context) -> I64:
    """Calls in typical steps that take memory from the driver."""
    launches = context.trace.launches
    rows = np.flatnonzero(context.trace.names.where(host_activity.is_taking)[launches.name])
    return rows[program_steps(context).typical.at(launches.start_ns[rows]) >= 0]


def _takes_again(context: Context) -> I64:
    """Those of these calls that start after the first clearing."""
    rows, clears = context.cached(_takes), context.cached(_clears)
    if not len(clears.thread):
        return rows[:0]
    again: I64 = rows[context.trace.launches.start_ns[rows] >= clears.start_ns.min()]
    return again


def _lines(context: Context, clears: Clears) -> tuple[ClearingLine, ...]:
    line = host_activity.python_lines(context, clears.thread.astype(np.int32), clears.start_ns)
    known = np.flatnonzero(line != NO_PARENT)
    line, time = line[known], (clears.end_ns - clears.start_ns)[known]
    first, own = group(line)
    sums = count_by(own, len(first)), sum_by(own, time, len(first))
    names = [context.trace.names[code] for code in line[first].tolist()]
    found = [ClearingLine(*row) for row in zip(names, *(each.tolist() for each in sums), strict=True)]
    return tuple(sorted(found, key=lambda row: (-row.time_ns, row.name))[:_LINES])


_NEEDED = Need(
    Text("skip-no-cache-clears", "nothing shows that the allocator's cache is emptied in the typical steps"),
    lambda context: len(context.cached(_in_steps).thread) > 0,
)
ANALYSES = (Analysis(321, "cache_clears", CacheClears, analyze, needs=(_NEEDED,), is_of_steps=True),)
