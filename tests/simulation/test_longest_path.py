"""The replay is the longest path: compared with following every cause of small random graphs one by one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from traceanalyzer.simulation.graph import NOTHING, DeviceChain, Graph, HostPoints, TakenTimes
from traceanalyzer.simulation.longest_path import replay

THREADS, STREAMS = 2, 3


@dataclass(frozen=True)
class Operation:
    """What a thread does next: launch on a stream, then perhaps wait for an earlier event, or for the other thread."""

    thread: int
    stream: int
    host_ns: int
    dur_ns: int
    gap_ns: int
    event: int
    """Which of the earlier events the launched one waits for; none if there are fewer."""
    wait: int
    """Which of the earlier events the thread waits for; none if there are fewer."""
    takes_over: bool
    """Whether the thread first waits for the last point of the other one."""


operations = st.lists(
    st.builds(
        Operation,
        thread=st.integers(0, THREADS - 1),
        stream=st.integers(0, STREAMS - 1),
        host_ns=st.integers(1, 50),
        dur_ns=st.integers(1, 200),
        gap_ns=st.integers(0, 5),
        event=st.integers(0, 12),
        wait=st.integers(0, 12),
        takes_over=st.booleans(),
    ),
    max_size=12,
)


class Program:
    """Runs operations one after the other, and notes when everything happens and because of what."""

    def __init__(self, done: list[Operation], shorter: float = 1.0) -> None:
        self.points: list[list[dict[str, int]]] = [[] for _ in range(THREADS)]
        self.streams: list[list[dict[str, int]]] = [[] for _ in range(STREAMS)]
        self.events: list[tuple[int, int]] = []
        for operation in done:
            self.run(operation, shorter)

    def run(self, operation: Operation, shorter: float) -> None:
        own, other = self.points[operation.thread], self.points[1 - operation.thread]
        dur = int(operation.dur_ns * shorter)
        host = (
            int(operation.host_ns * shorter) if own else operation.host_ns
        )  # threads start when they were recorded to
        handed = len(other) - 1 if operation.takes_over and other and own else NOTHING
        start = (own[-1]["time"] if own else 0) + host
        start = max(start, other[handed]["time"] + 3) if handed != NOTHING else start
        own.append({"time": start, "cost": host, "by": NOTHING, "handed": handed, "delay": 3})
        stream = self.streams[operation.stream]
        begin = max(start + 7, stream[-1]["end"] + operation.gap_ns if stream else 0)
        waits = operation.event if operation.event < len(self.events) else NOTHING
        begin = max(begin, self.end_of(waits) + 2) if waits != NOTHING else begin
        launch = len(own) - 1
        stream.append(
            {"start": begin, "end": begin + dur, "dur": dur, "gap": operation.gap_ns, "waits": waits}
            | {"thread": operation.thread, "launch": launch}
        )
        self.events.append((operation.stream, len(stream) - 1))
        by = operation.wait if operation.wait < len(self.events) else NOTHING
        end = max(start + 1, self.end_of(by) + 4) if by != NOTHING else start + 1
        own.append({"time": end, "cost": 1, "by": by, "handed": NOTHING, "delay": 4})

    def end_of(self, event: int) -> int:
        stream, place = self.events[event]
        return self.streams[stream][place]["end"]

    def graph(self) -> Graph:
        """The causes, with the durations of this run."""
        first_event = np.cumsum([0, *map(len, self.streams)]).tolist()
        first_point = np.cumsum([0, *map(len, self.points)]).tolist()
        at = [first_event[stream] + place for stream, place in self.events] + [NOTHING]
        host = [(thread, point) for thread, points in enumerate(self.points) for point in points]
        device = [(stream, event) for stream, events in enumerate(self.streams) for event in events]

        def column(table: list[tuple[int, dict[str, int]]], key: str) -> np.ndarray:
            return np.array([row[key] for _, row in table], np.int64)

        thread = np.array([each for each, _ in host], np.int64)
        handed = column(host, "handed")
        points = HostPoints(
            time_ns=column(host, "time"),
            thread=thread,
            chain=thread,
            cost_ns=column(host, "cost"),
            unblocked_ns=column(host, "cost"),
            call=np.full(len(host), NOTHING),
            is_end=np.zeros(len(host), np.bool_),
            in_loader=np.zeros(len(host), np.bool_),
            is_judged=np.ones(len(host), np.bool_),
            part=np.zeros(len(host), np.int64),
            held_by=np.array(at, np.int64)[column(host, "by")],
            held_by_point=np.where(handed >= 0, handed + np.array(first_point)[1 - thread], NOTHING),
            delay_ns=column(host, "delay"),
        )
        launch = column(device, "launch") + np.array(first_point)[column(device, "thread")]
        chain = DeviceChain(
            row=np.arange(len(device)),
            stream=np.array([each for each, _ in device], np.int64),
            start_ns=column(device, "start"),
            dur_ns=column(device, "dur"),
            gap_ns=column(device, "gap"),
            launch=launch,
            latency_ns=np.full(len(device), 7),
            waits_for=np.array(at, np.int64)[column(device, "waits")],
            wait_ns=np.full(len(device), 2),
            is_judged=np.ones(len(device), np.bool_),
            called=launch,
            called_ns=np.full(len(device), 7),
            part=np.zeros(len(device), np.int64),
        )
        return Graph(points, chain, TakenTimes())


@given(operations)
def test_a_replay_of_a_program_is_its_run(done: list[Operation]) -> None:
    graph = Program(done).graph()
    times = replay(graph)
    assert times.point_ns.tolist() == graph.host.time_ns.tolist()
    assert times.start_ns.tolist() == graph.device.start_ns.tolist()
    assert times.dropped == 0


@given(operations, st.sampled_from([0.0, 0.3, 0.5, 0.9]))
def test_a_replay_with_shorter_durations_is_the_run_of_the_shorter_program(
    done: list[Operation], shorter: float
) -> None:
    before, after = Program(done).graph(), Program(done, shorter).graph()
    host = replace(before.host, cost_ns=after.host.cost_ns)
    device = replace(before.device, dur_ns=after.device.dur_ns)
    times = replay(Graph(host, device, TakenTimes()))
    assert times.point_ns.tolist() == after.host.time_ns.tolist()
    assert times.start_ns.tolist() == after.device.start_ns.tolist()
