"""The period of a program that repeats the modelled steps: from the start of one to the start of the next.

A recording begins and ends at some moment: work is queued already, and some still runs at the end. Such a lead is not
time that a change can save, because later steps would lose it again. So the steps are replayed again and again: what
they leave behind (the time of each thread, the end of each stream) is where the next round begins. Once every round
takes as long as the one before it, this is the period.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from msgspec.structs import asdict

from traceanalyzer.simulation.graph import NOTHING, RECORDED, DeviceChain, Graph, HostPoints, TakenTimes, shifted
from traceanalyzer.simulation.longest_path import (
    NEVER,
    ORIGIN,
    Contracted,
    Times,
    contract,
    replay_contracted,
    running_maximum,
)
from traceanalyzer.simulation.step_times import StepBounds
from traceanalyzer.trace.distinct import distinct, is_among
from traceanalyzer.trace.table import I64, Bool

_MOST_ROUNDS = 8
"""Most rounds (own choice): nearly all programs take two or three until their rounds are equally long."""
_UNREAD = frozenset(("thread", "unblocked_ns", "call", "is_end", "in_loader", "is_judged"))
"""Columns of points that no replay reads."""
_LATER_NS = 1_000
"""Recorded time of the first row of a round, after that of all earlier rows; only the order of these times counts."""


class _Rows(msgspec.Struct, frozen=True):
    """The rows of a table that are repeated, and rows that stand for what an earlier round did."""

    row: I64
    """The row of the table that each one comes from."""
    is_earlier: Bool
    """Mask of the rows that an earlier round did: the one before a group's first, and those that others wait for."""
    group: I64
    place: I64
    """By row of the table the position here, and `NOTHING` at the end."""
    end: I64
    """For each earlier row, the position of the row that takes its place in the next round."""
    is_lead: Bool
    """For each earlier row whether it stands for all of its group."""

    @classmethod
    def of(cls, part: I64, group: I64, counts: Bool, opened: Bool, asked: I64) -> _Rows:
        """Choose rows.

        Args:
            part: For each row the part whose steps repeat it, or `NOTHING`; rows are ordered by group, then by time.
            group: The thread or stream of each row.
            counts: Mask of the rows by whose order earlier rows are found again among the repeated ones.
            opened: Mask of the rows that follow an earlier row, if they are the first of their group.
            asked: Rows that others depend on, or negative numbers.
        """
        kept = np.flatnonzero(part != NOTHING)
        first = kept[group[kept] != shifted(group[kept], NOTHING)]
        last = kept[np.append(group[kept][1:], NOTHING) != group[kept]]
        before = distinct(asked[asked >= 0])
        before = before[part[before] == NOTHING]
        if not len(first):
            before = before[:0]
        to = np.minimum(np.searchsorted(group[first], group[before]), max(len(first) - 1, 0))
        before, to = (each[(group[first][to] == group[before]) & (before < first[to])] for each in (before, to))
        passed = np.append(0, np.cumsum(counts))
        own = kept[counts[kept]]
        at = np.searchsorted(group[own], group[before], side="right") - 1 - (passed[first[to]] - passed[before + 1])
        known = at >= np.searchsorted(group[own], group[before])
        before, at = before[known], at[known]
        first, last = first[opened[first]], last[opened[first]]
        leads = np.searchsorted(kept, first)
        row = np.append(np.insert(kept, leads, first), before)
        new = int(group.max(initial=0)) + 1 + np.arange(len(before))
        groups = np.append(np.insert(group[kept], leads, group[first]), new)
        is_earlier = np.append(np.insert(np.zeros(len(kept), np.bool_), leads, True), np.ones(len(before), np.bool_))
        place = np.full(len(part) + 1, NOTHING)
        place[before], place[kept] = np.arange(len(row) - len(before), len(row)), np.flatnonzero(~is_earlier)
        is_lead = np.arange(len(last) + len(before)) < len(last)
        return cls(row, is_earlier, groups, place, place[np.append(last, own[at])], is_lead)


class Repeated(msgspec.Struct, frozen=True):
    """Which points and events of a graph a round has; edits that leave their order alone do not change it."""

    points: _Rows
    events: _Rows
    is_main: Bool
    """For each point of the graph whether it is of the thread of the steps."""

    @classmethod
    def of(cls, graph: Graph, bounds: StepBounds) -> Repeated:
        """Choose them by the causes that the graph has."""
        host, device = graph.host, graph.device
        is_main = is_among(host.chain, host.chain[bounds.start_point])
        on_host, on_device = host.part != NOTHING, device.part != NOTHING
        follows = ~host.is_first & (shifted(host.part, NOTHING) == NOTHING)
        asked = np.concatenate((host.held_by_point[on_host], _launch(device)[on_device]))
        points = _Rows.of(host.part, host.chain, host.call != NOTHING, is_main | follows, asked)
        asked = np.concatenate((host.held_by[on_host], device.waits_for[on_device]))
        every = np.ones(len(device), np.bool_)
        return cls(points, _Rows.of(device.part, device.stream, every, every, asked), is_main)


class _Round(msgspec.Struct, frozen=True):
    """The repeated steps, and what one round hands over to the next."""

    device: DeviceChain
    small: Contracted
    points: _Rows
    events: _Rows
    parts: tuple[I64, I64]
    """The number of the part of each earlier point and event."""
    drains: Bool
    """For each earlier point whether it is of the thread of the steps, and a step starts when no device works."""
    begins: tuple[I64, I64]
    """When what each earlier point and event stands for was recorded."""

    def ends_ns(self, times: Times) -> tuple[I64, I64]:
        """When what each earlier point and event stands for ends; of events a whole stream, or one that others await.

        The last event need not be the last to end on a stream, because events may overlap.
        """
        return times.point_ns[self.points.end], _ends_ns(self.events, times.end_ns)


def _ends_ns(events: _Rows, end_ns: I64) -> I64:
    stream_end = running_maximum(end_ns, events.group)
    return np.where(events.is_lead, stream_end[events.end], end_ns[events.end])


def periods(graph: Graph, bounds: StepBounds, repeated: Repeated) -> I64:
    """Time in ns that one round of the steps of each part takes, in the order of parts."""
    steps = _round(graph, bounds, repeated)
    count, small = int(bounds.part[-1]) + 1, steps.small
    point_part, event_part = steps.parts
    parts = np.concatenate(steps.parts)
    found, passed = np.full(count, NOTHING), np.empty(0, np.int64)
    leads = small.block[steps.points.is_earlier], small.run[steps.events.is_earlier]
    only_leads = _only_leads(small, leads)
    points, events = steps.begins
    for _ in range(_MOST_ROUNDS):
        drained = _latest(events, event_part, count)[point_part]
        points = np.where(steps.drains, np.maximum(points, drained), points)
        small.weight_ns[0, leads[0]], small.weight_ns[1, leads[1]] = points, events
        point_ends, event_ends = steps.ends_ns(replay_contracted(steps.device, small))
        of_points, of_events = point_ends - points, event_ends - events
        points, events = point_ends, event_ends
        found = np.maximum(_latest(of_points, point_part, count), _latest(of_events, event_part, count))
        before, passed = passed, np.concatenate((of_points, of_events))
        if np.array_equal(passed, before):  # of each thread and stream, not of the slowest alone
            break
        if only_leads and np.array_equal(passed, found[parts]):
            break  # the next round begins as this one did, only later
    return found


def _only_leads(small: Contracted, leads: tuple[I64, I64]) -> bool:
    """Whether all times of a round follow from what the round before left behind."""
    begins = (small.cause == ORIGIN) & (small.weight_ns > NEVER)
    begins[:, np.concatenate(leads)] = False
    return not begins.any()


def _latest(values: I64, part: I64, parts: int) -> I64:
    latest = np.zeros(parts, np.int64)
    np.maximum.at(latest, part, values)
    return latest


def _launch(device: DeviceChain) -> I64:
    """The point that launches each event, also where work from before the recording decides its start."""
    return np.where(device.launch == RECORDED, device.called, device.launch)


def _round(graph: Graph, bounds: StepBounds, repeated: Repeated) -> _Round:
    """What is repeated of a graph. A round begins with the first mark of its part."""
    host, device, points, events = graph.host, graph.device, repeated.points, repeated.events
    on_host, on_device = host.part != NOTHING, device.part != NOTHING
    later = _LATER_NS - min(int(host.time_ns[on_host].min(initial=0)), int(device.start_ns[on_device].min(initial=0)))
    ahead = np.zeros(int(bounds.part[-1]) + 1, np.bool_)
    ahead[bounds.part[(bounds.start_event != NOTHING) | (bounds.previous_event != NOTHING)]] = True
    ahead[bounds.part[bounds.lag_ns > 0]] = True
    ahead[device.part[on_device & (device.launch == RECORDED) & (device.called != RECORDED)]] = True
    chain = _device(device, _launch(device), points, events, later)
    threads = _host(host, points, events, bounds, later)
    parts = threads.part[points.is_earlier], chain.part[events.is_earlier]
    drains = repeated.is_main[points.row[points.is_earlier]] & ~ahead[parts[0]]
    begins = threads.time_ns[points.end], _ends_ns(events, chain.start_ns + chain.dur_ns)
    small = contract(Graph(threads, chain, TakenTimes()))
    return _Round(chain, small, points, events, parts, drains, begins)


def _host(host: HostPoints, points: _Rows, events: _Rows, bounds: StepBounds, later: int) -> HostPoints:
    """The points of a round; earlier points begin chains."""
    row, earlier = points.row, points.is_earlier
    unread = np.broadcast_to(np.int64(0), len(row))
    columns: dict[str, Any] = {
        name: unread if name in _UNREAD else values[row] for name, values in asdict(host).items()
    }
    columns["part"][earlier] = columns["part"][points.end]
    of_part = np.searchsorted(bounds.part, columns["part"])
    mark = bounds.start_point[of_part]
    is_mark = ~earlier & (row == mark)
    # a thread that did nothing before starts as long after the step as it did
    first = points.group != shifted(points.group, NOTHING)
    starts = first & ~earlier & (columns["held_by_point"] == NOTHING) & (columns["held_by"] == NOTHING)
    since = columns["time_ns"] - host.time_ns[mark]
    columns |= {
        "chain": points.group,
        "time_ns": np.where(earlier, 0, columns["time_ns"] + later),
        "cost_ns": np.where(earlier | is_mark, 0, columns["cost_ns"]),
        "held_by": np.where(earlier, NOTHING, events.place[columns["held_by"]]),
        "held_by_point": np.where(earlier, NOTHING, points.place[np.where(starts, mark, columns["held_by_point"])]),
        "delay_ns": np.where(starts, since, columns["delay_ns"]),
    }
    return HostPoints(**columns)


def _device(device: DeviceChain, launch: I64, points: _Rows, events: _Rows, later: int) -> DeviceChain:
    """The events of a round; earlier events, without a duration, begin streams."""
    row, earlier = events.row, events.is_earlier
    columns = {name: values[row] for name, values in asdict(device).items()}
    columns["part"][earlier] = columns["part"][events.end]
    first = ~earlier & np.append(False, earlier)[:-1] & (events.group == shifted(events.group, NOTHING))
    gap = np.where(first, np.where(device.is_first[row], 0, np.maximum(columns["gap_ns"], 0)), columns["gap_ns"])
    waits = np.where(earlier, NOTHING, events.place[columns["waits_for"]])
    follows = first & (waits == NOTHING)  # so that the time of the earlier event is that of a node
    known = np.where(device.launch == RECORDED, device.called_ns, device.latency_ns)
    columns |= {
        "stream": events.group,
        "start_ns": np.where(earlier, 0, columns["start_ns"] + later),
        "dur_ns": np.where(earlier, 0, columns["dur_ns"]),
        "gap_ns": np.where(earlier, 0, gap),
        "launch": np.where(earlier, RECORDED, points.place[launch[row]]),
        "latency_ns": np.where(earlier, 0, known[row]),
        "waits_for": np.where(follows, np.arange(len(row)) - 1, waits),
        "wait_ns": np.where(follows, gap, columns["wait_ns"]),
    }
    return DeviceChain(**columns)
