"""Which operators, modules and lines does the work of graphs belong to, if their capture was recorded, too?

The kernels of a graph are not launched one by one, so a trace of its replay has their times but not their operators. A
recording of the capture has the operators, inputs, modules and lines of every node, and no times. Matched node by node,
the two show where the time of the graph goes. A capture that does not match is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product

import msgspec
import numpy as np

from traceanalyzer.analyzers import modules, operators
from traceanalyzer.analyzers.launches.graph_join.choice import Choice, Offer, Rejections, choose, fits, joined
from traceanalyzer.analyzers.launches.graph_join.fitting import NO_FIT, REQUIRED
from traceanalyzer.analyzers.launches.graph_join.joined_trace import ReplayedCapture, ReplayedGraph, joined_context
from traceanalyzer.analyzers.launches.graph_join.sequences import (
    GraphReplays,
    Vocabulary,
    captured_graphs,
    nodes_of,
    replays_of,
)
from traceanalyzer.analyzers.modules import python_lines
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


class JoinedOperator(msgspec.Struct, frozen=True):
    """All calls of one operator in captured graphs, once for each launch of their graph."""

    name: str
    """Name of the operator in the capture."""
    calls: int
    """Number of calls, once for each launch of the graph."""
    device_self_ns: int
    """Device time in ns of its own kernels, copies and fills in all replays, each in full."""
    device_total_ns: int
    """Device time in ns of its own and of those of the operators that it calls, each in full."""


class JoinedOperatorByShape(msgspec.Struct, frozen=True):
    """All calls of one operator in captured graphs with the same input shapes and types."""

    name: str
    """Name of the operator in the capture."""
    input_shapes: str
    """Input shapes in the capture, as JSON; empty where they were not recorded."""
    input_types: str
    """Input types in the capture, as JSON; empty where they were not recorded."""
    calls: int
    """Number of calls, once for each launch of the graph."""
    device_self_ns: int
    """Device time in ns of its own kernels, copies and fills in all replays, each in full."""
    device_total_ns: int
    """Device time in ns of its own and of those of the operators that it calls, each in full."""


class JoinedOperators(msgspec.Struct, frozen=True):
    """Operators of captured graphs by name."""

    rows: tuple[JoinedOperator, ...]
    """One row per operator that put something on the device, the most device self time first."""
    device_ns: int
    """Device time in ns of everything that was joined."""
    unattributed_ns: int
    """Part of it in ns that no operator of the capture launched."""


class JoinedOperatorsByShape(msgspec.Struct, frozen=True):
    """Operators of captured graphs by name, input shapes and input types."""

    rows: tuple[JoinedOperatorByShape, ...]
    """One row per operator, input shapes and input types, in the same order as by name."""


class JoinedModule(msgspec.Struct, frozen=True):
    """All calls of one module, or of all modules of a class, in captured graphs."""

    name: str
    """Class and number of the module as the profiler names it, `Linear_0`; of a class without the number."""
    calls: int
    """Number of forward calls, once for each launch of the graph."""
    device_self_ns: int
    """Device time in ns of what the calls launched, each in full, without the modules inside."""
    device_total_ns: int
    """Device time in ns of what the calls launched, each in full, with the modules inside."""


class JoinedPlace(msgspec.Struct, frozen=True):
    """All calls of one module in captured graphs from the same place."""

    name: str
    """Class and number of the module as the profiler names it."""
    parent: int | None
    """Row of the place around this one; null at the top."""
    depth: int
    """Number of places around this one; 0 at the top."""
    calls: int
    """Number of forward calls from this place, once for each launch of the graph."""
    device_self_ns: int
    """Device time in ns of what the calls launched, each in full, without the modules inside."""
    device_total_ns: int
    """Device time in ns of what the calls launched, each in full, with the modules inside."""


class JoinedModules(msgspec.Struct, frozen=True):
    """Modules of captured graphs."""

    rows: tuple[JoinedModule, ...]
    """One row per module, the most device self time first."""
    classes: tuple[JoinedModule, ...]
    """One row per class of modules, in the same order."""
    tree: tuple[JoinedPlace, ...]
    """Modules by the place from which they are called: parents before their children."""
    device_ns: int
    """Device time in ns of everything that was joined."""
    outside_device_ns: int
    """Part of it in ns that was launched outside of modules."""


class JoinedLine(msgspec.Struct, frozen=True):
    """All calls of one Python function in captured graphs."""

    name: str
    """The line as recorded, `file.py(123): function`."""
    calls: int
    """Number of calls, once for each launch of the graph."""
    device_self_ns: int
    """Device time in ns of the work launched while the function was the innermost one, each in full."""
    device_total_ns: int
    """Device time in ns of the work launched anywhere within its calls; each launch counts once."""


class JoinedLines(msgspec.Struct, frozen=True):
    """Lines of Python that launched what graphs replay."""

    rows: tuple[JoinedLine, ...]
    """Every line that launched something, the most device self time first."""
    rows_outside_torch: tuple[JoinedLine, ...]
    """Lines outside of the package torch: what torch's own functions launch belongs to the line that called them."""
    device_ns: int
    """Device time in ns of everything that was joined."""
    unattributed_device_ns: int
    """Part of it in ns that no recorded line launched."""


def by_name(context: Context) -> JoinedOperators:
    """The operators of a joined trace."""
    found = operators.by_name(context).rows
    rows = tuple(
        JoinedOperator(r.name, r.calls, r.device_self_ns, r.device_total_ns) for r in found if r.device_total_ns
    )
    whole = int(context.trace.device.dur_ns.sum())
    return JoinedOperators(rows, whole, whole - sum(row.device_self_ns for row in rows))


def by_shape(context: Context) -> JoinedOperatorsByShape:
    """The operators of a joined trace by their inputs."""
    found = operators.by_shape(context).rows
    return JoinedOperatorsByShape(
        tuple(
            JoinedOperatorByShape(r.name, r.input_shapes, r.input_types, r.calls, r.device_self_ns, r.device_total_ns)
            for r in found
            if r.device_total_ns
        )
    )


def by_module(context: Context) -> JoinedModules:
    """The modules of a joined trace."""
    found = modules.analyze(context)
    return JoinedModules(
        rows=tuple(_module(row) for row in found.rows if row.device_total_ns),
        classes=tuple(_module(row) for row in found.classes if row.device_total_ns),
        tree=tuple(
            JoinedPlace(p.name, p.parent, p.depth, p.calls, p.device_self_ns, p.device_total_ns) for p in found.tree
        ),
        device_ns=found.device_ns,
        outside_device_ns=found.outside_device_ns,
    )


def _module(row: modules.Module | modules.ModuleClass) -> JoinedModule:
    return JoinedModule(row.name, row.calls, row.device_self_ns, row.device_total_ns)


def by_line(context: Context) -> JoinedLines:
    """The lines of a joined trace."""
    found = python_lines.analyze(context)
    return JoinedLines(
        rows=_lines(found.rows),
        rows_outside_torch=_lines(found.rows_outside_torch),
        device_ns=found.device_ns,
        unattributed_device_ns=found.unattributed_device_ns,
    )


def _lines(rows: tuple[python_lines.Line, ...]) -> tuple[JoinedLine, ...]:
    return tuple(JoinedLine(r.name, r.calls, r.device_self_ns, r.device_total_ns) for r in rows if r.device_total_ns)


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
