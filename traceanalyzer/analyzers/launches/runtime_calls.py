"""Which calls of the runtime set something up, and do they come back step after step?

Allocating and freeing device memory and loading or compiling code belong to a program's first steps. Calls in the
first step of a recording are counted apart from those in later ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import reduce
from operator import or_

import msgspec
import numpy as np

from traceanalyzer.knowledge import compiled_code
from traceanalyzer.report.message import Text
from traceanalyzer.structure import first_uses, host_activity, launch_calls
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import Occurrences, event_set
from traceanalyzer.structure.gaps import times_of
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.structure.steps import ON_DEVICE, Steps
from traceanalyzer.structure.sums import count_by, group, members
from traceanalyzer.structure.typical import mean
from traceanalyzer.trace.distinct import distinct, ranked
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I32, I64, Array, Bool, take_or
from traceanalyzer.trace.tree import NO_PARENT

_CHEAP = re.compile(r"Async(_ptsz)?$|^cuMem(Create|Map|Unmap|Release|SetAccess|AddressReserve|AddressFree)")
"""Allocations from a pool in stream order, and mappings of expandable segments: made for use while work runs."""
_SHOWN = 20


class SetUp(msgspec.Struct, frozen=True):
    """All events of one kind and name from one Python line."""

    kind: str
    """`allocation`, `loading` (code for the device) or `compiling` (by TorchDynamo, Triton and the like)."""
    name: str
    """Name of the runtime function, of an event of the profiler, of a range, of a Python frame, or of the operator in
    which something was compiled."""
    is_inferred: bool
    """Whether it only counts because it takes long for no other reason: a launch of a millisecond or longer, silence in
    an operator before a new fused kernel."""
    python_line: str | None
    """The Python line that caused it; null where stacks were not recorded."""
    calls: int
    """Number of events that start within a step."""
    time_ns: int
    """Time of these events in ns; events within each other count once."""
    later_calls: int
    """Number of these events in the second recorded step or later."""
    later_steps: int
    """Number of steps from the second on in which such events start."""
    later_ns: int
    """Time in ns of the events in the second recorded step or later."""
    longest_start_ns: int
    """Start of the longest event in ns since the first event of the trace."""
    usual_calls: int = 0
    """Number of these events in usual steps: typical ones, without the first recorded step."""
    usual_steps: int = 0
    """Number of usual steps in which such events start."""
    usual_ns: int = 0
    """Time in ns of the events in usual steps."""
    recurring_calls: int = 0
    """Number of these events in a usual step that has any: the lower median over such steps, so that a single step with
    many does not count for the others."""
    recurring_ns: int = 0
    """Time in ns of these events in a usual step that has any: the lower median over such steps."""


class RuntimeCalls(msgspec.Struct, frozen=True):
    """Calls that allocate memory, or load or compile code, within the steps."""

    steps: int
    """Number of recorded steps."""
    code_ns: int
    """Time of the steps in ns in which something loads or compiles code; events within each other count once."""
    later_code_ns: int
    """Part of the time in ns in the second recorded step or later."""
    rows: tuple[SetUp, ...]
    """Events by kind, name and Python line; within a kind the most time in later steps first."""
    later_compiling_steps: int = 0
    """Number of steps from the second recorded one on in which something is compiled."""
    usual_compiling_ns_per_step: float | None = None
    """Mean time of the typical steps in ns in which something is compiled; null in reports of earlier versions."""
    usual_steps: int = 0
    """Number of usual steps: typical ones, without the first recorded step."""

    @property
    def allocating_ns(self) -> float:
        """Time of a usual step in calls that allocate or free memory, in ns."""
        return mean(sum(row.usual_ns for row in self.rows if row.kind == "allocation"), self.usual_steps)


def analyze(context: Context) -> RuntimeCalls:
    """Set-up that starts within a step."""
    allocations = _allocations(context)
    code = [*_loading(context), *_compiling(context)]
    rows = [row for kind, events in (*allocations, *code) for row in _grouped(context, kind, events)]
    steps = context.cached(_steps)
    within = _times(code).within(steps.start_ns, steps.end_ns)
    usual = program_steps(context).typical
    compiling = _compiling_times(context)
    return RuntimeCalls(
        len(steps),
        int(within.sum()),
        int(within[1:].sum()),
        tuple(sorted(rows, key=_order)),
        later_compiling_steps=int((compiling.within(steps.start_ns[1:], steps.end_ns[1:]) > 0).sum()),
        usual_compiling_ns_per_step=int(compiling.within(usual.start_ns, usual.end_ns).sum()) / max(1, len(usual)),
        usual_steps=int(_usual(context).sum()),
    )


def _steps(context: Context) -> Steps:
    """The recorded steps; without marks those of the program, if it compiles in later ones again and again.

    Where only devices were recorded, it is the program's only step, which has what it does before its first kernel.
    """
    every = program_steps(context).every
    if context.steps.found_by == ON_DEVICE and len(every) == 1:
        return every
    if len(context.steps) > 1 or len(every) <= 1:
        return context.steps
    compiling = _compiling_times(context).within(every.start_ns[1:], every.end_ns[1:])
    return every if (compiling > 0).sum() > 1 else context.steps


def _usual(context: Context) -> Bool:
    """Which steps of the program are typical and not the first one, in which much is done once for all."""
    found = program_steps(context).is_typical.copy()
    found[:1] = False
    return found


def _compiling_times(context: Context) -> Intervals:
    """When something is compiled, by ranges and frames of compilers and by torch's events about compilations."""
    host = context.trace.host
    named = context.trace.names.where(_is_of_dynamo)
    return times_of(host, named[host.name]) | _times(_compiling(context))


def _times(found: list[tuple[str, _Events]]) -> Intervals:
    """When any of some events lasts."""
    return reduce(or_, (events.times for _, events in found))


def _order(row: SetUp) -> tuple[object, ...]:
    return row.kind, -row.later_ns, -row.time_ns, row.name, row.python_line or ""


def _allocations(context: Context) -> list[tuple[str, _Events]]:
    """Calls that allocate or free, except those that are designed to be cheap."""
    names, table = context.trace.names, context.trace.launches
    wanted = names.where(lambda name: host_activity.is_allocation(name) and not _CHEAP.search(name))
    return [("allocation", _Events.of(table, np.flatnonzero(wanted[table.name])))]


@event_set
def set_up_at(context: Context, names: frozenset[str]) -> Iterator[Occurrences]:
    """When the calls with some names run."""
    launches = context.trace.launches
    rows = np.flatnonzero(context.trace.names.where(names.__contains__)[launches.name])
    yield Occurrences.of_calls(context, min(names), rows)


@event_set
def code_at(context: Context) -> Iterator[Occurrences]:
    """When code is loaded or compiled."""
    found = [events for _, events in (*_loading(context), *_compiling(context))]
    columns = ([getattr(events, name) for events in found] for name in ("thread", "start", "end"))
    thread, start, end = map(np.concatenate, columns)
    yield Occurrences("host", "compilation", thread.astype(np.int64), start, end)


def _loading(context: Context) -> list[tuple[str, _Events]]:
    """Calls that load code, by name or because they are slow for no other reason; and the profiler's own events.

    Without device activity it is unknown why a call is slow.
    """
    names, table, overheads = context.trace.names, context.trace.launches, context.trace.overheads
    by_name = names.where(host_activity.is_loading)
    rows = host_activity.loading_calls(context)
    rows = rows[~np.isin(rows, launch_calls.blocked_calls(context))]
    if not len(context.trace.device):
        rows = rows[by_name[table.name[rows]]]
    calls = _Events.of(table, rows)
    calls.inferred = ~by_name[calls.name]
    marked = np.flatnonzero(names.where(host_activity.is_loading_overhead)[overheads.name])
    cold = first_uses.cold_calls(context)
    first = _Events.of(cold, np.arange(len(cold)))
    first.inferred[:] = True
    return [("loading", calls), ("loading", _Events.of(overheads, marked)), ("loading", first)]


def _compiling(context: Context) -> list[tuple[str, _Events]]:
    """Ranges and frames of compilers, and operators in which TorchScript most likely compiled."""
    compiling = context.trace.names.where(host_activity.is_compiling)
    tables = (context.trace.host, context.trace.frames)
    uses = first_uses.first_uses(context)
    first = _Events.of(uses, np.arange(len(uses)))
    first.inferred[:] = True
    named = [("compiling", _Events.of(table, np.flatnonzero(compiling[table.name]))) for table in tables]
    return [*named, ("compiling", first)]


def _is_of_dynamo(name: str) -> bool:
    return compiled_code.is_compilation(name) or compiled_code.is_conversion(name)


class _Events:
    """Some events as columns of name, thread, start and end."""

    def __init__(self, name: I32, thread: I32, start: I64, end: I64) -> None:
        self.name, self.thread, self.start, self.end = name, thread, start, end
        self.inferred: Bool = np.zeros(len(name), np.bool_)

    @classmethod
    def of(cls, table: object, rows: I64) -> _Events:
        """Some rows of a table of slices."""
        name, thread, start, dur = (getattr(table, key)[rows] for key in ("name", "thread", "start_ns", "dur_ns"))
        return cls(name, thread, start, start + dur)

    @property
    def times(self) -> Intervals:
        """When any of the events lasts."""
        return Intervals.union(self.start, self.end)

    def take(self, rows: Array) -> _Events:
        """Keep some of the events."""
        taken = _Events(self.name[rows], self.thread[rows], self.start[rows], self.end[rows])
        taken.inferred = self.inferred[rows]
        return taken


def _recurring(times: Intervals, step: I64, every: Steps) -> tuple[int, int]:
    """Calls and time of a typical one of the steps that have such calls, of which only those are looked at."""
    found, place = ranked(step)
    within = times.within(every.start_ns[found], every.end_ns[found])
    return _lower_median(count_by(place, len(found))), _lower_median(within)


def _lower_median(by_step: I64) -> int:
    """The middle one of the values that are not 0, the smaller of two middle ones; 0 if all are 0."""
    known = np.sort(by_step[by_step > 0])
    return int(known[(len(known) - 1) // 2]) if len(known) else 0


def _grouped(context: Context, kind: str, events: _Events) -> list[SetUp]:
    """Calls that start within a step, by name and Python line."""
    events = events.take(context.cached(_steps).at(events.start) >= 0)
    if not len(events.start):
        return []
    line = host_activity.python_lines(context, events.thread, events.start)
    _, groups = group(events.name, line)
    calls = []
    for _, rows in members(groups):
        code = line[rows[0]]
        python_line = context.trace.names[code] if code != NO_PARENT else None
        calls.append(_set_up(context, kind, events.take(rows), python_line))
    return sorted(calls, key=_order)[:_SHOWN]


def _set_up(context: Context, kind: str, events: _Events, python_line: str | None) -> SetUp:
    """Calls of one name from one line: all of them, those after the first step, and those in usual steps."""
    step = context.cached(_steps).at(events.start)
    is_later = step > 0
    every = program_steps(context).every
    number_of_step = every.at(events.start)
    is_usual = take_or(_usual(context), number_of_step, False)
    later = events.take(is_later)
    usual = events.take(is_usual)
    recurring_calls, recurring_ns = _recurring(usual.times, number_of_step[is_usual], every)
    longest = int((events.end - events.start).argmax())
    return SetUp(
        kind=kind,
        name=context.trace.names[events.name[0]],
        is_inferred=bool(events.inferred[0]),
        python_line=python_line,
        calls=len(events.start),
        time_ns=events.times.length,
        later_calls=len(later.start),
        later_steps=len(distinct(step[is_later])),
        later_ns=later.times.length,
        longest_start_ns=int(events.start[longest]),
        usual_calls=len(usual.start),
        usual_steps=len(distinct(number_of_step[is_usual])),
        usual_ns=usual.times.length,
        recurring_calls=recurring_calls,
        recurring_ns=recurring_ns,
    )


_STEPS = Need(
    Text("skip-runtime-calls-no-steps", "the trace has no steps, so recurring calls cannot be recognized"),
    lambda context: len(context.steps) > 0,
)
ANALYSES = (Analysis(220, "runtime_calls", RuntimeCalls, analyze, needs=(_STEPS,)),)
