"""The critical path of a replay as consecutive pieces, and how much longer events outside it may take."""

from __future__ import annotations

from enum import IntEnum

import msgspec
import numpy as np

from traceanalyzer.simulation import step_times
from traceanalyzer.simulation.graph import NOTHING, Graph, shifted
from traceanalyzer.simulation.longest_path import NEVER, Contracted, Times, contract, running_maximum
from traceanalyzer.simulation.step_times import StepBounds
from traceanalyzer.trace.table import I64, Bool


class Why(IntEnum):
    """Kind of time between a cause and its effect."""

    HOST = 0
    """Time of a host thread."""
    WAKE_UP = 1
    """From the end of device work to the return of a call that waits for it."""
    GAP = 2
    """From an event to the next one on its stream."""
    LAUNCH = 3
    """From a launch call to the start of its work."""
    EVENT_WAIT = 4
    """From an event to an event of another stream that waits for it."""
    RUNS = 5
    """Duration of a device event."""


class Pieces(msgspec.Struct, frozen=True):
    """The critical path as disjoint pieces of time. Shapes (pieces,)."""

    start_ns: I64
    end_ns: I64
    why: I64
    """One of `Why`."""
    point: I64
    """The point at which a piece of host time or a wake-up ends; `NOTHING` for other pieces."""
    event: I64
    """The device event that runs in the piece or starts at its end; `NOTHING` for host time."""


def critical(graph: Graph, times: Times, bounds: StepBounds) -> Pieces:
    """The critical path from the start of the first to the end of the last step of each part."""
    points = len(graph.host)
    begin = np.concatenate((times.point_ns, times.start_ns))
    end = np.concatenate((times.point_ns, times.end_ns))
    cause, why = _causes(graph, times)
    lasts = _lasts(bounds, times, points)
    nodes = np.flatnonzero(_ancestors(cause, lasts))
    before = cause[nodes]
    linked = np.flatnonzero(before != NOTHING)
    place = np.searchsorted(nodes, before[linked])
    after = np.arange(len(nodes))
    after[place] = linked
    opens, last = _least_from_here(begin[nodes], after)
    # a piece ends no later than the next one starts
    until = np.where(last == np.arange(len(nodes)), end[nodes], np.minimum(end[nodes], opens[after]))
    since = opens.copy()
    since[linked] = np.minimum(until[place], opens[linked])
    runs = np.flatnonzero(nodes >= points)
    node = np.concatenate((np.arange(len(nodes)), runs))
    by_last = np.argsort(lasts)
    part = by_last[np.searchsorted(lasts[by_last], nodes[last])]
    first = step_times.starts(bounds, times)[np.flatnonzero(np.diff(bounds.part, prepend=-1))]
    starts = np.maximum(np.concatenate((since, opens[runs])), first[part[node]])
    stops = np.concatenate((opens, until[runs]))
    reason = np.concatenate((why[nodes], np.full(len(runs), int(Why.RUNS))))
    kept = stops > starts
    starts, stops, reason, node = starts[kept], stops[kept], reason[kept], nodes[node[kept]]
    order = np.argsort(starts, kind="stable")
    node = node[order]
    is_event = node >= points
    return Pieces(
        start_ns=starts[order],
        end_ns=stops[order],
        why=reason[order],
        point=np.where(is_event, NOTHING, node),
        event=np.where(is_event, node - points, NOTHING),
    )


def _least_from_here(begin: I64, after: I64) -> tuple[I64, I64]:
    """For each node of a path, the least begin of it and all later nodes, and the last node of its path.

    Device clocks differ slightly from the host's, so that an effect may begin before its cause. The cause then counts
    only until its effect begins. Each round looks twice as far ahead.

    Args:
        begin: Start of each node in ns.
        after: The next node of each one; for the last of a path, the node itself.
    """
    least, jump = begin, after
    while True:
        least, further = np.minimum(least, least[jump]), jump[jump]
        if np.array_equal(further, jump):
            return least, jump
        jump = further


def _lasts(bounds: StepBounds, times: Times, points: int) -> I64:
    """The point or event at which the last step of each part ends, as a number among points and events."""
    lasts = []
    last = np.append(np.flatnonzero(np.diff(bounds.part)), len(bounds.part) - 1)
    ends = step_times.ends(bounds, times)
    after = np.cumsum(bounds.size)
    for step in last.tolist():
        point = int(bounds.end_point[step])
        events = bounds.events[after[step] - bounds.size[step] : after[step]]
        is_event = len(events) > 0 and times.point_ns[point] < ends[step]
        lasts.append(points + int(events[np.argmax(times.end_ns[events])]) if is_event else point)
    return np.array(lasts, np.int64)


def _causes(graph: Graph, times: Times) -> tuple[I64, I64]:
    """For each point, then for each event, the cause that decided its time, and the kind of time between."""
    host, device = graph.host, graph.device
    points = len(host)
    ended, passed = np.append(times.end_ns, NEVER), np.append(times.point_ns, NEVER)
    chain = np.where(host.is_first, NEVER, shifted(times.point_ns, 0) + host.cost_ns)
    held = np.where(host.held_by != NOTHING, ended[host.held_by] + host.delay_ns, NEVER)
    handed = np.where(host.held_by_point != NOTHING, passed[host.held_by_point] + host.delay_ns, NEVER)
    cause = np.where(host.is_first, NOTHING, np.arange(points) - 1)
    cause = np.where(handed > chain, host.held_by_point, cause)
    by_event = held > np.maximum(chain, handed)
    cause = np.where(by_event, host.held_by + points, cause)
    why = np.where(by_event, Why.WAKE_UP, Why.HOST)
    follows = np.where(device.is_first, NEVER, shifted(times.end_ns, 0) + device.gap_ns)
    launched = np.where(device.launch >= 0, passed[device.launch] + device.latency_ns, NEVER)
    waited = np.where(device.waits_for != NOTHING, ended[device.waits_for] + device.wait_ns, NEVER)
    event_cause = np.where(device.is_first, NOTHING, points + np.arange(len(device)) - 1)
    event_why = np.full(len(device), int(Why.GAP))
    launches = launched > follows
    event_cause, event_why = np.where(launches, device.launch, event_cause), np.where(launches, Why.LAUNCH, event_why)
    waits = waited > np.maximum(follows, launched)
    event_cause = np.where(waits, points + device.waits_for, event_cause)
    event_why = np.where(waits, Why.EVENT_WAIT, event_why)
    free = times.start_ns > np.maximum(np.maximum(follows, launched), waited)
    event_cause[free] = NOTHING
    return np.concatenate((cause, event_cause)), np.concatenate((why, event_why)).astype(np.int64)


def _ancestors(cause: I64, last: I64) -> Bool:
    """Mask of the nodes that some nodes depend on, including them; each round follows the causes twice as far."""
    nobody = len(cause)
    jump = np.append(np.where(cause == NOTHING, nobody, cause), nobody)
    marked = np.zeros(nobody + 1, np.bool_)
    marked[last] = True
    while (jump[:-1] != nobody).any():
        marked[jump[np.flatnonzero(marked)]] = True
        jump = jump[jump]
    return marked[:nobody]


# How much longer can each device event take without lengthening the steps?
#
# The reverse of a replay: going back from the end of the steps, the latest time of each node follows from the latest
# times of the nodes that depend on it.

_ALWAYS = -NEVER


def slack_of_events(graph: Graph, times: Times, bounds: StepBounds, part_of_event: I64) -> I64:
    """The slack of each device event in ns, 0 or more.

    Args:
        graph: The graph.
        times: Its replay.
        bounds: The bounds of its steps.
        part_of_event: For each device event, the number of its part.
    """
    small = contract(graph)
    last = np.append(np.flatnonzero(np.diff(bounds.part)), len(bounds.part) - 1)
    until = step_times.ends(bounds, times)[last]
    latest = np.full(len(small), _ALWAYS)
    inner = _longest_rest(small)
    np.minimum.at(latest, small.run, until[part_of_event] - inner + _rest_of_run(small))
    points = bounds.end_point[last]
    np.minimum.at(latest, small.block[points], until - small.offset_ns[points])
    allowed = np.array(_backward(small, latest.tolist()), np.int64)[small.run] - _rest_of_run(small)
    left: I64 = np.minimum(allowed, until[part_of_event] - inner) - times.end_ns
    return np.maximum(left, 0)


def _backward(small: Contracted, latest: list[int]) -> list[int]:
    """The latest time of each node that delays no later node."""
    rows = zip(*small.cause.tolist(), *small.weight_ns.tolist(), strict=True)
    for node, (first, second, third, a, b, c) in reversed(list(enumerate(rows))):
        limit = latest[node]
        if limit < _ALWAYS:
            if a > NEVER and limit - a < latest[first]:
                latest[first] = limit - a
            if b > NEVER and limit - b < latest[second]:
                latest[second] = limit - b
            if c > NEVER and limit - c < latest[third]:
                latest[third] = limit - c
    return latest


def _rest_of_run(small: Contracted) -> I64:
    """For each event, the sum of gaps and durations after it in its run."""
    if not len(small.run):
        return small.run
    ends = np.append(small.run[1:] != small.run[:-1], True)
    last = np.flatnonzero(ends)
    place = np.searchsorted(last, np.arange(len(small.run)))
    return small.length_ns[last[place]] - small.length_ns


def _longest_rest(small: Contracted) -> I64:
    """For each event, the time from its end to the last end in its run; overlapping events may end before it."""
    if not len(small.run):
        return small.run
    run = np.cumsum(np.append(False, small.run[1:] != small.run[:-1]))
    return running_maximum(small.length_ns[::-1], (run[-1] - run)[::-1])[::-1] - small.length_ns
