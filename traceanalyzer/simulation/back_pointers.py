"""The causes that decided when the steps end: the critical path of a replay, as pieces that follow each other."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from traceanalyzer.simulation import step_times
from traceanalyzer.simulation.graph import NOTHING, Graph, shifted
from traceanalyzer.simulation.longest_path import NEVER, Times, running_maximum
from traceanalyzer.simulation.step_times import StepBounds
from traceanalyzer.trace.table import I64, Bool


class Why(IntEnum):
    """What passes between a cause and its effect."""

    HOST = 0
    """Time of a host thread."""
    WAKE_UP = 1
    """A call returns after the device is done."""
    GAP = 2
    """From an event to the next one on its stream."""
    LAUNCH = 3
    """From a launch call to the start of its work."""
    EVENT_WAIT = 4
    """From an event to one of another stream that waits for it."""
    RUNS = 5
    """A device event runs."""


@dataclass(frozen=True)
class Pieces:
    """The critical path: pieces of time that do not overlap. Shapes (pieces,)."""

    start_ns: I64
    end_ns: I64
    why: I64
    """One of `Why`."""
    point: I64
    """The point at which a piece of host time or a wake-up ends; `NOTHING` for the others."""
    event: I64
    """The device event that runs or starts at its end; `NOTHING` for host time."""


def critical(graph: Graph, times: Times, bounds: StepBounds) -> Pieces:
    """The critical path up to the end of the last step of each part."""
    points = len(graph.host)
    begin = np.concatenate((times.point_ns, times.start_ns))
    end = np.concatenate((times.point_ns, times.end_ns))
    cause, why = _causes(graph, times)
    on_path = _ancestors(cause, _lasts(bounds, times, points))
    nodes = np.flatnonzero(on_path)
    before = cause[nodes]
    linked = before != NOTHING
    begin = _in_order(cause, nodes, begin)
    # events that overlap on one stream count until the next one of the path starts
    until = end.copy()
    np.minimum.at(until, before[linked], begin[nodes[linked]])
    since = np.where(linked, np.append(until, 0)[before], begin[nodes])
    runs = nodes[nodes >= points]
    starts = np.concatenate((since, begin[runs]))
    stops = np.concatenate((begin[nodes], np.maximum(until[runs], begin[runs])))
    reason = np.concatenate((why[nodes], np.full(len(runs), int(Why.RUNS))))
    node = np.concatenate((nodes, runs))
    kept = stops > starts
    starts, stops, reason, node = starts[kept], stops[kept], reason[kept], node[kept]
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


def _in_order(cause: I64, nodes: I64, begin: I64) -> I64:
    """When each node happens, but no later than what it causes on the path.

    Clocks of host and device differ, so that work may seem to start before its launch; then the time of the path before
    the launch ends where the work starts.
    """
    before = cause[nodes]
    linked = nodes[before != NOTHING]
    if (begin[cause[linked]] <= begin[linked]).all():
        return begin
    nobody = len(cause)
    jump = np.append(np.where(cause == NOTHING, nobody, cause), nobody)
    depth, root = np.append(cause != NOTHING, False).astype(np.int64), np.arange(nobody + 1)
    while (jump[:-1] != nobody).any():
        depth, root = depth + depth[jump], np.where(jump != nobody, root[jump], root)
        jump = jump[jump]
    backwards = nodes[np.lexsort((-depth[nodes], root[nodes]))]
    group = np.cumsum(root[backwards] != shifted(root[backwards], NOTHING)) - 1
    found = begin.copy()
    found[backwards] = -running_maximum(-begin[backwards], group)
    return found


def _lasts(bounds: StepBounds, times: Times, points: int) -> I64:
    """The point or event with which the last step of each part ends, by its number among points and events."""
    found = []
    last = np.append(np.flatnonzero(np.diff(bounds.part)), len(bounds.part) - 1)
    ends = step_times.ends(bounds, times)
    after = np.cumsum(bounds.size)
    for step in last.tolist():
        point = int(bounds.end_point[step])
        events = bounds.events[after[step] - bounds.size[step] : after[step]]
        is_event = times.point_ns[point] < ends[step]
        found.append(points + int(events[np.argmax(times.end_ns[events])]) if is_event else point)
    return np.array(found, np.int64)


def _causes(graph: Graph, times: Times) -> tuple[I64, I64]:
    """For each point and then each event the cause that decided when it happens, and why."""
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
    """Which nodes some nodes depend on, themselves included; each round follows the causes twice as far."""
    nobody = len(cause)
    jump = np.append(np.where(cause == NOTHING, nobody, cause), nobody)
    found = np.zeros(nobody + 1, np.bool_)
    found[last] = True
    while (jump[:-1] != nobody).any():
        found[jump[np.flatnonzero(found)]] = True
        jump = jump[jump]
    return found[:nobody]
