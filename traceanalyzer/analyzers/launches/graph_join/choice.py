"""Which captured graph did each launch replay?

A matching graph must have been captured for at least the batch in the replay's mark, because servers pad a batch to the
smallest captured size that is large enough. The graph with the best match is chosen, and the smallest of equally good
ones. If several graphs of one size match equally well (the layers of a model that was captured piece by piece),
launches follow the order of the captures.

The size is at least the batch in the mark of the step, and if it is larger, an operator after the launch has an input
of that size: servers continue with the output of the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from traceanalyzer.analyzers.launches.graph_join.fitting import NO_FIT, Fit, fit
from traceanalyzer.analyzers.launches.graph_join.sequences import GraphReplay, GraphReplays, Marks, Nodes, Vocabulary
from traceanalyzer.knowledge.framework_marks import StepMark
from traceanalyzer.knowledge.frameworks import step_mark
from traceanalyzer.knowledge.inputs import Inputs
from traceanalyzer.structure.context import Context
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.strings import Strings
from traceanalyzer.trace.table import I64, take_or
from traceanalyzer.trace.tree import NO_PARENT

_NO_MARK = -1


class Batch(msgspec.Struct, frozen=True):
    """Evidence in a recording about the batch of one launch."""

    mark: StepMark
    """The mark of its step."""
    sizes: frozenset[int]
    """First dimensions of the inputs of two dimensions and more, of operators between the launch and the end of the
    step."""

    def is_held_by(self, size: int, needed: int) -> bool:
        """Whether a graph that was captured for a batch of one size may have computed a batch of another."""
        if size <= needed:
            return size == needed
        return size in self.sizes or needed not in self.sizes


class StepMarks(Marks):
    """The marks of a framework's steps around launches."""

    def __init__(self, context: Context) -> None:
        super().__init__(context.trace, _is_step)

    def codes(self, launches: I64) -> list[int]:
        """For each launch the code of the name of the innermost mark around it, or -1."""
        codes: list[int] = take_or(self.name, self.around(launches), np.int32(_NO_MARK)).tolist()
        return codes

    def batch(self, launch: int) -> Batch | None:
        """The evidence about the batch of a launch; None without a mark."""
        position = int(self.around(np.array([launch]))[0])
        if position == NO_PARENT:
            return None
        mark = step_mark(self.trace.names[self.name[position]])
        return None if mark is None else Batch(mark, self._sizes(launch, int(self.tree.end_ns[position])))

    def _sizes(self, launch: int, end: int) -> frozenset[int]:
        host, calls = self.trace.host, self.trace.launches
        first, last = np.searchsorted(host.start_ns, (calls.start_ns[launch], end))
        after = host.thread[first:last] == calls.thread[launch]
        codes = distinct(host.shapes[first:last][after])
        every = (dims for code in codes.tolist() for dims in Inputs(self.trace.shapes[code]).dims or ())
        return frozenset(dims[0] for dims in every if isinstance(dims, tuple) and len(dims) > 1)


def _is_step(name: str) -> bool:
    mark = step_mark(name)
    return mark is not None and mark.phase != "capture"


class Offer(msgspec.Struct, frozen=True, eq=False):
    """A candidate graph of a candidate capture."""

    capture: int
    """Number of the capture."""
    nodes: Nodes
    names: Strings
    """Names of the capture."""
    shapes: Strings
    """Input shapes of the capture."""
    fits: tuple[Fit, ...]
    """How it matches each distinct sequence."""

    @property
    def size(self) -> int | None:
        """The batch that the graph was captured for, by its mark."""
        mark = self.nodes.graph.mark
        return None if mark is None else (mark.requests if mark.requests is not None else mark.tokens)

    @property
    def family(self) -> tuple[int, str]:
        """Data shared by graphs that were captured one after another for one batch."""
        return self.capture, self.nodes.graph.label


class Rejections(msgspec.Struct):
    """Why graphs of one capture that fit were not chosen."""

    wrong_size: tuple[int, int] | None = None
    """Batch of a graph that fits, and the batch that ran."""
    was_ambiguous: bool = False
    """Whether several of its graphs match, so that it is unknown which one ran."""


class Choice(msgspec.Struct, frozen=True):
    """The graph of each launch that was recognized."""

    offer: tuple[int | None, ...]
    """For each launch, the number of its graph among the candidates."""
    rejections: Mapping[int, Rejections]


def choose(context: Context, replays: GraphReplays, offers: Sequence[Offer]) -> Choice:
    """Choose a graph for each launch.

    Args:
        context: The recording of the replays.
        replays: Its launches of graphs.
        offers: The candidate graphs, capture by capture in the order of their begin.
    """
    rejections = {offer.capture: Rejections() for offer in offers}
    marks = StepMarks(context)
    groups: dict[tuple[int, int], tuple[int, ...]] = {}
    candidates: list[tuple[int, ...]] = []
    for launch, (sequence, code) in enumerate(zip(replays.sequence.tolist(), marks.codes(replays.launch), strict=True)):
        if (sequence, code) not in groups:
            fitting = {at: offer.fits[sequence] for at, offer in enumerate(offers) if offer.fits[sequence].is_accepted}
            groups[sequence, code] = _candidates(fitting, marks.batch(int(replays.launch[launch])), offers, rejections)
        candidates.append(groups[sequence, code])
    return Choice(tuple(_in_order_of_capture(candidates, offers, rejections)), rejections)


def fits(
    capture: Trace, graphs: Sequence[Nodes], replays: GraphReplays, vocabulary: Vocabulary
) -> list[tuple[Fit, ...]]:
    """How each graph of a capture matches each distinct sequence that graphs ran."""
    known: dict[tuple[bytes, ...], tuple[Fit, ...]] = {}
    for nodes in graphs:
        if nodes.content not in known:
            known[nodes.content] = tuple(_fit(capture, nodes, replay, vocabulary) for replay in replays.distinct)
    return [known[nodes.content] for nodes in graphs]


def _fit(capture: Trace, nodes: Nodes, replay: GraphReplay, vocabulary: Vocabulary) -> Fit:
    """The fit of a graph; graphs of a very different length are not compared."""
    here, there = nodes.kernels, replay.kernels
    if abs(here - there) > max(1, 0.1 * max(here, there)):
        return NO_FIT
    return fit(nodes, replay, capture.names, vocabulary)


def _candidates(
    fitting: Mapping[int, Fit], batch: Batch | None, offers: Sequence[Offer], rejections: Mapping[int, Rejections]
) -> tuple[int, ...]:
    """The graphs that may have run, all of one size and equally good; empty if it is unknown which one ran.

    Args:
        fitting: The fits of the matching candidates, by number.
        batch: The evidence about the batch.
        offers: The candidate graphs.
        rejections: Why graphs of each capture were not chosen, to be completed.
    """
    large_enough = _large_enough(fitting, batch, offers, rejections)
    if not large_enough:
        return ()
    agreement = max(fitting[number].agreement for number in large_enough)
    best = [number for number in large_enough if fitting[number].agreement == agreement]
    of_one_size = _of_one_size(best, batch, offers)
    if not of_one_size:
        for number in large_enough:
            rejections[offers[number].capture].was_ambiguous = True
        return ()
    family = offers[of_one_size[0]].family
    return tuple(number for number in of_one_size if offers[number].family == family)


def _large_enough(
    fitting: Iterable[int], batch: Batch | None, offers: Sequence[Offer], rejections: Mapping[int, Rejections]
) -> list[int]:
    """Graphs that may have computed the batch, and those of which no size is known."""
    large_enough = []
    for number in fitting:
        size = offers[number].size
        needed = _needed(offers[number], batch)
        if batch is None or size is None or needed is None or batch.is_held_by(size, needed):
            large_enough.append(number)
        else:
            rejections[offers[number].capture].wrong_size = (size, needed)
    return large_enough


def _of_one_size(numbers: list[int], batch: Batch | None, offers: Sequence[Offer]) -> list[int]:
    """The smallest of some graphs; where sizes are unknown, the first if it does not matter which one it is."""
    sizes = {offers[number].size for number in numbers}
    if len(sizes) == 1:
        return numbers
    if None in sizes or any(_needed(offers[number], batch) is None for number in numbers):
        return _interchangeable(numbers, offers)
    smallest = min(size for size in sizes if size is not None)
    return [number for number in numbers if offers[number].size == smallest]


def _needed(offer: Offer, batch: Batch | None) -> int | None:
    """The batch in the unit for which the graph was captured: requests or tokens."""
    mark = offer.nodes.graph.mark
    if mark is None or batch is None:
        return None
    return batch.mark.requests if mark.requests is not None else batch.mark.tokens


def _interchangeable(numbers: list[int], offers: Sequence[Offer]) -> list[int]:
    """The first graph, if all graphs have the same callers with the same inputs; else None."""
    first = _content(offers[numbers[0]])
    return numbers[:1] if all(_content(offers[number]) == first for number in numbers[1:]) else []


def _content(offer: Offer) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Callers of the nodes by name, and the shapes of their inputs."""
    callers = offer.nodes.caller.tolist()
    shapes = offer.nodes.shapes.tolist()
    return (
        tuple(offer.names[code] if code >= 0 else "" for code in callers),
        tuple(offer.shapes[code] if code >= 0 else "" for code in shapes),
    )


def _in_order_of_capture(
    candidates: Sequence[tuple[int, ...]], offers: Sequence[Offer], rejections: Mapping[int, Rejections]
) -> list[int | None]:
    """One graph for each launch; of several, the one that was captured after the graph of the previous launch."""
    result: list[int | None] = [None] * len(candidates)
    by_family: dict[tuple[int, str], list[int]] = {}
    for launch, numbers in enumerate(candidates):
        if numbers:
            by_family.setdefault(offers[numbers[0]].family, []).append(launch)
    for family, launches in by_family.items():
        members = [number for number, offer in enumerate(offers) if offer.family == family]
        graphs = list(range(members[0], members[0] + len(members)))
        walk = _walk_of_family(candidates, launches, offers, graphs)
        if walk is None:
            rejections[family[0]].was_ambiguous = True
            continue
        for launch, place in zip(launches, walk, strict=True):
            result[launch] = graphs[0] + place
    return result


def _walk_of_family(
    candidates: Sequence[tuple[int, ...]], launches: Sequence[int], offers: Sequence[Offer], graphs: list[int]
) -> list[int] | None:
    """One place among the graphs of a family, which follow each other, for each of some launches; None if unknown."""
    first = graphs[0]
    places = [[number - first for number in candidates[launch]] for launch in launches]
    is_safe = len(launches) == len(graphs) or bool(_interchangeable(graphs, offers))
    walk = _walk(places, len(graphs), is_safe=is_safe)
    return _same_for_all(candidates, launches, offers, first) if walk is None else walk


def _walk(places: list[list[int]], size: int, *, is_safe: bool) -> list[int] | None:
    """One place for each launch, cyclically in the order of the captures from the first launch that is certain.

    Args:
        places: The possible places of each launch, ascending.
        size: Number of places.
        is_safe: Whether the first of several possible starts may be used if the launches are whole rounds, because
        there is one for each place, or all places have the same operators.

    Returns:
        The places; None if it is unknown where the launches begin.
    """
    certain = next((at for at, allowed in enumerate(places) if len(allowed) == 1), None)
    if certain is None:
        starts = [start for start in places[0] if _goes_around(places, start, size)]
        if not starts or (len(starts) > 1 and (len(places) % size or not is_safe)):
            return None
        certain = 0
        places = [starts[:1], *places[1:]]
    result = [0] * len(places)
    result[certain] = places[certain][0]
    for at in range(certain + 1, len(places)):
        before = result[at - 1]
        result[at] = min(places[at], key=lambda place: (place - before - 1) % size)
    for at in range(certain - 1, -1, -1):
        after = result[at + 1]
        result[at] = min(places[at], key=lambda place: (after - place - 1) % size)
    return result


def _goes_around(places: list[list[int]], start: int, size: int) -> bool:
    """Whether the launches can have all places one after another, beginning at a start."""
    return all((start + at) % size in allowed for at, allowed in enumerate(places))


def _same_for_all(
    candidates: Sequence[tuple[int, ...]], launches: Sequence[int], offers: Sequence[Offer], first: int
) -> list[int] | None:
    """The first candidate of each launch, if its candidates are interchangeable; None if some are not."""
    result = []
    for launch in launches:
        chosen = _interchangeable(list(candidates[launch]), offers)
        if not chosen:
            return None
        result.append(chosen[0] - first)
    return result


def joined(choice: Choice, replays: GraphReplays, offers: Sequence[Offer]) -> Iterator[tuple[int, I64, I64]]:
    """For each recognized launch, its candidate, the rows of its events with a node, and the rows of their calls."""
    for launch, number in enumerate(choice.offer):
        if number is not None:
            partner = offers[number].fits[int(replays.sequence[launch])].partner
            matched = np.flatnonzero(partner >= 0)
            yield number, replays.events(launch)[matched], offers[number].nodes.graph.launch[partner[matched]]
