"""Which operators, modules and lines does the work of graphs belong to, if their capture was recorded, too?

The kernels of a graph are not launched one by one, so a trace of its replay has their times but not their operators. A
recording of the capture has the operators, inputs, modules and lines of every node, and no times. Matched node by node,
the two show where the time of the graph goes. A capture that does not match is refused.

A joined trace has the host side of captures with the device side of replays, so that every joined event has its launch.
All analyses that attribute device time to operators, modules and lines work on it as on any other trace. Times on the
host are those of the capture; a call counts as often as its graph was launched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from traceanalyzer.analyzers.launches.graph_join.choice import Choice, Offer, Rejections, choose, fits, joined
from traceanalyzer.analyzers.launches.graph_join.fitting import NO_FIT, REQUIRED
from traceanalyzer.analyzers.launches.graph_join.sequences import (
    CapturedGraph,
    GraphReplays,
    Vocabulary,
    captured_graphs,
    nodes_of,
    replays_of,
)
from traceanalyzer.report.message import Message, Text
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

_NO_GRAPHS = Text("graph-join-no-replay", "the trace launches no graphs")
_NO_CAPTURE = Text("graph-join-none", "it contains no complete capture of a graph")
_RANK = Text(
    "graph-join-rank",
    "it was recorded on rank {capture:count} of {capture_world:count}, and the trace on rank {replay:count} of "
    "{replay_world:count}",
)
_SIZE = Text(
    "graph-join-size",
    "its matching graph was captured for a batch of {size:count}, but the trace has a batch of {batch:count}",
)
_AMBIGUOUS = Text("graph-join-ambiguous", "several of its graphs match, so it is unclear which of them ran")
_BEATEN = Text("graph-join-beaten", "another capture matches better, or was made for a batch that fits better")
_DISAGREES = Text(
    "graph-join-disagrees",
    "its best graph matches {share:exact_share} of what ran; {required:exact_share} is required",
)
_LENGTH = Text(
    "graph-join-length",
    "none of its graphs has the length of what ran: the closest has {captured:count} kernels, not {replayed:count}",
)
T = TypeVar("T", bound=Table)
S = TypeVar("S", bound=SliceTable)
_POOLS = ("shapes", "types", "strides", "concrete")


class OfferedCapture(msgspec.Struct, frozen=True):
    """A recording that may contain the capture of the graphs."""

    name: str
    """Name of its file."""
    accepted: bool
    """Whether graphs of this capture were joined."""
    reason: Message | None
    """The reason why no graph was joined; null if one was."""


class GraphJoin(msgspec.Struct, frozen=True):
    """How much of the work of graphs was joined with the operators of a capture."""

    joined_share: float | None
    """Share of the device time of graphs that was joined (0 to 1); null where that time is 0."""
    joined_ns: int
    """Device time in ns of the kernels, copies and fills of graphs that were joined."""
    graph_ns: int
    """Device time in ns of all kernels, copies and fills that launches of graphs started on devices."""
    launches: int
    """Number of launches of graphs that started an event on a device."""
    joined_launches: int
    """Number of these launches that were joined with a captured graph."""
    kernels: int
    """Number of kernels, copies and fills that launches of graphs started on devices."""
    joined_kernels: int
    """Number of these events that were joined with a call of a capture."""
    captures: tuple[OfferedCapture, ...]
    """The candidate captures, in the order in which they were named or found."""


class CaptureFile(msgspec.Struct, frozen=True):
    """A candidate recording and its content."""

    name: str
    content: Trace | Message
    """The content of the recording, or the reason why it cannot be used."""


class Join(msgspec.Struct, frozen=True):
    """The joined part of a recording."""

    result: GraphJoin
    context: Context | None
    """The joined events under the calls of their captures; None where nothing was joined."""


def join(context: Context, files: Iterable[CaptureFile]) -> Join:
    """Join the work of graphs in a recording with candidate captures.

    Args:
        context: The recording of the replays; only launches in its chosen steps count.
        files: The captures. One that does not match is freed before the next one is read.
    """
    vocabulary = Vocabulary()
    replays = _in_scope(context, replays_of(context, vocabulary))
    reasons: dict[int, Message] = {}
    traces: dict[int, Trace] = {}
    offers: list[Offer] = []
    names = []
    for number, file in enumerate(files):
        names.append(file.name)
        found = _offers(context, replays, number, file, vocabulary)
        if isinstance(found, Message):
            reasons[number] = found
        elif isinstance(file.content, Trace):
            offers += found
            traces[number] = file.content
    choice = choose(context, replays, offers)
    used = {offers[number].capture for number in choice.offer if number is not None}
    reasons |= {number: _refusal(choice.rejections[number]) for number in traces.keys() - used}
    captures = tuple(OfferedCapture(name, number in used, reasons.get(number)) for number, name in enumerate(names))
    return _joined(context, replays, offers, choice, captures, {number: traces[number] for number in used})


def _in_scope(context: Context, replays: GraphReplays) -> GraphReplays:
    """The launches in the chosen steps."""
    kept = np.flatnonzero(context.in_scope(context.trace.launches.start_ns[replays.launch]))
    if len(kept) == len(replays.launch):
        return replays
    events = [replays.events(number) for number in kept.tolist()]
    rows = np.concatenate([*events, np.zeros(0, np.int64)])
    bounds = np.concatenate(([0], np.cumsum([len(part) for part in events]))).astype(np.int64)
    return GraphReplays(replays.launch[kept], rows, bounds, replays.sequence[kept], replays.distinct)


def _unfit(context: Context, replays: GraphReplays, capture: Context) -> Message | None:
    """The reason why a recording cannot be the capture of these replays, independent of its graphs; None if it can."""
    if not len(replays.launch):
        return _NO_GRAPHS()
    if not captured_graphs(capture):
        return _NO_CAPTURE()
    here, there = capture.trace.info, context.trace.info
    both = (here.rank, here.world_size or 1), (there.rank, there.world_size or 1)
    if None not in (here.rank, there.rank) and both[0] != both[1]:
        return _RANK(capture=both[0][0], capture_world=both[0][1], replay=both[1][0], replay_world=both[1][1])
    return None


def _offers(
    context: Context, replays: GraphReplays, number: int, file: CaptureFile, vocabulary: Vocabulary
) -> list[Offer] | Message:
    """The graphs of a capture, if one of them matches a replay; else the reason why none does."""
    if isinstance(file.content, Message):
        return file.content
    capture = Context(file.content)
    if (reason := _unfit(context, replays, capture)) is not None:
        return reason
    trace, graphs = capture.trace, nodes_of(capture, vocabulary)
    offers = [
        Offer(number, nodes, trace.names, trace.shapes, fitting)
        for nodes, fitting in zip(graphs, fits(trace, graphs, replays, vocabulary), strict=True)
    ]
    best = max(found.agreement for offer in offers for found in offer.fits)
    if best >= REQUIRED:
        return offers
    if any(found is not NO_FIT for offer in offers for found in offer.fits):
        return _DISAGREES(share=best, required=REQUIRED)
    return _lengths(offers, replays)


def _lengths(offers: Sequence[Offer], replays: GraphReplays) -> Message:
    """The graph and the replay whose numbers of kernels are closest."""
    here = {offer.nodes.kernels for offer in offers}
    there = {replay.kernels for replay in replays.distinct}
    captured, replayed = min(product(here, there), key=lambda pair: (abs(pair[0] - pair[1]), pair))
    return _LENGTH(captured=captured, replayed=replayed)


def _refusal(rejections: Rejections) -> Message:
    """The reason why no graph of a capture was joined."""
    if rejections.was_ambiguous:
        return _AMBIGUOUS()
    if rejections.wrong_size is not None:
        return _SIZE(size=rejections.wrong_size[0], batch=rejections.wrong_size[1])
    return _BEATEN()


def _joined(
    context: Context,
    replays: GraphReplays,
    offers: Sequence[Offer],
    choice: Choice,
    captures: tuple[OfferedCapture, ...],
    traces: dict[int, Trace],
) -> Join:
    found = [*joined(choice, replays, offers)]
    events, calls = _all([rows for _, rows, _ in found]), _all([rows for _, _, rows in found])
    capture = np.repeat([offers[part[0]].capture for part in found], [len(part[1]) for part in found])
    dur = context.trace.device.dur_ns
    joined_ns, graph_ns = int(dur[events].sum()), int(dur[replays.rows].sum())
    result = GraphJoin(
        joined_share=joined_ns / graph_ns if graph_ns else None,
        joined_ns=joined_ns,
        graph_ns=graph_ns,
        launches=len(replays.launch),
        joined_launches=len(found),
        kernels=len(replays.rows),
        joined_kernels=len(events),
        captures=captures,
    )
    if not len(events):
        return Join(result, None)
    launches = np.bincount([part[0] for part in found], minlength=len(offers)).tolist()
    replayed = {
        number: ReplayedCapture(
            trace,
            [
                ReplayedGraph(offer.nodes.graph, launches[at])
                for at, offer in enumerate(offers)
                if offer.capture == number and launches[at]
            ],
        )
        for number, trace in sorted(traces.items())
    }
    return Join(result, joined_context(context, replayed, events, capture.astype(np.int64), calls))


def _all(parts: list[I64]) -> I64:
    return np.concatenate([*parts, np.zeros(0, np.int64)]).astype(np.int64)


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
        correlation[capture == number] = ids[calls[capture == number]]
        first += len(tables.launches)
    order = np.argsort(events, kind="stable")
    device = pools.coded(context.trace, context.trace.device.take(events[order]), 0)
    host, frames, launches, host_calls, frame_calls = zip(*captured, strict=True)
    host_order, frame_order = _order(host), _order(frames)
    trace = pools.trace(
        context.trace,
        host=_concatenated(HostEvents, host).take(host_order),
        frames=_concatenated(Frames, frames).take(frame_order),
        launches=_concatenated(Launches, launches).take(_order(launches)),
        device=replace(device, correlation=correlation[order]),
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
    trace, windows = replayed.trace, _Windows(replayed.graphs)
    nodes = np.concatenate([one.graph.launch for one in replayed.graphs])
    threads = np.unique(trace.launches.thread[nodes])
    host, host_calls = windows.select(trace.host.take(np.isin(trace.host.thread, threads)))
    frames, frame_calls = windows.select(trace.frames.take(np.isin(trace.frames.thread, threads)))
    ids = np.zeros(len(trace.launches), np.int64)
    ids[nodes] = np.arange(first, first + len(nodes))
    rows = np.sort(nodes)
    launches = replace(trace.launches.take(rows), correlation=ids[rows])
    thread = len(pools.threads)
    pools.threads += trace.threads
    host, frames = pools.coded(trace, host, thread), pools.coded(trace, frames, thread)
    launches = pools.coded(trace, launches, thread)
    return _CapturedTables(host, frames, launches, host_calls, frame_calls), ids


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
        first, last = first[inside], last[inside]
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
        return replace(table, **changes)

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
