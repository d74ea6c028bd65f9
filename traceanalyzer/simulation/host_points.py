"""Points of host threads with their causes: starts and ends of calls, step marks, waits for the loader."""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.simulation import handovers
from traceanalyzer.simulation.calls import Calls
from traceanalyzer.simulation.graph import NOTHING, HostPoints, shifted
from traceanalyzer.simulation.releases import Releases
from traceanalyzer.simulation.window import ModelledWindow
from traceanalyzer.structure import host_activity
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.trace.distinct import distinct, is_among
from traceanalyzer.trace.table import I64, Bool
from traceanalyzer.trace.tree import NO_PARENT, Tree

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
    return PlacedPoints(points, position[: len(calls)], start_of_marks[: len(window)], start_of_marks[len(window) :])


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
    source, worked = handovers.find(context, thread, time, is_end)
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
        held_by=held,
        held_by_point=source,
        delay_ns=np.where(handed, time - np.append(time, 0)[source], delay),
    )


def _between(waits: I64, size: int) -> Bool:
    """Mask of the points after the first and up to the second of any pair of positions, shape (2, pairs)."""
    change = np.zeros(size + 1, np.int64)
    np.add.at(change, waits[0] + 1, 1)
    np.add.at(change, waits[1] + 1, -1)
    inside: Bool = np.cumsum(change)[:size] > 0
    return inside


def _outside_of_calls(calls: Calls, thread: I64, time: I64) -> I64:
    """Move times that are inside a call to its start."""
    moved = time.copy()
    for number in distinct(thread).tolist():
        own, asked = np.flatnonzero(calls.thread == number), np.flatnonzero(thread == number)
        if len(own):
            before = own[np.maximum(np.searchsorted(calls.start_ns[own], time[asked], side="right") - 1, 0)]
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
    if threads:
        return threads[0]
    numbers, counts = np.unique(host.thread, return_counts=True)
    return int(numbers[counts.argmax()]) if len(numbers) else 0


def _loader_waits(context: Context, window: ModelledWindow, calls: Calls) -> I64:
    """Rows of outermost waits for the loader on threads of the model."""
    host, threads = context.trace.host, np.append(calls.thread, _main_thread(context))
    wanted = (context.kind == NodeKind.DATALOADER) & is_among(host.thread, threads)
    wanted &= (host.start_ns >= window.start_ns) & (host.start_ns < window.end_ns)
    rows = np.flatnonzero(wanted)
    tree, order = Tree.build(host.thread[rows], host.start_ns[rows], host.dur_ns[rows])
    return np.sort(rows[order[tree.parent == NO_PARENT]])
