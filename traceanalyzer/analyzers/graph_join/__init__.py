"""Which operators, modules and lines does the work of graphs belong to, if their capture was recorded, too?

Nobody launches the kernels of a graph one by one, so a trace of its replay has their times and nothing else. A
recording of the capture has the operators, inputs, modules and lines of every node, and no times. Matched node by node,
the two tell where the time of the graph goes. A capture that does not agree is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from traceanalyzer.analyzers.context import Context
from traceanalyzer.analyzers.graph_join.captured import captured_graphs
from traceanalyzer.analyzers.graph_join.choice import Choice, Offer, Seen, choose, joined
from traceanalyzer.analyzers.graph_join.fitting import REQUIRED
from traceanalyzer.analyzers.graph_join.joined_trace import ReplayedCapture, ReplayedGraph, joined_context
from traceanalyzer.analyzers.graph_join.sequences import Replays, Vocabulary, nodes_of, replays_of
from traceanalyzer.report.message import Message, Text
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.table import I64

_NO_GRAPHS = Text("capture-no-replay", "the trace launches no graphs")
_NO_CAPTURE = Text("capture-none", "it holds no capture of a graph from begin to end")
_RANK = Text(
    "capture-rank",
    "it was recorded on rank {capture:count} of {capture_world:count}, and the trace on rank {replay:count} of "
    "{replay_world:count}",
)
_SIZE = Text(
    "capture-size",
    "its largest graph that agrees was captured for a batch of {size:count}, and the trace has a batch of "
    "{batch:count}",
)
_AMBIGUOUS = Text("capture-ambiguous", "several of its graphs agree, and nothing tells which of them ran")
_BEATEN = Text("capture-beaten", "another capture agrees better, or is of a batch that fits better")
_DISAGREES = Text(
    "capture-disagrees",
    "its best graph agrees with {share:share} of what ran, and {required:share} are required",
)


class OfferedCapture(msgspec.Struct, frozen=True):
    """A recording that may hold the capture of the graphs."""

    name: str
    """Name of its file."""
    accepted: bool
    """Whether graphs of it were joined."""
    reason: Message | None
    """Why none were; null where some were."""


class GraphJoin(msgspec.Struct, frozen=True):
    """How much of the work of graphs was joined with the operators of a capture."""

    joined_share: float | None
    """Share of the device time of graphs that was joined (0 to 1); null where that time is 0."""
    joined_ns: int
    """Device time in ns of the kernels, copies and fills of graphs that were joined."""
    graph_ns: int
    """Device time in ns of all kernels, copies and fills that launches of graphs put on devices."""
    launches: int
    """Number of launches of graphs that put something on a device."""
    joined_launches: int
    """Number of them that were joined with a captured graph."""
    kernels: int
    """Number of kernels, copies and fills that launches of graphs put on devices."""
    joined_kernels: int
    """Number of them that were joined with a call of a capture."""
    captures: tuple[OfferedCapture, ...]
    """The captures on offer, in the order in which they were named or found."""


@dataclass(frozen=True)
class CaptureFile:
    """A recording on offer."""

    name: str
    content: Trace | Message
    """What is in it, or why it cannot be used."""


@dataclass(frozen=True)
class Join:
    """What was joined."""

    result: GraphJoin
    context: Context | None
    """The joined events under the calls of their captures; None where nothing was joined."""


def join(context: Context, files: Sequence[CaptureFile]) -> Join:
    """Join what graphs ran in a recording with the captures on offer.

    Args:
        context: The recording of the replays; only launches in its chosen steps count.
        files: The captures.
    """
    vocabulary = Vocabulary()
    replays = _in_scope(context, replays_of(context, vocabulary))
    reasons: dict[int, Message] = {}
    contexts: dict[int, Context] = {}
    offers: list[Offer] = []
    for number, file in enumerate(files):
        if isinstance(file.content, Message):
            reasons[number] = file.content
            continue
        contexts[number] = Context(file.content)
        if (reason := _unfit(context, replays, contexts[number])) is not None:
            reasons[number] = reason
            continue
        offers += _offers(number, contexts[number], vocabulary)
    choice = choose(context, replays, offers, vocabulary)
    used = {offers[number].capture for number in choice.offer if number is not None}
    for number in contexts.keys() - used - reasons.keys():
        reasons[number] = _refusal(choice.seen[number])
    captures = tuple(OfferedCapture(f.name, number in used, reasons.get(number)) for number, f in enumerate(files))
    return _joined(context, replays, offers, choice, captures, {number: contexts[number].trace for number in used})


def _in_scope(context: Context, replays: Replays) -> Replays:
    """The launches in the chosen steps."""
    kept = np.flatnonzero(context.in_scope(context.trace.launches.start_ns[replays.launch]))
    if len(kept) == len(replays.launch):
        return replays
    events = [replays.events(number) for number in kept.tolist()]
    rows = np.concatenate([*events, np.zeros(0, np.int64)])
    bounds = np.concatenate(([0], np.cumsum([len(part) for part in events]))).astype(np.int64)
    return Replays(replays.launch[kept], rows, bounds, replays.sequence[kept], replays.distinct)


def _unfit(context: Context, replays: Replays, capture: Context) -> Message | None:
    """Why a recording cannot be the capture of these replays, whatever its graphs are."""
    if not len(replays.launch):
        return _NO_GRAPHS()
    if not captured_graphs(capture):
        return _NO_CAPTURE()
    here, there = capture.trace.info, context.trace.info
    both = (here.rank, here.world_size or 1), (there.rank, there.world_size or 1)
    if None not in (here.rank, there.rank) and both[0] != both[1]:
        return _RANK(capture=both[0][0], capture_world=both[0][1], replay=both[1][0], replay_world=both[1][1])
    return None


def _offers(number: int, capture: Context, vocabulary: Vocabulary) -> list[Offer]:
    graphs = captured_graphs(capture)
    return [
        Offer(number, at, nodes_of(capture, graph, vocabulary), capture.trace.names, capture.trace.shapes)
        for at, graph in enumerate(graphs)
    ]


def _refusal(seen: Seen) -> Message:
    """Why nothing of a capture was joined."""
    if seen.was_beaten:
        return _BEATEN()
    if seen.was_ambiguous:
        return _AMBIGUOUS()
    if seen.too_small is not None:
        return _SIZE(size=seen.too_small[0], batch=seen.too_small[1])
    return _DISAGREES(share=seen.best, required=REQUIRED)


def _joined(
    context: Context,
    replays: Replays,
    offers: Sequence[Offer],
    choice: Choice,
    captures: tuple[OfferedCapture, ...],
    traces: dict[int, Trace],
) -> Join:
    found = [*joined(choice, replays, offers)]
    events, calls = (_all([part[column] for part in found]) for column in (1, 2))
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
