"""The causal graph of a recording: the causes of each runtime call and each device event.

Host threads are chains of points: starts and ends of calls, marks of steps and of the loader. The time from one point
to the next is a fixed cost, unless a point waits for a cause outside its thread: the device event for which a call
waits, or a call of another thread. Device events form one chain for each stream; each starts no earlier than its launch
plus a latency, the end of its predecessor plus a gap, and the event of another stream for which its stream waits.

Every cause precedes its effect in the recording, so all times can be computed in the recorded order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import fields

from traceanalyzer.trace.table import I64, Bool

NOTHING = -1
"""Marks "no cause" where a cause is a position in a table."""

RECORDED = -2
"""Marks a launch whose time is an input: the event starts no earlier than recorded."""


class HostPoints(msgspec.Struct, frozen=True):
    """Points in time on host threads, ordered by thread, then by time. Shapes (points,)."""

    time_ns: I64
    """Recorded time of the point."""
    thread: I64
    """Row of the thread."""
    chain: I64
    """Number of the chain: points of one thread in one part of the recording."""
    cost_ns: I64
    """Host time since the previous point of the chain; for the first point, since the start of the trace."""
    unblocked_ns: I64
    """Time of the call that ends here if it waited for nothing; for other points equal to `cost_ns`."""
    call: I64
    """Row of the runtime call that starts or ends here in the launch table; `NOTHING` for marks."""
    is_end: Bool
    """Whether a call ends here."""
    in_loader: Bool
    """Whether the time since the previous point is a wait for the loader."""
    is_judged: Bool
    """Whether it is after the start of the first judged step, so that edits apply to the time before it."""
    part: I64
    """Number of the part of the recording whose judged steps it belongs to; `NOTHING` for points around them."""
    held_by: I64
    """The device event that must have ended before; `NOTHING` for none."""
    held_by_point: I64
    """The point of another thread that must have passed before; `NOTHING` for none."""
    delay_ns: I64
    """From the end of that event, or from that point, to this one."""

    def __len__(self) -> int:
        return len(self.time_ns)

    @property
    def is_first(self) -> Bool:
        """Mask of the first point of each chain."""
        first: Bool = self.chain != shifted(self.chain, NOTHING)
        return first


class DeviceChain(msgspec.Struct, frozen=True):
    """Device events, ordered by stream, then by start. Shapes (events,)."""

    row: I64
    """Row in the device table."""
    stream: I64
    """Number of the stream in the model, over all devices."""
    start_ns: I64
    """Recorded start of the event."""
    dur_ns: I64
    """Duration of the event."""
    gap_ns: I64
    """From the end of its predecessor on the stream to its start; negative for overlapping events."""
    launch: I64
    """The point at which its launch call starts; `NOTHING` if the event does not depend on the launch, `RECORDED` if no
    recorded cause explains its start."""
    latency_ns: I64
    """From the launch to the start; for `RECORDED`, from the start of the trace."""
    waits_for: I64
    """The event of another stream that must have ended before; `NOTHING` for none."""
    wait_ns: I64
    """From the end of that event to the start."""
    is_judged: Bool
    """Whether it was launched after the start of the first judged step, so that edits apply to it."""
    called: I64
    """The point at which its launch call starts, also where work from before the recording decides its start; else
    `launch`."""
    called_ns: I64
    """From there to the start if nothing else holds it up."""
    part: I64
    """Number of the part of the recording whose judged steps launched it; `NOTHING` for others."""

    def __len__(self) -> int:
        return len(self.row)

    @property
    def is_first(self) -> Bool:
        """Mask of the first event of each stream."""
        first: Bool = self.stream != shifted(self.stream, NOTHING)
        return first


class TakenTimes(msgspec.Struct, frozen=True):
    """Numbers of times that the model takes from the recording because it knows no cause."""

    unrecorded_starts: int = 0
    """Number of device events after work that was launched before the recording."""
    unlinked_starts: int = 0
    """Number of device events without a recorded launch that do not directly follow their predecessor."""
    unexplained_waits: int = 0
    """Number of calls that wait for the device although no recorded event ended in them; they keep their duration."""
    pinned_ns: int = 0
    """Device time in ns of the judged steps whose modelled start is simply the recorded one."""


class Graph(msgspec.Struct, frozen=True):
    """All points and events of a window with their causes."""

    host: HostPoints
    device: DeviceChain
    inputs: TakenTimes


def joined(graphs: Sequence[Graph]) -> Graph:
    """Join several graphs into one, without connections between them."""
    if len(graphs) == 1:
        return graphs[0]
    hosts = [graph.host for graph in graphs]
    devices = [graph.device for graph in graphs]
    inputs = [graph.inputs for graph in graphs]
    points = _before([len(host) for host in hosts])
    events = _before([len(device) for device in devices])
    return Graph(
        host=_joined_points(hosts, points, events),
        device=_joined_events(devices, points, events),
        inputs=TakenTimes(
            **{each.name: sum(int(getattr(one, each.name)) for one in inputs) for each in fields(TakenTimes)}
        ),
    )


def _joined_points(hosts: Sequence[HostPoints], points: list[int], events: list[int]) -> HostPoints:
    """The points of all graphs, given how many points and events come before each graph."""
    moved = {
        "held_by": events,
        "held_by_point": points,
        "chain": _before([int(host.chain.max(initial=NOTHING)) + 1 for host in hosts]),
        "part": range(len(hosts)),
    }
    return HostPoints(**{each.name: _column(each.name, hosts, moved) for each in fields(HostPoints)})


def _joined_events(devices: Sequence[DeviceChain], points: list[int], events: list[int]) -> DeviceChain:
    """The events of all graphs, given how many points and events come before each graph."""
    moved = {
        "launch": points,
        "called": points,
        "waits_for": events,
        "stream": _before([int(device.stream.max(initial=NOTHING)) + 1 for device in devices]),
        "part": range(len(devices)),
    }
    return DeviceChain(**{each.name: _column(each.name, devices, moved) for each in fields(DeviceChain)})


def _before(sizes: Sequence[int]) -> list[int]:
    """How many numbers the tables before each one use."""
    return [0, *accumulate(sizes[:-1])]


def _column(name: str, tables: Sequence[HostPoints | DeviceChain], moved: Mapping[str, Sequence[int]]) -> Any:
    """A column of all tables; the numbers of a column in `moved` are those of the joined tables."""
    values = [getattr(table, name) for table in tables]
    if name in moved:
        values = [
            np.where(numbers >= 0, numbers + before, numbers)
            for numbers, before in zip(values, moved[name], strict=True)
        ]
    return np.concatenate(values)


def shifted(values: I64, first: int) -> I64:
    """Shift values by one position: the previous value of each."""
    return np.concatenate((np.array([first], np.int64), values[:-1])) if len(values) else values
