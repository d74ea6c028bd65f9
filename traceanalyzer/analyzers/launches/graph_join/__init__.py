"""Which operators, modules and lines does the work of graphs belong to, if their capture was recorded, too?

The kernels of a graph are not launched one by one, so a trace of its replay has their times but not their operators. A
recording of the capture has the operators, inputs, modules and lines of every node, and no times. Matched node by node,
the two show where the time of the graph goes. A capture that does not match is refused.

A joined trace has the host side of captures with the device side of replays, so that every joined event has its launch.
All analyses that attribute device time to operators, modules and lines work on it as on any other trace. Times on the
host are those of the capture; a call counts as often as its graph was launched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product

import msgspec
import numpy as np

from traceanalyzer.analyzers.launches.graph_join.choice import Choice, Offer, Rejections, choose, fits, joined
from traceanalyzer.analyzers.launches.graph_join.fitting import NO_FIT, REQUIRED
from traceanalyzer.analyzers.launches.graph_join.joined_tables import ReplayedCapture, ReplayedGraph, joined_context
from traceanalyzer.analyzers.launches.graph_join.sequences import (
    GraphReplays,
    Vocabulary,
    captured_graphs,
    nodes_of,
    replays_of,
)
from traceanalyzer.report.message import Message, Text
from traceanalyzer.structure.context import Context
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.table import I64

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
        of_file = _offers(context, replays, number, file, vocabulary)
        if isinstance(of_file, Message):
            reasons[number] = of_file
        elif isinstance(file.content, Trace):
            offers += of_file
            traces[number] = file.content
    choice = choose(context, replays, offers)
    used = {offers[number].capture for number in choice.offer if number is not None}
    captures = []
    for number, name in enumerate(names):
        if number in traces and number not in used:
            reasons[number] = _refusal(choice.rejections[number])
        captures.append(OfferedCapture(name, number in used, reasons.get(number)))
    used_traces = {number: trace for number, trace in traces.items() if number in used}
    return _joined(context, replays, offers, choice, tuple(captures), used_traces)


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
    trace = capture.trace
    graphs = nodes_of(capture, vocabulary)
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
    parts = [*joined(choice, replays, offers)]
    events = _all([rows for _, rows, _ in parts])
    calls = _all([rows for _, _, rows in parts])
    result = _result(context, replays, len(parts), events, captures)
    if not len(events):
        return Join(result, None)
    offer = np.array([number for number, _, _ in parts], np.int64)
    capture_of = np.array([one.capture for one in offers], np.int64)
    capture = np.repeat(capture_of[offer], [len(rows) for _, rows, _ in parts])
    launches = np.bincount(offer, minlength=len(offers)).tolist()
    replayed = {}
    for number, trace in sorted(traces.items()):
        replayed[number] = ReplayedCapture(trace, list(_replayed_graphs(offers, launches, number)))
    return Join(result, joined_context(context, replayed, events, capture, calls))


def _result(
    context: Context, replays: GraphReplays, launches: int, events: I64, captures: tuple[OfferedCapture, ...]
) -> GraphJoin:
    """How much was joined: launches of graphs, and events that they ran."""
    dur = context.trace.device.dur_ns
    joined_ns = int(dur[events].sum())
    graph_ns = int(dur[replays.rows].sum())
    return GraphJoin(
        joined_share=joined_ns / graph_ns if graph_ns else None,
        joined_ns=joined_ns,
        graph_ns=graph_ns,
        launches=len(replays.launch),
        joined_launches=launches,
        kernels=len(replays.rows),
        joined_kernels=len(events),
        captures=captures,
    )


def _replayed_graphs(offers: Sequence[Offer], launches: Sequence[int], capture: int) -> Iterator[ReplayedGraph]:
    """The graphs of a capture that were launched."""
    for offer, count in zip(offers, launches, strict=True):
        if offer.capture == capture and count:
            yield ReplayedGraph(offer.nodes.graph, count)


def _all(parts: list[I64]) -> I64:
    return np.concatenate([*parts, np.zeros(0, np.int64)]).astype(np.int64)
