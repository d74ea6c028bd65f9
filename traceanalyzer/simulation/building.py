"""Builds the causal graph of a window from the tables of a trace."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traceanalyzer.analyzers import host_activity
from traceanalyzer.analyzers.context import Context
from traceanalyzer.analyzers.host_tree import NodeKind
from traceanalyzer.analyzers.unrecorded_work import unrecorded_work
from traceanalyzer.simulation import calls as calls_
from traceanalyzer.simulation import handovers, releases, streams, waits
from traceanalyzer.simulation.calls import Calls
from traceanalyzer.simulation.graph import NOTHING, RECORDED, DeviceChain, Graph, HostPoints, Inputs, shifted
from traceanalyzer.simulation.streams import StreamEvents
from traceanalyzer.simulation.window import Window
from traceanalyzer.trace.table import I64, Bool

_FAR_LONGER = 2
_LONGER_NS = 10_000
"""A call that takes twice as long as usual, and 10 us, has done something else before it launched (own choices)."""
_START, _END, _MARK, _LOADER = range(4)


@dataclass(frozen=True)
class Built:
    """A graph, and where to find in it what the steps are made of."""

    graph: Graph
    step_start: I64
    """The point at the start of each step's mark."""
    step_end: I64
    """The point at the end of each step's mark."""


def build(context: Context, window: Window) -> Built:
    """Build the graph of a window."""
    calls = calls_.find(context, window)
    events = streams.find(context, window, calls)
    released = releases.find(context, calls, events)
    host, start_of, marks = _host_points(context, window, calls, released)
    judged_ns = int(host.time_ns[marks[0]])
    device, starts = _device_chain(context, calls, events, released, (host, start_of), judged_ns)
    inputs = Inputs(*starts, released.unexplained)
    return Built(Graph(host, device, inputs), marks[: len(window)], marks[len(window) :])


def _host_points(
    context: Context, window: Window, calls: Calls, released: releases.Releases
) -> tuple[HostPoints, I64, I64]:
    """The points, the position of the start of each call, and those of the marks."""
    loads = _loader_waits(context, window, calls)
    loader = context.trace.host
    thread = np.concatenate(
        (calls.thread, calls.thread, np.full(2 * len(window), _main_thread(context)), *[loader.thread[loads]] * 2)
    ).astype(np.int64)
    time = np.concatenate(
        (
            calls.start_ns,
            calls.end_ns,
            window.mark_start_ns,
            window.mark_end_ns,
            loader.start_ns[loads],
            loader.end_ns[loads],
        )
    )
    kind = np.repeat(
        [_START, _END, _MARK, _LOADER, _LOADER], [len(calls), len(calls), 2 * len(window), len(loads), len(loads)]
    )
    call = np.concatenate((calls.row, calls.row, np.full(2 * (len(window) + len(loads)), NOTHING)))
    number = np.concatenate(
        (np.arange(len(calls)), np.arange(len(calls)), np.full(len(call) - 2 * len(calls), NOTHING))
    )
    marks = np.repeat([0, 1, 0], [2 * len(window), len(loads), len(loads)])  # a wait ends before the next one begins
    place = np.concatenate((2 * each, 2 * each + 1, marks))
    outside = kind >= _MARK
    time[outside] = _outside_of_calls(calls, thread[outside], time[outside])
    # at equal times calls end, then marks follow, then calls start; those without length stay in their order
    phase = np.where(outside, 1, 2)
    phase[len(calls) : 2 * len(calls)] -= 2 * (calls.end_ns > calls.start_ns)
    order = np.lexsort((place, phase, time, thread))
    thread, time, kind, call, number = thread[order], time[order], kind[order], call[order], number[order]
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    is_end = kind == _END
    source, worked = handovers.find(context, thread, time, is_end)
    first = thread != shifted(thread, NOTHING)
    cost = np.where(first, time, time - shifted(time, 0))
    cost[is_end] = released.own_ns[number[is_end]]
    cost = np.where(source != NOTHING, worked, cost)
    unblocked = cost.copy()
    unblocked[is_end] = np.where(calls.waits, np.minimum(released.own_ns, released.usual_ns), released.own_ns)[
        number[is_end]
    ]
    held = np.where(is_end, np.append(released.event, NOTHING)[number], NOTHING)
    delay = np.where(is_end, np.append(released.delay_ns, 0)[number], 0)
    delay = np.where(source != NOTHING, time - np.append(time, 0)[source], delay)
    count = np.zeros(len(order), np.int64)
    begins, ends = position[2 * len(calls) + 2 * len(window) :][: len(loads)], position[len(order) - len(loads) :]
    np.add.at(count, begins, 1)
    np.add.at(count, ends, -1)
    in_loader = np.append(0, np.cumsum(count))[: len(order)] > 0
    points = HostPoints(
        time_ns=time,
        thread=thread,
        chain=np.cumsum(first) - 1,
        cost_ns=cost,
        unblocked_ns=unblocked,
        call=call,
        is_end=is_end,
        in_loader=in_loader,
        is_judged=time > time[position[2 * len(calls)]],
        held_by=held,
        held_by_point=source,
        delay_ns=delay,
    )
    marks = position[2 * len(calls) : 2 * (len(calls) + len(window))]
    return points, position[: len(calls)], marks


def _outside_of_calls(calls: Calls, thread: I64, time: I64) -> I64:
    """Moments of threads, moved to the start of the call in which they lie."""
    moved = time.copy()
    for number in np.unique(thread).tolist():
        own = np.flatnonzero(calls.thread == number)
        asked = np.flatnonzero(thread == number)
        if len(own):
            before = own[np.maximum(np.searchsorted(calls.start_ns[own], time[asked], side="right") - 1, 0)]
            inside = (calls.start_ns[before] < time[asked]) & (time[asked] < calls.end_ns[before])
            moved[asked[inside]] = calls.start_ns[before[inside]]
    return moved


def _main_thread(context: Context) -> int:
    """The thread on which steps are marked: that of the marks, else the one that launches most."""
    marked = np.flatnonzero(context.kind == NodeKind.STEP)
    threads = host_activity.launching_threads(context)
    if len(marked) and (not threads or int(context.trace.host.thread[marked[0]]) in threads):
        return int(context.trace.host.thread[marked[0]])
    if threads:
        return threads[0]
    numbers, counts = np.unique(context.trace.host.thread, return_counts=True)
    return int(numbers[counts.argmax()]) if len(numbers) else 0


def _loader_waits(context: Context, window: Window, calls: Calls) -> I64:
    """Rows of outermost waits for the loader on threads of the model."""
    host = context.trace.host
    wanted = (context.kind == NodeKind.DATALOADER) & np.isin(
        host.thread, np.append(calls.thread, _main_thread(context))
    )
    wanted &= (host.start_ns >= window.start_ns) & (host.start_ns < window.end_ns)
    rows = np.flatnonzero(wanted)
    return rows[_is_outermost(host.thread[rows].astype(np.int64), host.start_ns[rows], host.end_ns[rows])]


def _is_outermost(thread: I64, start: I64, end: I64) -> Bool:
    found = np.ones(len(start), np.bool_)
    for number in np.unique(thread).tolist():
        own = np.flatnonzero(thread == number)
        reach = np.maximum.accumulate(np.append(np.iinfo(np.int64).min, end[own]))[:-1]
        found[own] = start[own] >= reach
    return found


def _device_chain(
    context: Context,
    calls: Calls,
    events: StreamEvents,
    released: releases.Releases,
    host: tuple[HostPoints, I64],
    judged_ns: int,
) -> tuple[DeviceChain, tuple[int, int]]:
    """The events with what holds them up, and how many start for a reason that is not recorded."""
    points, start_of = host
    gap = streams.gaps(context, calls, events)
    candidates = waits.candidates(context, calls, events)
    launch, latency = _launches(context, calls, events, released, candidates[0], start_of)
    called = np.where(launch == NOTHING, np.iinfo(np.int64).min, np.append(points.time_ns, 0)[launch] + latency)
    follows = np.where(events.is_first, np.iinfo(np.int64).min, shifted(events.end_ns, 0) + gap)
    source, delay = waits.find(calls, events, candidates, np.maximum(called, follows))
    unrecorded = _behind_unrecorded_work(context, events)
    alone = (events.call == NOTHING) & (source == NOTHING)
    unlinked = alone & ~unrecorded & (events.is_first | (events.start_ns > follows))
    launch = np.where(unrecorded, RECORDED, launch)
    latency = np.where(unrecorded, events.start_ns, latency)
    launch[unlinked] = _last_point(points, start_of, calls, events, np.flatnonzero(unlinked))
    latency[unlinked] = (events.start_ns - np.where(launch >= 0, np.append(points.time_ns, 0)[launch], 0))[unlinked]
    chain = DeviceChain(
        row=events.row,
        stream=events.stream,
        start_ns=events.start_ns,
        dur_ns=events.end_ns - events.start_ns,
        gap_ns=gap,
        launch=launch,
        latency_ns=latency,
        waits_for=source,
        wait_ns=delay,
        is_judged=np.where(events.call == NOTHING, events.start_ns, np.append(calls.start_ns, 0)[events.call])
        >= judged_ns,
    )
    return chain, (int(unrecorded.sum()), int(unlinked.sum()))


def _launches(
    context: Context,
    calls: Calls,
    events: StreamEvents,
    released: releases.Releases,
    may_wait: Bool,
    start_of: I64,
) -> tuple[I64, I64]:
    """The point from which each event is launched, and the time from there to its start.

    Work is launched from the start of its call; but where a call takes far longer than usual, because it loads code or
    the queue is full, from its end. A call that waits for its own work has launched it before.
    """
    usual = streams.latencies(context, calls, events, may_wait)
    heads = np.flatnonzero(events.is_head)
    call = events.call[heads]
    launch = np.full(len(events), NOTHING)
    latency = np.zeros(len(events), np.int64)
    takes = released.usual_ns[call]
    long = calls.end_ns[call] - calls.start_ns[call] > _FAR_LONGER * takes + _LONGER_NS
    long &= events.start_ns[heads] >= calls.end_ns[call] - takes
    long &= np.append(events.call, NOTHING)[released.event[call]] != call
    launch[heads] = start_of[call] + long  # the end of a call follows its start
    latency[heads] = usual[heads] - np.where(long, takes, 0)
    return launch, latency


def _last_point(points: HostPoints, start_of: I64, calls: Calls, events: StreamEvents, rows: I64) -> I64:
    """For events whose launch is not recorded, how far the thread had come that launched what follows on the stream.

    Returns:
        The last point of this thread before each starts, and no later one than the launch of what follows;
        `RECORDED` where nothing tells of a thread.
    """
    after = np.where(events.is_head, np.arange(len(events)), len(events))
    after = np.minimum.accumulate(after[::-1])[::-1][rows]
    before = np.maximum.accumulate(np.where(events.is_head, np.arange(len(events)), NOTHING))[rows]
    stream = np.append(events.stream, NOTHING)
    following = np.where(stream[np.minimum(after, len(events))] == events.stream[rows], after, NOTHING)
    near = np.where(following != NOTHING, following, np.where(stream[before] == events.stream[rows], before, NOTHING))
    call = np.append(events.call, NOTHING)[near]
    thread = np.append(calls.thread, NOTHING)[call]
    bound = np.append(start_of, NOTHING)[np.append(events.call, NOTHING)[following]]
    found = np.full(len(rows), RECORDED)
    for number in np.unique(thread[thread != NOTHING]).tolist():
        own = np.flatnonzero(points.thread == number)
        asked = np.flatnonzero(thread == number)
        last = np.searchsorted(points.time_ns[own], events.start_ns[rows[asked]], side="right") - 1
        point = np.where(last >= 0, own[np.maximum(last, 0)], RECORDED)
        limit = bound[asked]
        found[asked] = np.where(limit >= 0, np.minimum(point, np.where(limit >= 0, limit, point)), point)
    return found


def _behind_unrecorded_work(context: Context, events: StreamEvents) -> Bool:
    """Which events are the first of their stream after work that was launched before the recording."""
    found = np.zeros(len(events), np.bool_)
    for number, times in unrecorded_work(context).items():
        rows = np.flatnonzero(events.device == number)
        for end in times.end.tolist():
            after = rows[events.start_ns[rows] >= end]
            first = after[np.unique(events.stream[after], return_index=True)[1]]
            found[first] = True
    return found
