"""The critical path of a replay as consecutive pieces, and how much longer events outside it may take."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from traceanalyzer.simulation import step_times
from traceanalyzer.simulation.graph import NOTHING, DeviceChain, Graph, HostPoints, shifted
from traceanalyzer.simulation.longest_path import NEVER, Contracted, Times, contract, running_maximum
from traceanalyzer.simulation.step_times import StepBounds
from traceanalyzer.structure.sums import Columns
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


class Pieces(Columns, frozen=True):
    """The critical path as disjoint pieces of time. Shapes (pieces,)."""

    start_ns: I64
    end_ns: I64
    why: I64
    """One of `Why`."""
    point: I64
    """The point at which a piece of host time or a wake-up ends; `NOTHING` for other pieces."""
    event: I64
    """The device event that runs in the piece or starts at its end; `NOTHING` for host time."""


class _Path(NamedTuple):
    """The nodes of a critical path, by their numbers; nodes are the points, then the events. Shapes (nodes,)."""

    number: I64
    """Number among points and events, ascending."""
    why: I64
    """Kind of time between its cause and it, one of `Why`."""
    since_ns: I64
    """When its cause has ended; for a node without a cause, when it begins."""
    begin_ns: I64
    """When it begins, but no later than any node that follows from it."""
    end_ns: I64
    """When it ends, but no later than the next node begins."""
    step_start_ns: I64
    """Start of the first step of its part."""


def critical(graph: Graph, times: Times, bounds: StepBounds) -> Pieces:
    """The critical path from the start of the first to the end of the last step of each part."""
    points = len(graph.host)
    path = _path(graph, times, bounds)
    # a piece before each node, from the end of its cause; and one for each event, while it runs
    runs = np.flatnonzero(path.number >= points)
    position = np.concatenate((np.arange(len(path.number)), runs))
    begins = np.concatenate((path.since_ns, path.begin_ns[runs]))
    starts = np.maximum(begins, path.step_start_ns[position])
    stops = np.concatenate((path.begin_ns, path.end_ns[runs]))
    why = np.concatenate((path.why, np.full(len(runs), int(Why.RUNS))))

    kept = np.flatnonzero(stops > starts)
    kept = kept[np.argsort(starts[kept], kind="stable")]
    node = path.number[position[kept]]
    is_event = node >= points
    return Pieces(
        start_ns=starts[kept],
        end_ns=stops[kept],
        why=why[kept],
        point=np.where(is_event, NOTHING, node),
        event=np.where(is_event, node - points, NOTHING),
    )


def _path(graph: Graph, times: Times, bounds: StepBounds) -> _Path:
    """The points and events that the ends of the parts depend on, each with its time on the path."""
    cause, why = _causes(graph, times)
    lasts = _lasts(bounds, times, len(graph.host))
    number = np.flatnonzero(_ancestors(cause, lasts))
    linked = np.flatnonzero(cause[number] != NOTHING)
    position_of_cause = np.searchsorted(number, cause[number[linked]])
    following = np.arange(len(number))
    following[position_of_cause] = linked

    begin = np.concatenate((times.point_ns, times.start_ns))[number]
    end = np.concatenate((times.point_ns, times.end_ns))[number]
    begin, last = _least_from_here(begin, following)
    # a piece ends no later than the next one starts
    is_last = last == np.arange(len(number))
    end = np.where(is_last, end, np.minimum(end, begin[following]))
    since = begin.copy()
    since[linked] = np.minimum(end[position_of_cause], begin[linked])
    return _Path(
        number=number,
        why=why[number],
        since_ns=since,
        begin_ns=begin,
        end_ns=end,
        step_start_ns=_first_starts(bounds, times)[_part_of(lasts, number[last])],
    )


def _part_of(lasts: I64, last: I64) -> I64:
    """The part of each path, found by the last node of the path among the last nodes of all parts."""
    by_last = np.argsort(lasts)
    return by_last[np.searchsorted(lasts[by_last], last)]


def _first_starts(bounds: StepBounds, times: Times) -> I64:
    """Start of the first step of each part."""
    is_first = np.diff(bounds.part, prepend=-1) != 0
    first_starts: I64 = step_times.starts(bounds, times)[is_first]
    return first_starts


def _least_from_here(begin: I64, after: I64) -> tuple[I64, I64]:
    """For each node of a path, the least begin of it and all later nodes, and the last node of its path.

    Device clocks differ slightly from the host's, so that an effect may begin before its cause. The cause then counts
    only until its effect begins. Each round looks twice as far ahead.

    Args:
        begin: Start of each node in ns.
        after: The next node of each one; for the last of a path, the node itself.
    """
    least = begin
    jump = after
    while True:
        least = np.minimum(least, least[jump])
        further = jump[jump]
        if np.array_equal(further, jump):
            return least, jump
        jump = further


def _lasts(bounds: StepBounds, times: Times, points: int) -> I64:
    """The point or event at which the last step of each part ends, as a number among points and events."""
    lasts = []
    ends = step_times.ends(bounds, times)
    after = np.cumsum(bounds.size)
    for step in _last_steps(bounds).tolist():
        point = int(bounds.end_point[step])
        launched = bounds.events[after[step] - bounds.size[step] : after[step]]
        if len(launched) and times.point_ns[point] < ends[step]:
            lasts.append(points + int(launched[np.argmax(times.end_ns[launched])]))
        else:
            lasts.append(point)
    return np.array(lasts, np.int64)


def _last_steps(bounds: StepBounds) -> I64:
    """The row of the last step of each part."""
    return np.append(np.flatnonzero(np.diff(bounds.part)), len(bounds.part) - 1)


def _causes(graph: Graph, times: Times) -> tuple[I64, I64]:
    """For each point, then for each event, the cause that decided its time, and the kind of time between."""
    point_cause, point_why = _causes_of_points(graph.host, times)
    event_cause, event_why = _causes_of_events(graph.device, times)
    cause = np.concatenate((point_cause, event_cause))
    why = np.concatenate((point_why, event_why)).astype(np.int64)
    return cause, why


def _causes_of_points(host: HostPoints, times: Times) -> tuple[I64, I64]:
    """For each point, the cause that decided its time, and the kind of time between."""
    points = len(host)
    ended = np.append(times.end_ns, NEVER)
    passed = np.append(times.point_ns, NEVER)
    # the time that each cause implies: the point before, a point of another thread, a device event
    chain = np.where(host.is_first, NEVER, shifted(times.point_ns, 0) + host.cost_ns)
    handed = np.where(host.held_by_point != NOTHING, passed[host.held_by_point] + host.delay_ns, NEVER)
    held = np.where(host.held_by != NOTHING, ended[host.held_by] + host.delay_ns, NEVER)

    cause = np.where(host.is_first, NOTHING, np.arange(points) - 1)
    cause = np.where(handed > chain, host.held_by_point, cause)
    by_event = held > np.maximum(chain, handed)
    cause = np.where(by_event, host.held_by + points, cause)
    why = np.where(by_event, Why.WAKE_UP, Why.HOST)
    return cause, why


def _causes_of_events(device: DeviceChain, times: Times) -> tuple[I64, I64]:
    """For each event, the cause that decided its start, and the kind of time between."""
    points = len(times.point_ns)
    ended = np.append(times.end_ns, NEVER)
    passed = np.append(times.point_ns, NEVER)
    # the start that each cause implies: the event before, the launch, an event of another stream
    follows = np.where(device.is_first, NEVER, shifted(times.end_ns, 0) + device.gap_ns)
    launched = np.where(device.launch >= 0, passed[device.launch] + device.latency_ns, NEVER)
    waited = np.where(device.waits_for != NOTHING, ended[device.waits_for] + device.wait_ns, NEVER)

    cause = np.where(device.is_first, NOTHING, points + np.arange(len(device)) - 1)
    why = np.full(len(device), int(Why.GAP))
    by_launch = launched > follows
    cause = np.where(by_launch, device.launch, cause)
    why = np.where(by_launch, Why.LAUNCH, why)
    by_wait = waited > np.maximum(follows, launched)
    cause = np.where(by_wait, points + device.waits_for, cause)
    why = np.where(by_wait, Why.EVENT_WAIT, why)
    implied = np.maximum(np.maximum(follows, launched), waited)
    cause[times.start_ns > implied] = NOTHING
    return cause, why


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
    last = _last_steps(bounds)
    until = step_times.ends(bounds, times)[last]
    # the latest end of each event, and the latest time of each end of a mark, that does not delay the end of its part
    latest_end = until[part_of_event] - _longest_rest(small)
    rest = _rest_of_run(small)
    points = bounds.end_point[last]
    latest = np.full(len(small), _ALWAYS)
    np.minimum.at(latest, small.run, latest_end + rest)
    np.minimum.at(latest, small.block[points], until - small.offset_ns[points])

    node_latest = np.array(_backward(small, latest.tolist()), np.int64)
    allowed = node_latest[small.run] - rest
    left: I64 = np.minimum(allowed, latest_end) - times.end_ns
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
    is_last = np.append(small.run[1:] != small.run[:-1], True)
    lasts = np.flatnonzero(is_last)
    own_last = lasts[np.searchsorted(lasts, np.arange(len(small.run)))]
    return small.length_ns[own_last] - small.length_ns


def _longest_rest(small: Contracted) -> I64:
    """For each event, the time from its end to the last end in its run; overlapping events may end before it."""
    if not len(small.run):
        return small.run
    run = np.cumsum(np.append(False, small.run[1:] != small.run[:-1]))
    # a running maximum from behind, over the runs in the reverse order
    backwards = (run[-1] - run)[::-1]
    longest = running_maximum(small.length_ns[::-1], backwards)[::-1]
    return longest - small.length_ns
