"""Which facts about one rank are needed to compare it with the other ranks of its run?

Steps and collectives as columns, small enough for every saved report, so that ranks can be joined (`ranks`) without
their traces. Collectives are kernels, of libraries and of programs themselves, or, in a trace without any, host ranges
of libraries that work on the CPU (`gloo:`).

Starts and ends of the collectives of a step are its events. The time before the start of a collective is the rank's
own: kernels run, only copies run, it only waits for its loader, or none of these, so that the host is what takes time.
Before the end of a collective only kernels are the rank's own work; the rest may be waiting for other ranks.
"""

from __future__ import annotations

import re

import msgspec
import numpy as np
from msgspec.structs import replace

from traceanalyzer.knowledge.collectives import message_bytes, operation
from traceanalyzer.report.message import Text
from traceanalyzer.structure import gaps, recorded_collectives, resources
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.recorded_collectives import RecordedCollectives
from traceanalyzer.structure.recording.program_steps import WHOLE, program_steps
from traceanalyzer.structure.resources import StepResources
from traceanalyzer.structure.steps import Steps, host_part
from traceanalyzer.structure.sums import Columns
from traceanalyzer.trace.capture_facts import Timing
from traceanalyzer.trace.distinct import ascending
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.model import NO_COLLECTIVE, Collective
from traceanalyzer.trace.strings import StringPool
from traceanalyzer.trace.table import I64, UNKNOWN, Bool, take_or
from traceanalyzer.trace.tables import Category

MOST = 8192
"""Collectives of a rank, and steps (own choice: a quarter of a megabyte in the report)."""
_EPOCH_NS = 10**18
"""2001: a clock that has passed it counts from 1970."""
_PARTS = ("compute", "memory", "loader")
_SILENCE_NS = 1_000_000
"""From this time on without a start or end of an event it is unknown whether the host works (own choice: Python between
two operators takes less)."""
_SORTED = 1 << 16
"""Moments that are sorted at once (own choice: they fit into a cache)."""
_MUTUAL = frozenset({"all_reduce", "all_gather", "reduce_scatter", "barrier", "all_to_all"})
"""Operations that no rank can finish before all have come."""


class ProcessGroup(msgspec.Struct, frozen=True):
    """Ranks that communicate with each other."""

    name: str | None
    """Name of the process group; null where it is not recorded."""
    ranks: str | None
    """List of global ranks as recorded; the writer cuts long ones. Null where it is not recorded."""
    size: int | None
    """Number of ranks in the group; null where it is not recorded."""


class CollectiveKind(msgspec.Struct, frozen=True):
    """What collectives have in common."""

    operation: str | None
    """Operation such as `all_reduce`, as in the analysis `communication`; null where unknown."""
    group: int
    """Position of the process group in `groups`."""
    message_bytes: int | None
    """Size of one message in bytes, as in the analysis `communication`; null if unknown."""
    shapes: str | None
    """Input shapes of the host range as recorded; null where they were not recorded."""
    is_mutual: bool
    """Whether no rank can finish before all have come: true of `all_reduce`, `all_gather`, `reduce_scatter`, `barrier`
    and `all_to_all`, whatever its kernels are called; false of messages between two ranks, and from or to one."""
    is_even: bool = True
    """Whether every rank sends as much as any other, so that durations differ by waiting alone; false where this is
    unknown: of an `all_to_all` that does not say that its parts are equal, and of a program's own kernels, which need
    not end everywhere at once."""
    is_own: bool = False
    """Whether these are a program's own kernels, of no library of collectives."""


class RankSteps(msgspec.Struct, frozen=True):
    """Steps of the rank as columns, one entry per step in the order of time; a limit bounds their number."""

    name: tuple[str, ...]
    """Number of each step as the profiler counted it; counted from 0 where it marked none."""
    start_ns: tuple[int, ...]
    """Start of each step in ns since the first event of the trace."""
    duration_ns: tuple[int, ...]
    """Duration of each step in ns."""
    computation_ns: tuple[int, ...]
    """Time of each step in ns in which a kernel that is not a collective runs on any device."""
    compute_after_ns: tuple[int, ...] = ()
    """Time in ns after the last start or end of a collective in each step in which a kernel runs; the step as a whole
    where it has none. Empty in reports of old versions, as the other times of own work."""
    memory_after_ns: tuple[int, ...] = ()
    """Part of the rest of that time in ns in which a copy or fill runs on a device."""
    loader_after_ns: tuple[int, ...] = ()
    """Part of what then remains in ns in which something waits for the loader."""
    host_ns: tuple[int, ...] = ()
    """Time in ns in which the host works for each step and waits neither for a device nor for the loader, nor does
    nothing that is recorded for longer than a millisecond; at most the step. A step takes no less, however little the
    device has to do. Empty in reports of old versions."""


class RankCollectives(msgspec.Struct, frozen=True):
    """Collectives of the rank as columns, one entry per collective in the order in which they were called."""

    kind: tuple[int, ...]
    """Position in `kinds` of the kind of each collective."""
    sequence: tuple[int | None, ...]
    """Number of the operation within its group, the same on all ranks; null where it is not recorded."""
    step: tuple[int | None, ...]
    """Position in `steps` of the step whose mark holds the call of each collective; null between steps."""
    start_ns: tuple[int, ...]
    """Start of each collective in ns since the first event of the trace."""
    duration_ns: tuple[int, ...]
    """Duration of each collective in ns."""
    exposed_ns: tuple[int | None, ...]
    """Part of each duration in ns in which no other kernel runs; on the host, in which no other thread runs an
    operator. Null on the host in reports of old versions."""
    compute_before_ns: tuple[int, ...] = ()
    """Time in ns before the start of each collective in which a kernel that is not a collective runs: since the last
    start or end of another collective in its step, else since the start of the step. 0 between steps; empty in reports
    of old versions, as the other times of own work."""
    memory_before_ns: tuple[int, ...] = ()
    """Part of the rest of that time in ns in which a copy or fill runs on a device."""
    loader_before_ns: tuple[int, ...] = ()
    """Part of what then remains in ns in which something waits for the loader."""
    compute_during_ns: tuple[int, ...] = ()
    """Time in ns before the end of each collective in which a kernel that is not a collective runs: since its start, or
    since a later start or end of another collective in its step."""


class RankFacts(msgspec.Struct, frozen=True):
    """Facts about one rank that a comparison with the other ranks of its run needs."""

    clock_ns: int | None
    """Time of the first event in ns since 1970, by the clock of the rank's host; null if the file does not show it."""
    is_on_host: bool
    """Whether the collectives are host ranges, because the trace has no collective kernels."""
    groups: tuple[ProcessGroup, ...]
    """Process groups of the collectives, each once."""
    kinds: tuple[CollectiveKind, ...]
    """Kinds of collectives, each once."""
    steps: RankSteps
    """The steps of this rank."""
    collectives: RankCollectives
    """The collectives of this rank, of as many whole steps as the limit allows."""
    left_out: int
    """Number of collectives of later steps that are not listed."""
    resources: StepResources | None = None
    """Time of each resource per step of these steps; null without steps, and in reports of old versions."""
    control_step_ns: int | None = None
    """Duration of a step without the profiler in ns; null if no capture measured it."""
    profiled_step_ns: int | None = None
    """Duration of a recorded step in ns by the clock of the process; null if no capture measured it."""


def analyze(context: Context) -> RankFacts:
    """The steps and collectives of a trace."""
    kernels = context.cached(recorded_collectives.kernels_of_collectives)
    on_device = bool(kernels.any())
    if on_device:
        collectives = recorded_collectives.on_device(context, kernels)
    else:
        collectives = recorded_collectives.on_host(context)
    collectives = collectives.take(np.argsort(collectives.called, kind="stable"))
    step = _step_of(context, collectives.called)
    kept = _kept(step)
    left_out = len(step) - kept
    collectives = collectives.take(np.arange(kept))
    step = step[:kept]
    groups, kinds, kind = _kinds(context, collectives)
    steps = _steps(context)
    work, work_after = own_work(context, collectives, step, steps)
    capture = context.trace.info.capture
    timing = Timing() if capture is None else capture.timing
    return RankFacts(
        clock_ns=_clock(context),
        is_on_host=not on_device and bool(len(collectives.start)),
        groups=groups,
        kinds=kinds,
        steps=replace(steps, **work_after),
        collectives=RankCollectives(
            kind=kind,
            sequence=_or_null(collectives.sequence),
            step=_or_null(step),
            start_ns=tuple(collectives.start.tolist()),
            duration_ns=tuple(collectives.dur.tolist()),
            exposed_ns=tuple(collectives.exposed.tolist()),
            **work,
        ),
        left_out=left_out,
        resources=_resources(context) if len(context.steps) else None,
        control_step_ns=timing.control_ns,
        profiled_step_ns=timing.profiled_ns,
    )


def _resources(context: Context) -> StepResources:
    """The time of each resource per step."""
    steps = steps_of(context)
    return resources.analyze(context) if steps is context.steps else resources.over(context, steps)


def steps_of(context: Context) -> Steps:
    """The steps of the step breakdown; without any marks of the profiler those of the program (`program_steps`).

    What a program launches at its end may run long after its last operator, as graphs do.
    """
    return context.steps if context.steps.found_by != WHOLE or context.scope is not None else _of_program(context)


def _of_program(context: Context) -> Steps:
    program = program_steps(context)
    if len(set(program.names)) == len(program):
        return replace(program.every, mark_ns=program.mark_ns)
    steps = context.steps  # names that repeat do not tell the steps of other ranks apart
    return replace(steps, end_ns=np.maximum(steps.end_ns, context.trace.device.end_ns.max(initial=0)))


def _clock(context: Context) -> int | None:
    """Absolute time of the first event; before 2024 the file's own clock shows it, since then the header."""
    info = context.trace.info
    if info.base_ns is not None:
        return info.base_ns + info.origin_ns
    return info.origin_ns if info.origin_ns > _EPOCH_NS else None


def _step_of(context: Context, called: I64) -> I64:
    """The position of the step that contains a call, or -1.

    By the marks themselves: how far the device's work moves a step differs from rank to rank.
    """
    steps = steps_of(context)
    start, end = steps.mark_ns or (steps.start_ns, steps.end_ns)
    step = np.searchsorted(start, called, side="right") - 1
    inside = (step >= 0) & (called < take_or(end, step, 0)) & (step < MOST)
    return np.where(inside, step, UNKNOWN)


def _kept(step: I64) -> int:
    """Number of collectives to keep: whole steps, so that all ranks keep the same; else the first step's beginning."""
    if len(step) <= MOST:
        return len(step)
    opens = np.flatnonzero(np.append(True, step[1:] != step[:-1]))
    whole = opens[opens <= MOST]
    return int(whole[-1]) or MOST


def _kinds(
    context: Context, collectives: RecordedCollectives
) -> tuple[tuple[ProcessGroup, ...], tuple[CollectiveKind, ...], tuple[int, ...]]:
    trace = context.trace
    groups: StringPool[ProcessGroup] = StringPool()
    kinds: StringPool[CollectiveKind] = StringPool()
    columns = (collectives.described.tolist(), collectives.names, collectives.shapes.tolist())
    codes = tuple(
        kinds.encode(_kind(trace.collectives[described], name, trace.shapes[shapes], groups, is_own=is_own))
        for described, name, shapes, is_own in zip(*columns, collectives.is_own.tolist(), strict=True)
    )
    return tuple(groups.values()), tuple(kinds.values()), codes


def _kind(
    facts: Collective, name: str, shapes: str, groups: StringPool[ProcessGroup], *, is_own: bool
) -> CollectiveKind:
    named = operation(facts.name) if facts is not NO_COLLECTIVE else None
    named = named or operation(name)
    is_even = not is_own and (named != "all_to_all" or _has_equal_parts(facts))
    return CollectiveKind(
        operation=named,
        group=groups.encode(ProcessGroup(facts.group or None, facts.ranks or None, facts.group_size)),
        message_bytes=message_bytes(named, facts) if is_even else None,  # each rank sends its own
        shapes=shapes or None,
        is_mutual=named in _MUTUAL,
        is_even=is_even,
        is_own=is_own,
    )


def _has_equal_parts(facts: Collective) -> bool:
    """Whether parts are equal: then c10d says `all_to_all`, else `all_to_allv`."""
    letters = re.sub("[^a-z]", "", facts.name.lower())
    return letters == "alltoall" and facts.in_elements is not None and facts.in_elements == facts.out_elements


def _steps(context: Context) -> RankSteps:
    steps = steps_of(context)
    device = context.trace.device
    kept = slice(0, MOST)
    start = steps.start_ns[kept]
    end = steps.end_ns[kept]
    computation = Intervals.none()
    if len(device):
        _, computation = recorded_collectives.times_of(context, np.ones(len(device), np.bool_))
    return RankSteps(
        name=steps.names[kept],
        start_ns=tuple(start.tolist()),
        duration_ns=tuple((end - start).tolist()),
        computation_ns=tuple(computation.within(start, end).tolist()),
        host_ns=tuple(np.minimum(_host_work(context, steps)[kept], end - start).tolist()),
    )


def _host_work(context: Context, steps: Steps) -> I64:
    """How long the host works for each step, as far as it is recorded."""
    host, calls = context.trace.host, context.trace.launches
    busy = _active(host.start_ns, host.end_ns, calls.start_ns, calls.end_ns)
    waits = resources.waits_of_host(context, steps.window)
    loads = gaps.times_of(host, context.kind == NodeKind.DATALOADER)
    return (busy - waits - loads).within(*host_part(context.trace, steps))


def _active(*columns: I64) -> Intervals:
    """The times from a moment to another one after which there is no third for longer than a silence.

    The moments are sorted piece by piece, because there are several for each event of the recording.
    """
    starts, ends = [], []
    for column in columns:
        for first in range(0, len(column), _SORTED):
            moments = ascending(column[first : first + _SORTED])
            (last,) = np.nonzero(np.diff(moments) > _SILENCE_NS)  # the last moment before each silence
            starts.append(np.append(moments[:1], moments[last + 1]))
            ends.append(np.append(moments[last], moments[-1:]))
    if not starts:
        return Intervals.none()
    reached = Intervals.union(np.concatenate(starts), np.concatenate(ends) + _SILENCE_NS)
    end = reached.end - _SILENCE_NS
    lasting = end > reached.start
    return Intervals(reached.start[lasting], end[lasting])


def _or_null(values: I64) -> tuple[int | None, ...]:
    return tuple(None if value == UNKNOWN else value for value in values.tolist())


class RankEvents(Columns, frozen=True):
    """Starts and ends of collectives, and ends of steps, by step and time; times are ns since the first event."""

    row: I64
    """Collective of each event; of the end of a step its step."""
    is_start: Bool
    is_end_of_step: Bool
    step: I64
    since_ns: I64
    """Time of the event before it in the same step; of the first one the start of the step."""
    time_ns: I64


def rank_events(steps: RankSteps, step: I64, start: I64, dur: I64) -> RankEvents:
    """Put starts and ends in order, within the bounds of their steps.

    Args:
        steps: The steps.
        step: Step of each collective; those with -1 have no events.
        start: Start of each collective.
        dur: Its duration.
    """
    step_start = np.array(steps.start_ns, np.int64)
    step_end = step_start + np.array(steps.duration_ns, np.int64)
    rows = np.flatnonzero(step >= 0)
    steps_of = step[rows]
    every = np.arange(len(step_start))
    opens = np.clip(start[rows], step_start[steps_of], step_end[steps_of])
    ends = np.clip(start[rows] + dur[rows], step_start[steps_of], step_end[steps_of])

    # the starts, then the ends of collectives, then the ends of steps
    row = np.concatenate((rows, rows, every))
    of_step = np.concatenate((steps_of, steps_of, every))
    time = np.concatenate((opens, ends, step_end))
    order = np.lexsort((np.arange(len(row)) >= len(rows), row, _turn(opens, ends, len(every)), time, of_step))
    of_step = of_step[order]
    time = time[order]
    is_first = np.append(True, of_step[1:] != of_step[:-1])[: len(of_step)]
    since = np.where(is_first, step_start[of_step], np.append(0, time)[: len(time)])
    return RankEvents(row[order], order < len(rows), order >= 2 * len(rows), of_step, since, time)


def _turn(opens: I64, ends: I64, steps: int) -> I64:
    """What comes first at one time: running events end, those without length start and end, others start, steps end."""
    has_length = ends > opens
    return np.concatenate((np.where(has_length, 2, 1), np.where(has_length, 0, 1), np.full(steps, 3)))


def own_work(
    context: Context, collectives: RecordedCollectives, step: I64, steps: RankSteps
) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]]:
    """Measure the rank's own work before each start and end.

    Args:
        context: The trace.
        collectives: The collectives.
        step: Step of each collective, or -1.
        steps: The steps.

    Returns:
        Columns of `RankCollectives` and of `RankSteps` by name, in ns.
    """
    events = rank_events(steps, step, collectives.start, collectives.dur)
    times = [part.within(events.since_ns, events.time_ns) for part in _own_parts(context)]
    last = events.is_end_of_step
    before = {}
    after = {}
    for part, time in zip(_PARTS, times, strict=True):
        before[f"{part}_before_ns"] = _by_row(events, events.is_start, time, len(step))
        after[f"{part}_after_ns"] = _by_row(events, last, time, len(steps.name))
    compute = times[0]
    before["compute_during_ns"] = _by_row(events, ~events.is_start & ~last, compute, len(step))
    return before, after


def _own_parts(context: Context) -> tuple[Intervals, Intervals, Intervals]:
    """When the rank computes, moves data without computing, and waits for its loader without either."""
    device, host = context.trace.device, context.trace.host
    _, kernels = recorded_collectives.times_of(context, np.ones(len(device), np.bool_))
    moves = np.isin(device.category, (Category.MEMCPY, Category.MEMSET))
    copies = Intervals.union(device.start_ns[moves], device.end_ns[moves]) - kernels
    waits = context.kind == NodeKind.DATALOADER
    loader = Intervals.union(host.start_ns[waits], host.end_ns[waits]) - kernels - copies
    return kernels, copies, loader


def _by_row(events: RankEvents, chosen: Bool, values: I64, count: int) -> tuple[int, ...]:
    """The values of some events by the collective or step that they belong to; 0 for the others."""
    by_row = np.zeros(count, np.int64)
    by_row[events.row[chosen]] = values[chosen]
    return tuple(by_row.tolist())


_ALONE = Need(
    Text("skip-no-ranks", "the trace names no rank and has no collectives, so there is nothing to compare"),
    lambda context: (
        context.trace.info.rank is not None
        or bool(context.cached(recorded_collectives.kernels_of_collectives).any())
        or bool(context.cached(recorded_collectives.host_ranges).any())
    ),
)
ANALYSES = (Analysis(310, "rank_facts", RankFacts, analyze, needs=(_ALONE,)),)
