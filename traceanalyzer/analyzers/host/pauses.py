"""When is nothing recorded for long in a program on the CPU, and what is around these pauses?

A pause is time of a typical step in which nothing was recorded on any thread but marks of steps and Python frames: no
operator, no loader, optimizer, collective or range, and it comes back between the same events. In a pause, Python code
computes, sleeps, or waits for a file, the network or another process. Between two functions of autograd no code of the
program runs: there a thread that lost its core stands still, which is no pause. Neither is time of torch's own modules,
whose code neither sleeps nor waits, nor time in which a mark or function of the program prepares inputs, nor that of
checkpoints and collections of garbage in most steps of a training, which `beside_training` has. Stacks, if recorded,
name the owner. Recordings with device work are left out, because time costs nothing there while the device works (see
`step_idle`).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from traceanalyzer.analyzers.host import beside_training
from traceanalyzer.knowledge import compiled_code, marks
from traceanalyzer.knowledge.host_roles import INPUTS, PREPARATION, REQUESTS, is_waiting
from traceanalyzer.report.message import Text
from traceanalyzer.structure import host_activity
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import Occurrences, event_set
from traceanalyzer.structure.gaps import times_of
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.owners import EVALUATION, Owner, owner_index
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.structure.sums import group, rows_by, sum_by
from traceanalyzer.trace.distinct import ascending, distinct
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, Bool, take_or
from traceanalyzer.trace.tree import NO_PARENT

LEAST_NS = 300_000
"""Least duration of a pause (own choice: Python code between two operators takes some ten microseconds)."""
_LOCK_NS = 2_500_000
"""Half of the time for which a thread of Python keeps the interpreter's lock that another one asks for."""
_OFTEN = 0.05
"""Least share of the times between two events that are long where the program pauses there (own choice: a thread loses
its core in one of a thousand)."""
_JUDGED = 100
"""Number of pauses whose places are counted."""
_OWNERS = 5
_FIRST_GRADIENT = "aten::ones_like"
"""What `backward` calls before it evaluates the first function."""
_MODULES = "/torch/nn/modules/"
"""Where the files of torch's own modules are."""
_LEAVES = frozenset({"operator", "call"})
_OF_OTHERS = frozenset({*INPUTS, PREPARATION, REQUESTS})
"""Roles of work that is judged by itself."""


class PauseOwner(msgspec.Struct, frozen=True):
    """Part of the pauses that one owner has."""

    kind: str
    """Kind of the owner, as in `host_owners`."""
    name: str
    """Name of the owner, as in `host_owners`."""
    role: str | None
    """What the work is for; null if no name shows it."""
    file: str | None
    """File of the function; null if no stack shows it."""
    line: int | None
    """Line of the function; null if no stack shows it."""
    time_ns: int
    """Time of this owner in the pauses, in ns."""
    start_ns: int
    """Start of the first of these pauses in ns since the first event."""


class HostPauses(msgspec.Struct, frozen=True):
    """Pauses in the typical steps; times in ns are sums over them."""

    steps: int
    """Number of typical steps."""
    paused_steps: int
    """Number of typical steps that have a pause."""
    pauses: int
    """Number of pauses."""
    time_ns: int
    """Time of the pauses."""
    longest_ns: int
    """Duration of the longest."""
    longest_start_ns: int
    """Its start in ns since the first event."""
    after: str | None
    """Name of the last operator or range before the longest one in its step; null if there is none."""
    owners: tuple[PauseOwner, ...]
    """Owners of the time, those with most first, at most five; empty if unknown."""
    least_ns: int = 0
    """Time of the pauses in the step that has the least of them; 0 if a step has none."""
    beyond_ns: int = 0
    """Time of these steps in which nothing was recorded, of shorter gaps only what they are longer than usual."""
    places: int = 0
    """Number of operators and ranges, by their names, after which long ones of them begin (2.5 ms, half of the time for
    which Python keeps its lock)."""
    asleep_ns: int | None = None
    """Part of the time of the pauses in built-in functions that wait; null without Python frames."""
    working_ns: int | None = None
    """Greatest time on a core of a step that its recorded operators need, as far as the time without a core can have
    been in them; null if no capture counts it."""


def analyze(context: Context) -> HostPauses:
    """Add up the pauses."""
    found = context.cached(_pauses)
    steps = program_steps(context).typical
    time = found.end - found.start
    longest = int(time.argmax())
    return HostPauses(
        steps=len(steps),
        paused_steps=len(distinct(steps.at(found.start))),
        pauses=len(time),
        time_ns=int(time.sum()),
        longest_ns=int(time[longest]),
        longest_start_ns=int(found.start[longest]),
        after=_before(context, int(found.start[longest])),
        owners=_owners(context, found),
        least_ns=int(sum_by(steps.at(found.start), time, len(steps)).min()),
        beyond_ns=_beyond(context),
        places=len({_before(context, at) for at in found.start[time >= _LOCK_NS][:_JUDGED].tolist()}),
        asleep_ns=int(_asleep(context).within(found.start, found.end).sum()) if len(context.trace.frames) else None,
        working_ns=_working(context),
    )


@event_set
def pauses_at(context: Context) -> Iterator[Occurrences]:
    """When the program's thread pauses."""
    found = context.cached(_pauses)
    main = context.cached(owner_index).critical.main
    yield Occurrences("host", "pauses", np.full(len(found), main), found.start, found.end)


def _pauses(context: Context) -> Intervals:
    """The long intervals of each typical step in which nothing was recorded and that come back where they are.

    A thread that loses its core pauses anywhere: between two events that follow each other thousands of times without.
    """
    gaps = context.cached(_gaps)
    kept = gaps.end - gaps.start >= LEAST_NS
    kept &= _recurs(context, gaps, kept) | (2 * _asleep(context).within(gaps.start, gaps.end) >= gaps.end - gaps.start)
    return Intervals(gaps.start[kept], gaps.end[kept])


def _recurs(context: Context, gaps: Intervals, long: Bool) -> Bool:
    """Whether many of the intervals between the same two events are long, or many steps have a long one there."""
    host, steps = context.trace.host, program_steps(context).typical
    rows = np.flatnonzero(_is_recorded(context))
    ended, began = rows[np.argsort(host.end_ns[rows], kind="stable")], rows[np.argsort(host.start_ns[rows])]
    last = np.searchsorted(host.end_ns[ended], gaps.start, side="right") - 1
    following = np.searchsorted(host.start_ns[began], gaps.end)
    before, after = take_or(host.name[ended], last, -1), take_or(np.append(host.name[began], -1), following, -1)
    first, between = group(before, after)
    share = sum_by(between, long.astype(np.int64), len(first)) / np.bincount(between, minlength=len(first))
    step = steps.at(gaps.start)
    number = np.arange(len(step)) - np.searchsorted(step, step)
    places, place = group(before, after, number)
    in_steps = sum_by(place, long.astype(np.int64), len(places))
    recurs: Bool = (share[between] >= _OFTEN) | (2 * in_steps[place] >= max(2, len(steps)))
    return recurs


def _asleep(context: Context) -> Intervals:
    """When the program's thread is in a built-in function that waits."""
    frames, main = context.trace.frames, context.cached(owner_index).critical.main
    rows = np.flatnonzero(context.trace.names.where(is_waiting)[frames.name] & (frames.thread == main))
    return Intervals.union(frames.start_ns[rows], frames.end_ns[rows])


def _beyond(context: Context) -> int:
    """How much longer the time is in which nothing was recorded than if all gaps were as long as the usual one."""
    gaps = context.cached(_gaps)
    length = gaps.end - gaps.start
    short = length[length < LEAST_NS]
    usual = int(np.median(short)) if len(short) else 0
    return int(np.maximum(length - usual, 0).sum())


def _working(context: Context) -> int | None:
    """How long operators of a step are on a core at least: their time less all that the step waited for a core.

    All steps do the same, so that the one that shows most counts.
    """
    facts, program = context.trace.info.capture, program_steps(context)
    if facts is None or len(facts.recorded) != len(program):
        return None
    queued = np.array([step.queued_ns for step in facts.recorded], np.int64)[program.is_typical]
    steps = program.typical
    silent = context.cached(_gaps).within(steps.start_ns, steps.end_ns)
    return int(np.maximum(steps.end_ns - steps.start_ns - silent - queued, 0).max(initial=0))


def _gaps(context: Context) -> Intervals:
    """All intervals of each typical step in which nothing was recorded."""
    steps = program_steps(context).typical
    free = Intervals.union(steps.start_ns, steps.end_ns) - _busy(context) - _of_others(context)
    free = free - beside_training.silent_times(context)
    bounds = ascending(np.concatenate((free.start, free.end, steps.start_ns, steps.end_ns)))
    start = bounds[:-1]
    end = bounds[1:]
    kept = (end > start) & (free.within(start, end) == end - start)
    kept &= ~_within_backward(context, start, end)
    return Intervals(start[kept], end[kept])


def _of_others(context: Context) -> Intervals:
    """When the program's thread is in torch's own modules, or prepares inputs, which is judged by itself."""
    index = context.cached(owner_index)
    parts = index.timeline
    others = [own.role in _OF_OTHERS or _is_module_of_torch(own) for own in index.owners]
    is_other = np.array([*others, False], np.bool_)
    rows = is_other[parts.owner]
    return Intervals.union(parts.start_ns[rows], parts.end_ns[rows])


def _is_module_of_torch(own: Owner) -> bool:
    return own.file is not None and _MODULES in f"/{own.file}"


def _within_backward(context: Context, start: I64, end: I64) -> Bool:
    """Which of some times lie between two functions of autograd, where no code of the program runs."""
    host = context.trace.host
    evaluated = context.trace.names.where(lambda name: name.startswith(EVALUATION))[host.name]
    before = evaluated | context.trace.names.where(lambda name: name == _FIRST_GRADIENT)[host.name]
    return np.isin(start, host.end_ns[before]) & np.isin(end, host.start_ns[evaluated])


def _busy(context: Context) -> Intervals:
    """When any event was recorded, except marks around parts of a step."""
    launches = context.trace.launches
    return times_of(context.trace.host, _is_recorded(context)) | Intervals.union(launches.start_ns, launches.end_ns)


def _is_recorded(context: Context) -> Bool:
    """Which rows of the host table are work."""
    host, names = context.trace.host, context.trace.names
    works = names.where(_works)[host.name]
    plain = np.isin(context.kind, (NodeKind.OPERATOR, NodeKind.PYTHON)) & ~names.where(_only_marks)[host.name]
    rows: Bool = works | plain | np.isin(context.kind, (NodeKind.DATALOADER, NodeKind.OPTIMIZER, NodeKind.COLLECTIVE))
    return rows


def _works(name: str) -> bool:
    """Whether a range is work of a kind that other rules are about."""
    return (
        marks.is_optimizer(name)
        or host_activity.is_communicating(name)
        or host_activity.is_compiling(name)
        or compiled_code.is_compilation(name)
    )


def _only_marks(name: str) -> bool:
    return marks.is_mark_among_operators(name) and not _works(name)


def _before(context: Context, time: int) -> str | None:
    """Name of the event that ended last before a time, in the step around it."""
    host = context.trace.host
    steps = program_steps(context).typical
    step = int(steps.at(np.array([time]))[0])
    ended = (host.end_ns <= time) & (host.start_ns >= steps.start_ns[step]) & (context.kind != NodeKind.NONE)
    rows = np.flatnonzero(ended)
    if not len(rows):
        return None
    last = rows[np.lexsort((host.dur_ns[rows], host.end_ns[rows]))[-1]]
    name: str = context.trace.names[int(host.name[last])]
    return name


def _owners(context: Context, found: Intervals) -> tuple[PauseOwner, ...]:
    """Owners of the pauses, by the owners of host time."""
    index = context.cached(owner_index)
    parts = index.timeline
    time = found.within(parts.start_ns, parts.end_ns)
    known = np.flatnonzero((time > 0) & (parts.owner != NO_PARENT))
    total = sum_by(parts.owner[known], time[known], len(index.owners))
    order = np.lexsort((np.arange(len(total)), -total))
    rows = []
    parts_of = rows_by(parts.owner[known])
    for number in order[total[order] > 0].tolist():
        own = index.owners[number]
        if own.kind in _LEAVES:
            continue
        first = known[parts_of(number)[0]]
        start = int(parts.start_ns[first])
        rows.append(PauseOwner(own.kind, own.name, own.role, own.file, own.line, int(total[number]), start))
    return tuple(rows[:_OWNERS])


_DEVICE = Need(
    Text("skip-pauses-device", "a device worked: time in which it idles is told apart from other time instead"),
    lambda context: not (len(context.trace.device) or len(context.trace.accelerator)),
)
_PAUSE = Need(
    Text("skip-no-pauses", "something is recorded at any time of the typical steps, pauses of 0.3 ms excepted"),
    lambda context: len(context.cached(_pauses).start) > 0,
)
ANALYSES = (Analysis(480, "host_pauses", HostPauses, analyze, needs=(_DEVICE, _PAUSE)),)
