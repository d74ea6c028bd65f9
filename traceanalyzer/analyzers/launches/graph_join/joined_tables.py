"""What does a trace look like that has the host side of captures and the device side of replays?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from traceanalyzer.analyzers.launches.graph_join.sequences import CapturedGraph
from traceanalyzer.structure.context import Context, Repetitions
from traceanalyzer.structure.sums import members
from traceanalyzer.trace.model import NO_COLLECTIVE, NO_SOURCE, Thread, Trace
from traceanalyzer.trace.strings import Strings
from traceanalyzer.trace.table import I32, I64, SliceTable, Table
from traceanalyzer.trace.tables import (
    AcceleratorEvents,
    DeviceEvents,
    Flows,
    Frames,
    GpuAnnotations,
    HostEvents,
    Launches,
    MemoryEvents,
    Overheads,
    Syncs,
)

T = TypeVar("T", bound=Table)
S = TypeVar("S", bound=SliceTable)
_POOLS = ("shapes", "types", "strides", "concrete")


class ReplayedGraph(msgspec.Struct, frozen=True, eq=False):
    """A captured graph that was launched."""

    graph: CapturedGraph
    launches: int
    """Number of its launches."""


class ReplayedCapture(msgspec.Struct, frozen=True, eq=False):
    """A capture and those of its graphs that were launched, in the order of their begin."""

    trace: Trace
    graphs: Sequence[ReplayedGraph]


def joined_context(
    context: Context, captures: Mapping[int, ReplayedCapture], events: I64, capture: I64, calls: I64
) -> Context:
    """Put the events of replays under the captured calls.

    Args:
        context: The recording of the replays.
        captures: The captures, by number.
        events: Rows of the joined events on the device.
        capture: For each of them, the number of its capture.
        calls: For each of them, the row of its call among the launches of the capture.
    """
    pools = _Pools()
    correlation = np.zeros(len(events), np.int64)
    captured: list[_CapturedTables] = []
    first = 1
    for number, replayed in captures.items():
        tables, ids = _captured_tables(replayed, pools, first)
        captured.append(tables)
        is_of_capture = capture == number
        correlation[is_of_capture] = ids[calls[is_of_capture]]
        first += len(tables.launches)
    order = np.argsort(events, kind="stable")
    device = pools.coded(context.trace, context.trace.device.take(events[order]), 0)
    return _context(context, pools, captured, device.changed(correlation=correlation[order]))


def _context(context: Context, pools: _Pools, captured: list[_CapturedTables], device: DeviceEvents) -> Context:
    """The tables of all captures as one recording, with the joined events."""
    host, frames, launches, host_calls, frame_calls = zip(*captured, strict=True)
    host_order = _order(host)
    frame_order = _order(frames)
    trace = pools.trace(
        context.trace,
        host=_concatenated(HostEvents, host).take(host_order),
        frames=_concatenated(Frames, frames).take(frame_order),
        launches=_concatenated(Launches, launches).take(_order(launches)),
        device=device,
    )
    repetitions = Repetitions(np.concatenate(host_calls)[host_order], np.concatenate(frame_calls)[frame_order])
    return Context(trace, gpu=context.gpu, repetitions=repetitions)


class _CapturedTables(NamedTuple):
    """What one capture recorded while its replayed graphs were captured, in the common numbering."""

    host: HostEvents
    frames: Frames
    launches: Launches
    host_calls: I64
    """How often the graph of each row of `host` was launched."""
    frame_calls: I64


def _captured_tables(replayed: ReplayedCapture, pools: _Pools, first: int) -> tuple[_CapturedTables, I64]:
    """The tables of a capture, and the new correlation id of each of its launches, from `first` on; 0 for none."""
    trace = replayed.trace
    windows = _Windows(replayed.graphs)
    nodes = np.concatenate([replay.graph.launch for replay in replayed.graphs])
    threads = np.unique(trace.launches.thread[nodes])
    host, host_calls = windows.select(trace.host.take(np.isin(trace.host.thread, threads)))
    frames, frame_calls = windows.select(trace.frames.take(np.isin(trace.frames.thread, threads)))
    ids = np.zeros(len(trace.launches), np.int64)
    ids[nodes] = np.arange(first, first + len(nodes))
    rows = np.sort(nodes)
    launches = trace.launches.take(rows).changed(correlation=ids[rows])
    first_thread = len(pools.threads)
    pools.threads += trace.threads
    tables = _CapturedTables(
        host=pools.coded(trace, host, first_thread),
        frames=pools.coded(trace, frames, first_thread),
        launches=pools.coded(trace, launches, first_thread),
        host_calls=host_calls,
        frame_calls=frame_calls,
    )
    return tables, ids


class _Windows:
    """The times in which graphs were captured, and how often each was launched."""

    def __init__(self, graphs: Sequence[ReplayedGraph]) -> None:
        self._begin = np.array([one.graph.begin_ns for one in graphs], np.int64)
        self._end = np.array([one.graph.end_ns for one in graphs], np.int64)
        self._launches = np.array([one.launches for one in graphs], np.int64)

    def select(self, table: S) -> tuple[S, I64]:
        """The slices that overlap a window, and the calls that each stands for: the launches of a graph in it."""
        first = np.searchsorted(self._end, table.start_ns, side="right")
        last = np.searchsorted(self._begin, table.end_ns, side="left") - 1
        inside = np.flatnonzero(first <= last)
        first = first[inside]
        last = last[inside]
        calls = self._launches[last]
        several = np.flatnonzero(first < last)
        for _, own in members(first[several] * len(self._launches) + last[several]):
            rows = several[own]
            calls[rows] = self._launches[first[rows[0]] : last[rows[0]] + 1].max()
        return table.take(inside), calls


class _Pools:
    """Strings of several traces under one numbering."""

    def __init__(self) -> None:
        self.threads: tuple[Thread, ...] = ()
        self._texts: dict[str, dict[str, int]] = {pool: {"": 0} for pool in (*_POOLS, "dims", "names")}

    def coded(self, trace: Trace, table: T, thread: int) -> T:
        """A table of a trace with its codes in the common numbering.

        Args:
            trace: The trace of the table.
            table: Some of its rows.
            thread: Number that is added to the rows of its threads.
        """
        changes: dict[str, Any] = {"name": self._codes("names", trace.names, table.name)}  # type: ignore[attr-defined]
        for column, pool in (*((pool, pool) for pool in _POOLS), ("grid", "dims"), ("block", "dims")):
            if hasattr(table, column):
                changes[column] = self._codes(pool, getattr(trace, pool), getattr(table, column))
        if hasattr(table, "collective"):
            changes["collective"] = np.zeros(len(table), np.int32)
        if hasattr(table, "source"):
            changes["source"] = np.zeros(len(table), np.int32)
        if hasattr(table, "kernel"):
            changes["kernel"] = np.full(len(table), -1, np.int32)
        if hasattr(table, "thread"):
            changes["thread"] = (table.thread + thread).astype(np.int32)
        return table.changed(**changes)

    def _codes(self, pool: str, texts: Strings, column: I32) -> I32:
        known = self._texts[pool]
        distinct, which = np.unique(column, return_inverse=True)
        numbers = [known.setdefault(texts[code], len(known)) for code in distinct.tolist()]
        return np.array(numbers, np.int32)[which] if len(distinct) else np.zeros(0, np.int32)

    def trace(
        self, replay: Trace, *, host: HostEvents, frames: Frames, launches: Launches, device: DeviceEvents
    ) -> Trace:
        """The trace of these tables; everything else is empty."""
        return Trace(
            info=replay.info,
            names=Strings(self._texts["names"]),
            shapes=Strings(self._texts["shapes"]),
            types=Strings(self._texts["types"]),
            dims=Strings(self._texts["dims"]),
            strides=Strings(self._texts["strides"]),
            concrete=Strings(self._texts["concrete"]),
            collectives=(NO_COLLECTIVE,),
            sources=(NO_SOURCE,),
            details=replay.details,
            threads=self.threads,
            host=host,
            launches=launches,
            device=device,
            gpu_annotations=GpuAnnotations.empty(),
            frames=frames,
            memory=MemoryEvents.empty(),
            syncs=Syncs.empty(),
            overheads=Overheads.empty(),
            flows=Flows.empty(),
            accelerator=AcceleratorEvents.empty(),
        )


def _concatenated(kind: type[T], tables: Sequence[T]) -> T:
    return kind(*(np.concatenate(columns) for columns in zip(*tables, strict=True)))


def _order(tables: Sequence[Table]) -> I64:
    """The order of start of the rows of several tables."""
    return np.argsort(np.concatenate([table.start_ns for table in tables]), kind="stable")
