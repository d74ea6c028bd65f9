"""Points of host threads with their causes: starts and ends of calls, step marks, waits for the loader."""

from __future__ import annotations

import msgspec
import numpy as np
from msgspec.structs import replace

from traceanalyzer.simulation.graph import NOTHING, HostPoints, shifted
from traceanalyzer.simulation.waits import Releases
from traceanalyzer.simulation.window import Calls, ModelledWindow
from traceanalyzer.structure import host_activity
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_activity import operator_rows
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.sums import members, rows_by
from traceanalyzer.trace.distinct import distinct, is_among
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, Bool
from traceanalyzer.trace.tree import NO_PARENT, Tree

# Which points of a host thread continue after a call of another thread?
#
# The autograd engine runs backward passes on separate threads, while the calling thread waits; queues and locks do the
# same. If a thread records nothing for a while, and a call of another thread of its process ends meanwhile, the thread
# is taken to continue after that call.

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
    source, worked = np.full(len(time_ns), NOTHING), np.zeros(len(time_ns), np.int64)
    if len(distinct(thread)) < 2:
        return source, worked
    first = thread != shifted(thread, NOTHING)
    since = np.where(first, np.iinfo(np.int64).min // 2, shifted(time_ns, 0))
    asks = np.flatnonzero(~is_end & (time_ns - since > LEAST_NS))
    last = _last_of_others(context, thread, time_ns, is_end, asks)
    at = np.append(time_ns, np.iinfo(np.int64).min)[last]
    inside = (last != NOTHING) & (at > since[asks])
    asks, last, at = asks[inside], last[inside], at[inside]
    busy = np.zeros(len(asks), np.bool_)
    covered = np.zeros(len(asks), np.int64)
    rows = np.flatnonzero(operator_rows(context))
    host = context.trace.host
    of_thread = rows_by(host.thread[rows])
    for number, asking in members(thread[asks]):
        ran = rows[of_thread(number)]
        operators = Intervals.union(host.start_ns[ran], host.end_ns[ran])
        busy[asking] = operators.within(at[asking] - 1, at[asking]) > 0
        covered[asking] = operators.within(np.maximum(since[asks[asking]], 0), time_ns[asks[asking]])
    source[asks[~busy]], worked[asks[~busy]] = last[~busy], covered[~busy]
    return source, worked


def _last_of_others(context: Context, thread: I64, time_ns: I64, is_end: Bool, asks: I64) -> I64:
    """For each selected point, the last earlier end of a call of another thread of its process."""
    process = np.unique([each.pid for each in context.trace.threads], return_inverse=True)[1][thread]
    ends = np.flatnonzero(is_end)
    ends = ends[np.lexsort((time_ns[ends], process[ends]))]
    if not len(ends):
        return np.full(len(asks), NOTHING)
    span = int(time_ns.max() - time_ns.min()) + 2
    key = process[ends] * span + time_ns[ends] - time_ns.min()
    change = (thread[ends] != shifted(thread[ends], NOTHING)) | (process[ends] != shifted(process[ends], NOTHING))
    run_start = np.maximum.accumulate(np.where(change, np.arange(len(ends)), 0))
    last = np.searchsorted(key, process[asks] * span + time_ns[asks] - time_ns.min(), side="left") - 1
    is_same = (last >= 0) & (thread[ends[np.maximum(last, 0)]] == thread[asks])
    last = np.where(is_same, run_start[np.maximum(last, 0)] - 1, last)
    valid = (last >= 0) & (process[ends[np.maximum(last, 0)]] == process[asks])
    return np.where(valid, ends[np.maximum(last, 0)], NOTHING)


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


def build(context: Context, window: ModelledWindow, calls: Calls, released: Releases) -> PlacedPoints:
    """Create the points of a window: its calls, its step marks and its waits for the loader.

    Args:
        context: The trace.
        window: The window.
        calls: Calls of the window.
        released: The cause that ends each call.
    """
    loads, main = _loader_waits(context, window, calls), _main_thread(context)
    loader, each = context.trace.host.take(loads), np.arange(len(calls))
    marks = 2 * len(window)
    thread = np.concatenate((calls.thread, calls.thread, np.full(marks, main), loader.thread, loader.thread))
    thread = thread.astype(np.int64)
    bounds = (window.mark_start_ns, window.mark_end_ns, loader.start_ns, loader.end_ns)
    time = np.concatenate((calls.start_ns, calls.end_ns, *bounds))
    outside = np.arange(len(time)) >= 2 * len(calls)
    time[outside] = _outside_of_calls(calls, thread[outside], time[outside])
    phase = np.where(outside, _MARK, _CALL_STARTS)
    phase[len(calls) : 2 * len(calls)][calls.end_ns > calls.start_ns] = _CALL_ENDS
    # calls of length 0 keep start before end; a wait for the loader ends before the next one begins
    place = np.concatenate((2 * each, 2 * each + 1, np.zeros(marks), np.ones(len(loads)), np.zeros(len(loads))))
    order = np.lexsort((place, phase, time, thread))
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    number = np.where(outside, NOTHING, np.arange(len(time)) % max(len(calls), 1))[order]
    is_end = (np.arange(len(time)) >= len(calls))[order] & (number != NOTHING)
    start_of_marks = position[2 * len(calls) : 2 * len(calls) + marks]
    judged_ns = int(time[order][start_of_marks[0]])
    loading = _between(position[len(order) - 2 * len(loads) :].reshape(2, -1), len(order))
    points = _points(context, (thread[order], time[order], number, is_end), (calls, released), loading, judged_ns)
    step_start, step_end = start_of_marks[: len(window)], start_of_marks[len(window) :]
    place, last = np.arange(len(points)), int(step_end[-1])
    on_main = (place >= step_start[0]) & (place <= last)
    inside = np.where(points.thread == main, on_main, points.is_judged & (points.time_ns <= points.time_ns[last]))
    points = replace(points, part=np.where(inside, 0, NOTHING))
    return PlacedPoints(points, position[: len(calls)], step_start, step_end)


def _points(
    context: Context,
    where: tuple[I64, I64, I64, Bool],
    whose: tuple[Calls, Releases],
    in_loader: Bool,
    judged_ns: int,
) -> HostPoints:
    """The table of points.

    Args:
        context: The trace.
        where: Thread, time, position of the call, and whether it ends here, for each point.
        whose: The calls, and the causes that end them.
        in_loader: Mask of the points that end a part of a wait for the loader.
        judged_ns: Start of the first judged step.
    """
    thread, time, number, is_end = where
    calls, released = whose
    first = thread != shifted(thread, NOTHING)
    source, worked = find_handovers(context, thread, time, is_end)
    handed = source != NOTHING
    cost = np.where(first, time, time - shifted(time, 0))
    cost[is_end] = released.own_ns[number[is_end]]
    cost = np.where(handed, worked, cost)
    unblocked = cost.copy()
    alone = np.where(calls.waits, np.minimum(released.own_ns, released.usual_ns), released.own_ns)
    unblocked[is_end] = alone[number[is_end]]
    held, delay = np.full(len(time), NOTHING), np.zeros(len(time), np.int64)
    held[is_end], delay[is_end] = released.event[number[is_end]], released.delay_ns[number[is_end]]
    return HostPoints(
        time_ns=time,
        thread=thread,
        chain=np.cumsum(first) - 1,
        cost_ns=cost,
        unblocked_ns=unblocked,
        call=np.append(calls.row, NOTHING)[number],
        is_end=is_end,
        in_loader=in_loader,
        is_judged=time > judged_ns,
        part=np.full(len(time), NOTHING),
        held_by=held,
        held_by_point=source,
        delay_ns=np.where(handed, time - np.append(time, 0)[source], delay),
    )


def _between(waits: I64, size: int) -> Bool:
    """Mask of the points after the first and up to the second of any pair of positions, shape (2, pairs)."""
    change = np.zeros(size + 1, np.int64)
    np.add.at(change, waits[0] + 1, 1)
    np.add.at(change, waits[1] + 1, -1)
    return np.cumsum(change)[:size] > 0


def _outside_of_calls(calls: Calls, thread: I64, time: I64) -> I64:
    """Move times that are inside a call to its start."""
    moved, called = time.copy(), rows_by(calls.thread)
    for number, asked in members(thread):
        here = called(number)
        if len(here):
            before = here[np.maximum(np.searchsorted(calls.start_ns[here], time[asked], side="right") - 1, 0)]
            inside = (calls.start_ns[before] < time[asked]) & (time[asked] < calls.end_ns[before])
            moved[asked[inside]] = calls.start_ns[before[inside]]
    return moved


def _main_thread(context: Context) -> int:
    """The thread of the steps: that of their marks, or the one with most launches, or the one with most operators."""
    host = context.trace.host
    marked = np.flatnonzero(context.kind == NodeKind.STEP)
    threads = host_activity.launching_threads(context)
    if len(marked) and (not threads or int(host.thread[marked[0]]) in threads):
        return int(host.thread[marked[0]])
    return threads[0] if threads else host_activity.with_most_rows(context) or 0


def _loader_waits(context: Context, window: ModelledWindow, calls: Calls) -> I64:
    """Rows of outermost waits for the loader on threads of the model."""
    host, threads = context.trace.host, np.append(calls.thread, _main_thread(context))
    wanted = (context.kind == NodeKind.DATALOADER) & is_among(host.thread, threads)
    wanted &= (host.start_ns >= window.start_ns) & (host.start_ns < window.end_ns)
    rows = np.flatnonzero(wanted)
    tree, order = Tree.build(host.thread[rows], host.start_ns[rows], host.dur_ns[rows])
    return np.sort(rows[order[tree.parent == NO_PARENT]])
