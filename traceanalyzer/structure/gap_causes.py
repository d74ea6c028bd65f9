"""Why was a device idle? Every nanosecond of a gap belongs to exactly one of `CAUSES`.

The thread that launched the next device event could have ended the gap, so its activity counts first. While it had
nothing open, the activity of the other launching threads counts (the autograd engine hands over between threads). Once
the next event is launched, the device no longer waits for the host: such time is pending.
"""

from __future__ import annotations

from functools import reduce
from operator import or_

import msgspec
import numpy as np
from msgspec.structs import replace

from traceanalyzer.structure import host_activity
from traceanalyzer.structure.context import Context, cached
from traceanalyzer.structure.first_uses import FirstUses, cold_calls, first_uses
from traceanalyzer.structure.gaps import NOTHING, Gaps, times_of
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.sums import members
from traceanalyzer.structure.unrecorded_work import unrecorded_work
from traceanalyzer.trace.distinct import ascending, distinct, is_among, moments
from traceanalyzer.trace.intervals import Intervals, LabelledTime
from traceanalyzer.trace.table import I64, Array, Bool, take_or
from traceanalyzer.trace.tables import Frames, HostEvents, Launches, Overheads
from traceanalyzer.trace.tree import NO_PARENT

CAUSES = (
    "unrecorded_work",
    "pending",
    "dataloader",
    "communication",
    "compilation",
    "allocation",
    "profiler_overhead",
    "cpu_operators",
    "synchronization",
    "launch_bound",
    "host_code",
    "device_gap",
    "unknown",
)
(
    UNRECORDED,
    PENDING,
    DATALOADER,
    COMMUNICATION,
    COMPILATION,
    ALLOCATION,
    OVERHEAD,
    CPU_OPERATORS,
    SYNCHRONIZATION,
    LAUNCH,
    HOST,
    DEVICE,
    UNKNOWN,
) = range(len(CAUSES))

EXPLICIT = (DATALOADER, COMMUNICATION, COMPILATION, ALLOCATION, OVERHEAD, CPU_OPERATORS)
"""Causes that the trace shows by name; they apply whatever emptied the queue."""

SHORT_GAP_NS = 30_000
"""HTA's limit for a pause between two kernels that were both launched early enough (`consecutive_kernel_delay`)."""

EVERY_THREAD = -1

GAPS_AT_ONCE = 1 << 14
"""How many gaps are attributed together; it limits memory and does not change any figure."""

THREADS = 32
"""Number of threads with a separate timeline, those that launch most (own choice: programs launch from a few); for the
others, what any thread did is used."""


def of_queued(context: Context, gaps: Gaps, earlier: Intervals) -> I64:
    """The only cause of each gap before which work was queued; -1 for the others, which `attribute` is for.

    Args:
        context: The trace.
        gaps: Gaps of one device.
        earlier: What `earlier_work` returned.
    """
    short = gaps.whole_end_ns - gaps.whole_start_ns < SHORT_GAP_NS
    only = np.where(short, DEVICE, PENDING)
    only[fed_late(context, gaps)] = -1
    only[earlier.meets(gaps.start_ns, gaps.end_ns)] = -1
    return only


def attribute(context: Context, gaps: Gaps, earlier: Intervals | None = None, *, blame_waits: bool = True) -> I64:
    """Time of each gap by cause, in nanoseconds: one row per gap, one column per cause; rows sum to the gap.

    Args:
        context: The trace.
        gaps: Gaps of one device.
        earlier: What `earlier_work` returned, if that is known already.
        blame_waits: Whether calls after a wait that emptied the queue count as synchronization.
    """
    earlier = earlier_work(context, gaps) if earlier is None else earlier
    times = np.zeros((len(gaps), len(CAUSES)), np.int64)
    for first in range(0, len(gaps), GAPS_AT_ONCE):
        part = slice(first, first + GAPS_AT_ONCE)
        times[part] = _attributed(context, gaps.take(part), earlier)
    return blamed(context, gaps, times) if blame_waits else times


def earlier_work(context: Context, gaps: Gaps) -> Intervals:
    """The times at which the device of the gaps most likely ran unrecorded work."""
    known = gaps.next[gaps.next != NOTHING]
    device = int(context.trace.device.device[known[0]]) if len(known) else NOTHING
    return unrecorded_work(context).get(device, Intervals.none())


def _attributed(context: Context, gaps: Gaps, earlier: Intervals) -> I64:
    """Time of each gap by cause, where the device may have run unrecorded work at some times."""
    shown, owner = _recorded_parts(gaps, earlier)
    if shown is gaps:
        return _explained(context, gaps)
    times = np.zeros((len(gaps), len(CAUSES)), np.int64)
    np.add.at(times, owner, _explained(context, shown))
    times[:, UNRECORDED] = gaps.length - times.sum(axis=1)
    return times


def blamed(context: Context, gaps: Gaps, times: I64) -> I64:
    """In the times of `attribute`, count the calls after a wait that emptied the queue as part of the wait.

    Time in which no call is open is the program's own, whatever came before it.
    """
    by, frees = drained_by(context, gaps)
    drained = np.flatnonzero(fed_late(context, gaps) & (by != NO_PARENT))
    result = times.copy()
    inferred = times[drained, SYNCHRONIZATION:].sum(axis=1) - times[drained, HOST]
    result[drained, SYNCHRONIZATION:] = 0
    result[drained, HOST] = times[drained, HOST]
    result[drained, np.where(frees[drained], ALLOCATION, SYNCHRONIZATION)] += inferred
    return result


def _recorded_parts(gaps: Gaps, earlier: Intervals) -> tuple[Gaps, I64]:
    """The parts of gaps in which the device did not run unrecorded work, and the row of the gap of each."""
    rows = np.arange(len(gaps))
    cut = earlier.within(gaps.start_ns, gaps.end_ns) > 0
    if not cut.any():
        return gaps, rows
    pieces, owner = [gaps.take(~cut)], [rows[~cut]]
    for row in rows[cut].tolist():
        left = Intervals.union(gaps.start_ns[row : row + 1], gaps.end_ns[row : row + 1]) - earlier
        owner.append(np.full(len(left), row))
        pieces.append(replace(gaps.take(owner[-1]), start_ns=left.start, end_ns=left.end))
    return Gaps.join(pieces), np.concatenate(owner)


def _explained(context: Context, gaps: Gaps) -> I64:
    """Time of each gap by cause, as far as the recording shows what the device could have done."""
    late = fed_late(context, gaps)
    times = np.zeros((len(gaps), len(CAUSES)), np.int64)
    queued = np.flatnonzero(~late)
    short = gaps.whole_end_ns[queued] - gaps.whole_start_ns[queued] < SHORT_GAP_NS
    times[queued, np.where(short, DEVICE, PENDING)] = gaps.length[queued]
    until = _launched_by(context, gaps)
    times[late, PENDING] = (gaps.end_ns - until)[late]
    starved = replace(gaps, end_ns=until)
    thread = responsible_thread(context, gaps)
    thread = np.where(np.isin(thread, own_timelines(context)), thread, EVERY_THREAD)
    known = np.flatnonzero(late)
    for number, own in members(thread[known]):
        rows = known[own]
        times[rows] += _on_host(context, starved.take(rows), timeline(context, number))
    return times


def starved(context: Context, gaps: Gaps) -> Intervals:
    """The times in which a device was idle because the host had not launched any work for it.

    Their length is the time of all causes except unrecorded work, pending work and pauses of the device itself.
    """
    shown, _ = _recorded_parts(gaps, earlier_work(context, gaps))
    late = fed_late(context, shown)
    return Intervals.union(shown.start_ns[late], _launched_by(context, shown)[late])


def _launched_by(context: Context, gaps: Gaps) -> I64:
    """The time until which each late-fed gap is caused by the host: the return of the call that ends it."""
    launched = take_or(context.trace.launches.end_ns, gaps.launch, np.iinfo(np.int64).max)
    until = np.clip(launched, gaps.start_ns, gaps.end_ns)
    return np.where(gaps.whole_end_ns - launched < SHORT_GAP_NS, gaps.end_ns, until)


def fed_late(context: Context, gaps: Gaps) -> Bool:
    """Gaps that the host could have prevented: when they began, the next launch call had not yet returned."""
    launches = context.trace.launches
    ends = take_or(launches.end_ns, gaps.launch, np.iinfo(np.int64).max)
    late: Bool = (gaps.is_first_of_launch & (ends > gaps.whole_start_ns)) | (gaps.launch == NO_PARENT)
    return late


def responsible_thread(context: Context, gaps: Gaps) -> Array:
    """The thread that launched what ended each gap, or `EVERY_THREAD`."""
    return take_or(context.trace.launches.thread, gaps.launch, EVERY_THREAD)


def _on_host(context: Context, gaps: Gaps, timeline: LabelledTime) -> I64:
    """Divide gaps that the host could have prevented by what the host did."""
    times = np.zeros((len(gaps), len(CAUSES)), np.int64)
    labels = (*EXPLICIT, SYNCHRONIZATION, LAUNCH)
    for label, inside in zip(labels, timeline.within(gaps.start_ns, gaps.end_ns, labels), strict=True):
        times[:, label] = inside
    rest = gaps.length - times.sum(axis=1)
    start = take_or(context.trace.launches.start_ns, gaps.launch, np.iinfo(np.int64).max)
    since_launch = np.clip(start, gaps.start_ns, gaps.end_ns)
    (launching,) = timeline.within(since_launch, gaps.end_ns, (HOST,))
    times[:, LAUNCH] += launching  # the call and its way to the device
    times[:, HOST] = rest - launching
    unlinked = (gaps.launch == NO_PARENT) & (gaps.next != NOTHING)
    if not (len(context.trace.host) or len(context.trace.launches)):
        unlinked[:] = True
    for cause in (LAUNCH, HOST):  # it is unknown when the next event was launched
        times[unlinked, UNKNOWN] += times[unlinked, cause]
        times[unlinked, cause] = 0
    return times


@cached
def explicit(context: Context) -> LabelledTime:
    """When any of the launching threads did what the trace shows by name: `EXPLICIT` causes and nothing else."""
    threads = [thread for group in _groups(context) for thread in group]
    return LabelledTime.build(_of_threads(_explicit(context), threads), HOST)


def own_timelines(context: Context) -> list[int]:
    """The threads with a timeline of their own."""
    return host_activity.launching_threads(context)[:THREADS]


@cached
def timeline(context: Context, thread: int) -> LabelledTime:
    """The work of a launching thread, else of the others; that of any of them for `EVERY_THREAD`."""
    threads = own_timelines(context)
    if thread != EVERY_THREAD and len(host_activity.launching_threads(context)) == 1:
        return timeline(context, EVERY_THREAD)
    by_group, of_any = context.cached(_work_of_groups)
    if thread == EVERY_THREAD:
        return LabelledTime.build(of_any, HOST)
    own = by_group[threads.index(thread)]
    return LabelledTime.build((*own, *of_any), HOST)


_Work = list[tuple[int, Intervals]]
"""Times by cause, in the order in which causes explain missing launches."""


def _work_of_groups(context: Context) -> tuple[list[_Work], _Work]:
    """The work of each group of threads, and that of any."""
    activities = _activities(context)
    by_group = [_of_threads(activities, group) for group in _groups(context)]
    of_any = [(label, reduce(or_, (own[row][1] for own in by_group))) for row, (label, _) in enumerate(activities)]
    return by_group, of_any


def _groups(context: Context) -> list[list[int]]:
    """Threads that launch: each that has a timeline of its own, and all others; without any, all threads there are."""
    threads, own = host_activity.launching_threads(context), own_timelines(context)
    if not threads:
        return [distinct(np.concatenate((context.trace.host.thread, context.trace.launches.thread))).tolist()]
    return [part for part in (*([thread] for thread in own), threads[THREADS:]) if part]


_Rows = tuple[HostEvents | Launches | Frames | Overheads | FirstUses, I64]
_Activities = tuple[tuple[int, tuple[_Rows, ...]], ...]
"""What the host does: rows of tables by cause, in the order in which causes explain missing launches."""


def _activities(context: Context) -> _Activities:
    host, launches = context.trace.host, context.trace.launches
    return (
        *_explicit(context),
        (SYNCHRONIZATION, ((launches, context.cached(host_activity.waits).row),)),
        (LAUNCH, ((host, _outermost_operators(context)), (launches, np.arange(len(launches))))),
    )


def _outermost_operators(context: Context) -> I64:
    """Rows of the host table that run whenever an operator runs: those in no other operator, if none outlasts it."""
    host, is_row = context.host, host_activity.operator_rows(context)
    if host.tree.clipped:
        return np.flatnonzero(is_row)
    operates = take_or(is_row, host.row, False) & (host.kind != NodeKind.MODULE)
    outermost = operates & ~take_or(operates, host.tree.parent, False)
    return ascending(host.row[outermost].astype(np.int64))


@cached
def _explicit(context: Context) -> _Activities:
    """Those of the causes that the trace shows by name."""
    trace, names = context.trace, context.trace.names
    host, frames, launches, overheads = trace.host, trace.frames, trace.launches, trace.overheads
    compiling = names.where(host_activity.is_compiling)
    communicating = names.where(host_activity.is_communicating)[host.name]
    compiled = ((host, np.flatnonzero(compiling[host.name])), (frames, np.flatnonzero(compiling[frames.name])))
    loading = names.where(host_activity.is_loading_overhead)[overheads.name]
    allocating = names.where(host_activity.is_allocation)[launches.name]
    uses, cold = first_uses(context), cold_calls(context)
    computing = ascending(context.host.row[host_activity.cpu_operators(context)].astype(np.int64))
    return (
        (DATALOADER, ((host, np.flatnonzero(context.kind == NodeKind.DATALOADER)),)),
        (COMMUNICATION, ((host, np.flatnonzero(communicating)),)),
        (COMPILATION, (*compiled, (launches, host_activity.loading_calls(context)))),
        (COMPILATION, ((overheads, np.flatnonzero(loading)), (uses, np.arange(len(uses))))),
        (COMPILATION, ((cold, np.arange(len(cold))),)),
        (ALLOCATION, ((launches, np.flatnonzero(allocating)),)),
        (OVERHEAD, ((overheads, np.flatnonzero(~loading)),)),
        (CPU_OPERATORS, ((host, computing),)),
    )


def _of_threads(activities: _Activities, threads: list[int]) -> _Work:
    """When some threads did each of these; overheads concern every thread."""

    def times(table: HostEvents | Launches | Frames | Overheads | FirstUses, rows: I64) -> Intervals:
        if not isinstance(table, Overheads):
            rows = rows[is_among(table.thread[rows], threads)]
        return times_of(table, rows)

    return [(label, reduce(or_, (times(*part) for part in parts))) for label, parts in activities]


def drained_by(context: Context, gaps: Gaps) -> tuple[I64, Bool]:
    """The wait that was open when each gap began and therefore emptied the queue.

    Returns:
        The row of its call in the launch table (-1 if there is none), and whether it frees memory.
    """
    drains = context.cached(_drains)
    before = np.searchsorted(drains.start_ns, gaps.whole_start_ns, side="left") - 1
    reach = np.maximum.accumulate(np.append(drains.end_ns, -1)) if len(drains.row) else np.array([-1])
    between = gaps.has_previous & (gaps.next != NOTHING)
    found = between & (before >= 0) & (reach[np.maximum(before, 0)] >= gaps.whole_start_ns)
    by = np.full(len(gaps), NO_PARENT, np.int64)
    by[found] = drains.row[drains.longest[before[found]]]
    return by, take_or(context.cached(_frees), by, False)


class _Drains(msgspec.Struct, frozen=True):
    """Calls of launching threads that wait until the device is done, in the order of their start."""

    row: I64
    start_ns: I64
    end_ns: I64
    longest: I64
    """For each position, the one of the calls up to there that ends last."""


def _drains(context: Context) -> _Drains:
    waits, launches = context.cached(host_activity.waits), context.trace.launches
    rows = moments(waits.row, np.flatnonzero(context.cached(_frees)))
    rows = rows[is_among(launches.thread[rows], host_activity.launching_threads(context))]
    start = launches.start_ns[rows]
    end = start + launches.dur_ns[rows]
    reach = np.maximum.accumulate(end)
    opens = np.append(True, reach[1:] > reach[:-1])[: len(rows)]
    longest = np.maximum.accumulate(np.where(opens, np.arange(len(rows)), 0))
    return _Drains(rows, start, end, longest)


def _frees(context: Context) -> Bool:
    return context.trace.names.where(host_activity.is_free)[context.trace.launches.name]
