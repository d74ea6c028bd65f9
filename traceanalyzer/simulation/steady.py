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
from msgspec.structs import asdict, replace

from traceanalyzer.simulation.graph import NOTHING, RECORDED, DeviceChain, Graph, HostPoints, TakenTimes, shifted
from traceanalyzer.simulation.longest_path import (
    NEVER,
    ORIGIN,
    Contracted,
    contract,
    replay_contracted,
    running_maximum,
)
from traceanalyzer.simulation.step_times import StepBounds
from traceanalyzer.trace.distinct import distinct, is_among
from traceanalyzer.trace.table import I64, Bool

_MOST_ROUNDS = 8
"""Most rounds (own choice): nearly all programs take two or three until their rounds are equally long."""
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
        group_of_kept = group[kept]
        first = kept[group_of_kept != shifted(group_of_kept, NOTHING)]
        last = kept[np.append(group_of_kept[1:], NOTHING) != group_of_kept]
        awaited, successor = _earlier(kept, first, group, counts, _unrepeated(part, asked))
        first, last = first[opened[first]], last[opened[first]]

        # the rows of a group after the earlier one before its first; at the end those that others wait for
        leads = np.searchsorted(kept, first)
        row = np.append(np.insert(kept, leads, first), awaited)
        is_earlier = np.ones(len(row), np.bool_)
        is_earlier[: len(row) - len(awaited)] = np.insert(np.zeros(len(kept), np.bool_), leads, True)
        groups_of_awaited = int(group.max(initial=0)) + 1 + np.arange(len(awaited))
        groups = np.append(np.insert(group_of_kept, leads, group[first]), groups_of_awaited)
        place = np.full(len(part) + 1, NOTHING)
        place[awaited] = np.arange(len(row) - len(awaited), len(row))
        place[kept] = np.flatnonzero(~is_earlier)
        is_lead = np.arange(len(last) + len(awaited)) < len(last)
        return cls(row, is_earlier, groups, place, place[np.append(last, successor)], is_lead)


def _unrepeated(part: I64, asked: I64) -> I64:
    """The rows that others depend on and that no step repeats, ascending."""
    rows = distinct(asked[asked >= 0])
    unrepeated: I64 = rows[part[rows] == NOTHING]
    return unrepeated


def _earlier(kept: I64, first: I64, group: I64, counts: Bool, rows: I64) -> tuple[I64, I64]:
    """The rows among some that an earlier round did, and for each the repeated row that takes its place in the next.

    A row so many counted rows before the first of its group is found again as many before the end of the group.

    Args:
        kept: The repeated rows.
        first: The first repeated row of each group.
        group: The group of each row of the table.
        counts: Mask of the rows of the table that count.
        rows: Rows that are not repeated, ascending.
    """
    if not len(first):
        return rows[:0], rows[:0]
    number = np.minimum(np.searchsorted(group[first], group[rows]), len(first) - 1)
    is_before = (group[first][number] == group[rows]) & (rows < first[number])
    rows, first_of_group = rows[is_before], first[number[is_before]]
    counted = kept[counts[kept]]
    passed = np.append(0, np.cumsum(counts))
    between = passed[first_of_group] - passed[rows + 1]
    successor = np.searchsorted(group[counted], group[rows], side="right") - 1 - between
    is_known = successor >= np.searchsorted(group[counted], group[rows])
    return rows[is_known], counted[successor[is_known]]


class Repeated(msgspec.Struct, frozen=True):
    """Which points and events of a graph a round has; edits that leave their order alone do not change it."""

    points: _Rows
    events: _Rows
    is_main: Bool
    """For each point of the graph whether it is of the thread of the steps."""
    mark: I64
    """For each point of a round, the point of the graph at which its part begins."""
    host: HostPoints
    """The points of a round, but for what edits change."""
    device: DeviceChain
    """The events of a round, but for what edits change."""

    @classmethod
    def of(cls, graph: Graph, bounds: StepBounds) -> Repeated:
        """Choose them by the causes that the graph has."""
        host, device = graph.host, graph.device
        is_main = is_among(host.chain, host.chain[bounds.start_point])
        on_host = host.part != NOTHING
        on_device = device.part != NOTHING
        follows = ~host.is_first & (shifted(host.part, NOTHING) == NOTHING)
        awaited_points = np.concatenate((host.held_by_point[on_host], _launch(device)[on_device]))
        awaited_events = np.concatenate((host.held_by[on_host], device.waits_for[on_device]))
        every = np.ones(len(device), np.bool_)
        points = _Rows.of(host.part, host.chain, host.call != NOTHING, is_main | follows, awaited_points)
        events = _Rows.of(device.part, device.stream, every, every, awaited_events)
        later = _later_ns(host, device)
        mark = bounds.start_point[np.searchsorted(bounds.part, _part(host.part, points))]
        return cls(points, events, is_main, mark, _points(host, points, later), _events(device, events, later))


class _Round(msgspec.Struct, frozen=True):
    """The repeated steps, and what one round hands over to the next.

    What is handed over are times of earlier rows: first the points, then the events. Shapes (earlier rows,).
    """

    device: DeviceChain
    small: Contracted
    points: _Rows
    events: _Rows
    leads: tuple[I64, I64]
    """The nodes of the earlier points, and those of the earlier events."""
    part: I64
    """The number of the part of each earlier row."""
    parts: int
    """Number of parts."""
    drains: Bool
    """Whether each earlier row is a point of the thread of the steps, and a step starts when no device works."""
    begin_ns: I64
    """When what each earlier row stands for was recorded."""

    def of_parts(self, values: I64) -> I64:
        """The greatest value of the earlier rows of each part, 0 or more."""
        greatest = np.zeros(self.parts, np.int64)
        np.maximum.at(greatest, self.part, values)
        return greatest

    def drained(self, begin_ns: I64) -> I64:
        """When earlier rows have passed, if steps start when no device works."""
        points = len(self.points.end)
        latest = self.of_parts(np.append(np.zeros(points, np.int64), begin_ns[points:]))
        return np.where(self.drains, np.maximum(begin_ns, latest[self.part]), begin_ns)

    def passed_ns(self, begin_ns: I64) -> I64:
        """When what each earlier row stands for ends, in a round that begins at some times."""
        of_points, of_events = self.leads
        points = len(of_points)
        self.small.weight_ns[0, of_points] = begin_ns[:points]
        self.small.weight_ns[1, of_events] = begin_ns[points:]
        times = replay_contracted(self.device, self.small)
        return np.append(times.point_ns[self.points.end], _ends_ns(self.events, times.end_ns))


def _ends_ns(events: _Rows, end_ns: I64) -> I64:
    """When what each earlier event stands for ends: a whole stream, or one event that others await.

    The last event need not be the last to end on a stream, because events may overlap.
    """
    stream_end = running_maximum(end_ns, events.group)
    return np.where(events.is_lead, stream_end[events.end], end_ns[events.end])


def periods(graph: Graph, bounds: StepBounds, repeated: Repeated) -> I64:
    """Time in ns that one round of the steps of each part takes, in the order of parts."""
    steps = _round(graph, bounds, repeated)
    only_leads = _only_leads(steps.small, steps.leads)
    begin = steps.begin_ns
    last_length = np.empty(0, np.int64)
    for _ in range(_MOST_ROUNDS):
        begin = steps.drained(begin)
        end = steps.passed_ns(begin)
        length = end - begin
        period = steps.of_parts(length)
        if np.array_equal(length, last_length):  # of each thread and stream, not of the slowest alone
            break
        if only_leads and np.array_equal(length, period[steps.part]):
            break  # the next round begins as this one did, only later
        begin, last_length = end, length
    return period


def _only_leads(small: Contracted, leads: tuple[I64, I64]) -> bool:
    """Whether all times of a round follow from what the round before left behind."""
    begins = (small.cause == ORIGIN) & (small.weight_ns > NEVER)
    begins[:, np.concatenate(leads)] = False
    return not begins.any()


def _launch(device: DeviceChain) -> I64:
    """The point that launches each event, also where work from before the recording decides its start."""
    return np.where(device.launch == RECORDED, device.called, device.launch)


def _round(graph: Graph, bounds: StepBounds, repeated: Repeated) -> _Round:
    """What is repeated of a graph. A round begins with the first mark of its part."""
    host, device = graph.host, graph.device
    points, events = repeated.points, repeated.events
    threads = _host(host, repeated)
    chain = _device(device, _launch(device), repeated)
    small = contract(Graph(threads, chain, TakenTimes()))

    point_part = threads.part[points.is_earlier]
    event_part = chain.part[events.is_earlier]
    is_main = repeated.is_main[points.row[points.is_earlier]]
    drains = is_main & ~_runs_ahead(device, bounds)[point_part]
    return _Round(
        device=chain,
        small=small,
        points=points,
        events=events,
        leads=(small.block[points.is_earlier], small.run[events.is_earlier]),
        part=np.append(point_part, event_part),
        parts=int(bounds.part[-1]) + 1,
        drains=np.append(drains, np.zeros(len(event_part), np.bool_)),
        begin_ns=np.append(threads.time_ns[points.end], _ends_ns(events, chain.start_ns + chain.dur_ns)),
    )


def _later_ns(host: HostPoints, device: DeviceChain) -> int:
    """What is added to the recorded times of repeated rows."""
    earliest_point = int(host.time_ns[host.part != NOTHING].min(initial=0))
    earliest_event = int(device.start_ns[device.part != NOTHING].min(initial=0))
    return _LATER_NS - min(earliest_point, earliest_event)


def _runs_ahead(device: DeviceChain, bounds: StepBounds) -> Bool:
    """For each part whether the host of some step runs ahead of the device."""
    ahead = np.zeros(int(bounds.part[-1]) + 1, np.bool_)
    begins_at_event = (bounds.start_event != NOTHING) | (bounds.previous_event != NOTHING)
    ahead[bounds.part[begins_at_event | (bounds.lag_ns > 0)]] = True
    waits_for_earlier = (device.part != NOTHING) & (device.launch == RECORDED) & (device.called != RECORDED)
    ahead[device.part[waits_for_earlier]] = True
    return ahead


def _part(part: I64, rows: _Rows) -> I64:
    """The part of each row; earlier rows are of the part of those that take their place."""
    found = part[rows.row]
    found[rows.is_earlier] = found[rows.end]
    return found


def _points(host: HostPoints, points: _Rows, later: int) -> HostPoints:
    """The points of a round, with the columns that no edit changes; those that no replay reads have zeros."""
    unread = np.broadcast_to(np.int64(0), len(points.row))
    columns: dict[str, Any] = dict.fromkeys(HostPoints.__struct_fields__, unread)
    columns |= {
        "chain": points.group,
        "time_ns": np.where(points.is_earlier, 0, host.time_ns[points.row] + later),
        "part": _part(host.part, points),
        "held_by_point": host.held_by_point[points.row],
    }
    return HostPoints(**columns)


def _host(host: HostPoints, repeated: Repeated) -> HostPoints:
    """The points of a round of a graph; earlier points begin chains."""
    points, mark, before = repeated.points, repeated.mark, repeated.host.held_by_point
    row, earlier = points.row, points.is_earlier
    held_by = host.held_by[row]
    # a thread that did nothing before starts as long after the step as it did
    is_first = points.group != shifted(points.group, NOTHING)
    starts = is_first & ~earlier & (before == NOTHING) & (held_by == NOTHING)
    since_mark = host.time_ns[row] - host.time_ns[mark]
    return replace(
        repeated.host,
        cost_ns=np.where(earlier | (row == mark), 0, host.cost_ns[row]),
        held_by=np.where(earlier, NOTHING, repeated.events.place[held_by]),
        held_by_point=np.where(earlier, NOTHING, points.place[np.where(starts, mark, before)]),
        delay_ns=np.where(starts, since_mark, host.delay_ns[row]),
    )


def _events(device: DeviceChain, events: _Rows, later: int) -> DeviceChain:
    """The events of a round, with the columns that no edit changes."""
    columns = {name: values[events.row] for name, values in asdict(device).items()}
    columns |= {
        "stream": events.group,
        "start_ns": np.where(events.is_earlier, 0, columns["start_ns"] + later),
        "part": _part(device.part, events),
        "waits_for": np.where(events.is_earlier, NOTHING, events.place[columns["waits_for"]]),
    }
    return DeviceChain(**columns)


def _device(device: DeviceChain, launch: I64, repeated: Repeated) -> DeviceChain:
    """The events of a round of a graph; earlier events, without a duration, begin streams."""
    events, waits = repeated.events, repeated.device.waits_for
    row, earlier = events.row, events.is_earlier
    follows_earlier = ~earlier & np.append(False, earlier)[:-1]
    follows_earlier &= events.group == shifted(events.group, NOTHING)
    recorded_gap = device.gap_ns[row]
    gap_to_earlier = np.where(device.is_first[row], 0, np.maximum(recorded_gap, 0))
    gap = np.where(follows_earlier, gap_to_earlier, recorded_gap)
    follows = follows_earlier & (waits == NOTHING)  # so that the time of the earlier event is that of a node
    latency = np.where(device.launch == RECORDED, device.called_ns, device.latency_ns)
    return replace(
        repeated.device,
        dur_ns=np.where(earlier, 0, device.dur_ns[row]),
        gap_ns=np.where(earlier, 0, gap),
        launch=np.where(earlier, RECORDED, repeated.points.place[launch[row]]),
        latency_ns=np.where(earlier, 0, latency[row]),
        waits_for=np.where(follows, np.arange(len(row)) - 1, waits),
        wait_ns=np.where(follows, gap, device.wait_ns[row]),
    )
