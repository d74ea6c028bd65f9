"""Points of host threads with their causes: starts and ends of calls, step marks, waits for the loader."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import msgspec
import numpy as np
from msgspec.structs import replace

from traceanalyzer.simulation.graph import NOTHING, HostPoints, shifted
from traceanalyzer.simulation.waits import Releases
from traceanalyzer.simulation.window import Calls, ModelledWindow
from traceanalyzer.structure import host_activity
from traceanalyzer.structure.autograd import critical_threads
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.gaps import times_of
from traceanalyzer.structure.host_activity import operator_rows
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.recording.program_steps import WHOLE, program_steps
from traceanalyzer.structure.sums import Columns, members, rows_by
from traceanalyzer.trace.distinct import distinct, is_among
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I32, I64, Bool
from traceanalyzer.trace.tree import NO_PARENT, Tree

# Which points of a host thread continue after a call of another thread?
#
# The autograd engine runs backward passes on separate threads, while the calling thread waits; queues and locks do the
# same. If a thread records nothing for a while, and a call of another thread of its process ends meanwhile, the thread
# is taken to continue after that call.

_ASKED = 2
"""How often a thread is asked for: when it continues, and when the operator began in which it does."""
LEAST_NS = 20_000
"""Own choice: shorter times without records count as host work, not as waiting for another thread."""


def find_handovers(context: Context, thread: I64, time_ns: I64, is_end: Bool) -> tuple[I64, I64]:
    """For each point, the point of another thread after which it continues, and the host time that remains before it.

    Args:
        context: The trace.
        thread: Thread of each point; points are ordered by thread, then by time.
        time_ns: Time of each point.
        is_end: Mask of the points that are ends of calls. Only these release other threads, and they wait for none.

    Returns:
        Positions of points, or `NOTHING`; and for points that wait, the time in ns since their previous point in which
        their thread ran operators, so that it cannot have waited.
    """
    source = np.full(len(time_ns), NOTHING)
    worked = np.zeros(len(time_ns), np.int64)
    if len(distinct(thread)) < 2:
        return source, worked

    is_first = thread != shifted(thread, NOTHING)
    since = np.where(is_first, np.iinfo(np.int64).min // 2, shifted(time_ns, 0))
    asking = np.flatnonzero(~is_end & (time_ns - since > LEAST_NS))
    asked_ns = time_ns[asking]
    operators_of = _operators_by_thread(context)
    for _ in range(_ASKED):
        releaser = _last_of_others(context, thread, (time_ns, is_end), asking, asked_ns)
        released_ns = np.append(time_ns, np.iinfo(np.int64).min)[releaser]
        is_released = (releaser != NOTHING) & (released_ns > since[asking])
        silences = _Silences(asking, since[asking], released_ns, time_ns[asking]).take(is_released)
        began_ns, covered = _operators_in(operators_of, thread[silences.point], silences)
        is_idle = began_ns == NOTHING
        waiting = silences.point[is_idle]
        source[waiting] = releaser[is_released][is_idle]
        worked[waiting] = covered[is_idle]
        # a thread beside which others go on calling was released before the operator that runs
        asking, asked_ns = silences.point[~is_idle], began_ns[~is_idle]
    return source, worked


class _Silences(Columns, frozen=True):
    """Times in which a thread records nothing and another thread may release it. Shapes (silences,)."""

    point: I64
    """The point at which the thread continues."""
    since_ns: I64
    """Time of the point before."""
    released_ns: I64
    """When the call of the other thread ends."""
    until_ns: I64
    """When the thread continues."""


def _operators_by_thread(context: Context) -> Callable[[int], Intervals]:
    """A function from a thread to the times in which it runs operators."""
    host, rows = context.trace.host, np.flatnonzero(operator_rows(context))
    of_thread = rows_by(host.thread[rows])
    return cache(lambda number: times_of(host, rows[of_thread(number)]))


def _operators_in(operators_of: Callable[[int], Intervals], thread: I64, silences: _Silences) -> tuple[I64, I64]:
    """When the operator began that each thread ran when it may have been released, and for how long it ran operators.

    The beginning is `NOTHING` where it ran none.
    """
    began = np.full(len(silences), NOTHING)
    covered = np.zeros(len(silences), np.int64)
    for number, asking in members(thread):
        operators = operators_of(number)
        asked = silences.take(asking)
        is_busy = operators.within(asked.released_ns - 1, asked.released_ns) > 0
        last = np.searchsorted(operators.start, asked.released_ns, side="left") - 1
        began[asking] = np.where(is_busy, np.append(operators.start, NOTHING)[last], NOTHING)
        covered[asking] = operators.within(np.maximum(asked.since_ns, 0), asked.until_ns)
    return began, covered


def _last_of_others(context: Context, thread: I64, moments: tuple[I64, Bool], asks: I64, asked_ns: I64) -> I64:
    """For each selected point, the last end of a call of another thread of its process before some time.

    Args:
        context: The trace.
        thread: Thread of each point.
        moments: Time of each point, and whether it is the end of a call.
        asks: The selected points.
        asked_ns: For each of them, the time.
    """
    time_ns, is_end = moments
    pids = [each.pid for each in context.trace.threads]
    process = np.unique(pids, return_inverse=True)[1][thread]
    ends = np.flatnonzero(is_end)
    ends = ends[np.lexsort((time_ns[ends], process[ends]))]
    if not len(ends):
        return np.full(len(asks), NOTHING)

    # one ascending key for process and time, in which the last end before each asked time is searched
    least = time_ns.min()
    span = int(time_ns.max() - least) + 2
    key = process * span + time_ns - least
    last = np.searchsorted(key[ends], process[asks] * span + asked_ns - least, side="left") - 1
    # where that is an end of the same thread, the last one before the run of ends of this thread
    changes = thread[ends] != shifted(thread[ends], NOTHING)
    changes |= process[ends] != shifted(process[ends], NOTHING)
    run_start = np.maximum.accumulate(np.where(changes, np.arange(len(ends)), 0))
    is_same = (last >= 0) & (thread[ends[np.maximum(last, 0)]] == thread[asks])
    last = np.where(is_same, run_start[np.maximum(last, 0)] - 1, last)
    end = ends[np.maximum(last, 0)]
    is_valid = (last >= 0) & (process[end] == process[asks])
    return np.where(is_valid, end, NOTHING)


_CALL_ENDS, _MARK, _CALL_STARTS = range(3)
"""Sort order of points of a thread with equal times."""


class PlacedPoints(msgspec.Struct, frozen=True):
    """The points of a window, and the positions of its calls and steps among them."""

    points: HostPoints
    call_start: I64
    """For each call, the position of its start; the next point is its end."""
    step_start: I64
    """For each step, the position of the start of its mark."""
    step_end: I64
    """For each step, the position of the end of its mark."""


class _Moments(Columns, frozen=True):
    """Points before they are in order. Shapes (points,)."""

    thread: I64
    time_ns: I64
    phase: I64
    """Order of points of a thread with equal times."""
    rank: I64
    """Order of points of one phase: calls of length 0 start before they end; a wait for the loader ends before the next
    one begins."""
    call: I64
    """Position of the call that starts or ends; `NOTHING` for other points."""
    is_end: Bool
    """Whether a call ends."""


def build(context: Context, window: ModelledWindow, calls: Calls, released: Releases) -> PlacedPoints:
    """Create the points of a window: its calls, its step marks and its waits for the loader.

    Args:
        context: The trace.
        window: The window.
        calls: Calls of the window.
        released: The cause that ends each call.
    """
    main = _main_thread(context)
    main_of_steps = np.full(len(window), main)
    is_marked = program_steps(context).found_by != WHOLE
    mark_end_ns = window.mark_end_ns if is_marked else _ends_of_host(context, window, main)
    loader = context.trace.host.take(_loader_waits(context, window, calls))
    kinds = (
        *_of_calls(calls),
        _marks(calls, main_of_steps, window.mark_start_ns, rank=0),
        _marks(calls, main_of_steps, mark_end_ns, rank=0),
        _marks(calls, loader.thread, loader.start_ns, rank=1),
        _marks(calls, loader.thread, loader.end_ns, rank=0),
    )
    moments, (call_start, _, step_start, step_end, load_start, load_end) = _in_order(kinds)
    in_loader = _between(load_start, load_end, len(moments))
    points = _points(context, moments, (calls, released), in_loader, int(step_start[0]))
    until_ns = int(points.time_ns[step_end[-1]] if is_marked else window.mark_end_ns[-1])
    points = replace(points, part=_part(points, main, (int(step_start[0]), int(step_end[-1])), until_ns))
    return PlacedPoints(points, call_start, step_start, step_end)


def _in_order(kinds: Sequence[_Moments]) -> tuple[_Moments, list[I64]]:
    """Points of several kinds by thread and time, and the positions of those of each kind."""
    every = _Moments.join(kinds)
    order = np.lexsort((every.rank, every.phase, every.time_ns, every.thread))
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    sizes = [len(kind) for kind in kinds]
    return every.take(order), np.split(position, np.cumsum(sizes)[:-1])


def _of_calls(calls: Calls) -> tuple[_Moments, _Moments]:
    """Starts and ends of calls."""
    number = np.arange(len(calls))
    is_start = np.zeros(len(calls), np.bool_)
    phase = np.full(len(calls), _CALL_STARTS)
    end_phase = np.where(calls.end_ns > calls.start_ns, _CALL_ENDS, _CALL_STARTS)
    return (
        _Moments(calls.thread, calls.start_ns, phase, 2 * number, number, is_start),
        _Moments(calls.thread, calls.end_ns, end_phase, 2 * number + 1, number, ~is_start),
    )


def _marks(calls: Calls, thread: I32 | I64, time_ns: I64, rank: int) -> _Moments:
    """Points that are not of calls."""
    thread = thread.astype(np.int64)
    return _Moments(
        thread=thread,
        time_ns=_outside_of_calls(calls, thread, time_ns),
        phase=np.full(len(thread), _MARK),
        rank=np.full(len(thread), rank),
        call=np.full(len(thread), NOTHING),
        is_end=np.zeros(len(thread), np.bool_),
    )


def _part(points: HostPoints, main: int, bounds: tuple[int, int], until_ns: int) -> I64:
    """0 for the points from the start of the first step to the end of the last one, `NOTHING` for those around them.

    Args:
        points: All points.
        main: The thread of the steps.
        bounds: On that thread, the points at the start of the first step and at the end of the last one.
        until_ns: The end of the steps for other threads.
    """
    first, last = bounds
    position = np.arange(len(points))
    on_main = (position >= first) & (position <= last)
    on_others = points.is_judged & (points.time_ns <= until_ns)
    is_inside = np.where(points.thread == main, on_main, on_others)
    return np.where(is_inside, 0, NOTHING)


def _ends_of_host(context: Context, window: ModelledWindow, main: int) -> I64:
    """When the host's part of a step without marks ends: with the last that its thread did, not with the device."""
    if context.trace.device.end_ns.max(initial=NOTHING) < window.mark_end_ns[-1]:
        return window.mark_end_ns  # the host ended the step
    tables = context.trace.host, context.trace.launches
    last = max(int(table.end_ns[table.thread == main].max(initial=NOTHING)) for table in tables)
    return np.minimum(window.mark_end_ns, np.maximum(last, window.mark_start_ns))


def _points(
    context: Context, moments: _Moments, calls: tuple[Calls, Releases], in_loader: Bool, judged: int
) -> HostPoints:
    """The table of points.

    Args:
        context: The trace.
        moments: The points in order.
        calls: The calls, and the causes that end them.
        in_loader: Mask of the points that end a part of a wait for the loader.
        judged: The point at which the first judged step starts.
    """
    of_call, released = calls
    time, is_end = moments.time_ns, moments.is_end
    is_first = moments.thread != shifted(moments.thread, NOTHING)
    source, worked = find_handovers(context, moments.thread, time, is_end)
    handed = source != NOTHING
    handed_delay = time - np.append(time, 0)[source]
    ended = moments.call[is_end]
    cost = np.where(is_first, time, time - shifted(time, 0))
    cost[is_end] = released.own_ns[ended]
    cost = np.where(handed, worked, cost)
    # a call that waits for nothing takes no longer than others of its function
    unblocked = cost.copy()
    alone = np.where(of_call.waits, np.minimum(released.own_ns, released.usual_ns), released.own_ns)
    unblocked[is_end] = alone[ended]
    return HostPoints(
        time_ns=time,
        thread=moments.thread,
        chain=np.cumsum(is_first) - 1,
        cost_ns=cost,
        unblocked_ns=unblocked,
        call=np.append(of_call.row, NOTHING)[moments.call],
        is_end=is_end,
        in_loader=in_loader,
        is_judged=time > time[judged],
        part=np.full(len(time), NOTHING),
        held_by=_at(is_end, released.event[ended], NOTHING),
        held_by_point=source,
        delay_ns=np.where(handed, handed_delay, _at(is_end, released.delay_ns[ended], 0)),
    )


def _at(mask: Bool, values: I64, others: int) -> I64:
    """A column with some values where a mask is set, and another value elsewhere."""
    column = np.full(len(mask), others)
    column[mask] = values
    return column


def _between(start: I64, end: I64, points: int) -> Bool:
    """Mask of the points after the first and up to the second of any pair of positions."""
    change = np.zeros(points + 1, np.int64)
    np.add.at(change, start + 1, 1)
    np.add.at(change, end + 1, -1)
    return np.cumsum(change)[:points] > 0


def _outside_of_calls(calls: Calls, thread: I64, time: I64) -> I64:
    """Move times that are inside a call to its start."""
    moved = time.copy()
    calls_of = rows_by(calls.thread)
    for number, asked in members(thread):
        on_thread = calls_of(number)
        if not len(on_thread):
            continue
        last = np.searchsorted(calls.start_ns[on_thread], time[asked], side="right") - 1
        call = on_thread[np.maximum(last, 0)]
        is_inside = (calls.start_ns[call] < time[asked]) & (time[asked] < calls.end_ns[call])
        moved[asked[is_inside]] = calls.start_ns[call[is_inside]]
    return moved


def _main_thread(context: Context) -> int:
    """The thread of the steps: that of their marks, or the one that waits for the others, or has most operators."""
    host = context.trace.host
    marked = np.flatnonzero(context.kind == NodeKind.STEP)
    threads = host_activity.launching_threads(context)
    if len(marked):
        of_marks = int(host.thread[marked[0]])
        if not threads or of_marks in threads:
            return of_marks
    critical = critical_threads(context)
    return critical[0] if critical else host_activity.with_most_rows(context) or 0


def _loader_waits(context: Context, window: ModelledWindow, calls: Calls) -> I64:
    """Rows of outermost waits for the loader on threads of the model."""
    host = context.trace.host
    threads = np.append(calls.thread, _main_thread(context))
    wanted = (context.kind == NodeKind.DATALOADER) & is_among(host.thread, threads)
    wanted &= (host.start_ns >= window.start_ns) & (host.start_ns < window.end_ns)
    rows = np.flatnonzero(wanted)
    tree, order = Tree.build(host.thread[rows], host.start_ns[rows], host.dur_ns[rows])
    return np.sort(rows[order[tree.parent == NO_PARENT]])
