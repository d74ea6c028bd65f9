"""Which captured graph is it that each launch of a graph replayed?

A graph that fits must have been captured for the batch that the replay's mark names, or for more: servers pad a batch
to the smallest size that was captured. The graph that agrees most is chosen, of equal ones that of the smallest size.
Where several graphs of one size fit alike (the layers of a model that was captured piece by piece), launches follow the
order of the captures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from traceanalyzer.analyzers.context import Context
from traceanalyzer.analyzers.graph_join.fitting import NO_FIT, Fit, fit
from traceanalyzer.analyzers.graph_join.sequences import Nodes, Replay, Replays, Vocabulary
from traceanalyzer.knowledge.frameworks import StepMark, step_mark
from traceanalyzer.trace.strings import Strings
from traceanalyzer.trace.table import I64
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT, Tree


@dataclass(frozen=True, eq=False)
class Offer:
    """A graph on offer: one that a capture on offer recorded."""

    capture: int
    """Number of the capture."""
    number: int
    """Number of the graph within the capture."""
    nodes: Nodes
    names: Strings
    """Names of the capture."""
    shapes: Strings
    """Input shapes of the capture."""

    @property
    def size(self) -> int | None:
        """The batch that the graph was captured for, by its mark."""
        mark = self.nodes.graph.mark
        return None if mark is None else (mark.requests if mark.requests is not None else mark.tokens)

    @property
    def family(self) -> tuple[int, str]:
        """What graphs that were captured one after another for one batch have in common."""
        return self.capture, self.nodes.graph.label


@dataclass
class Seen:
    """What was seen of one capture while graphs were chosen."""

    best: float = 0.0
    """Best agreement of one of its graphs with something that ran."""
    too_small: tuple[int, int] | None = None
    """Size of a graph that agrees, and the batch that it cannot hold."""
    was_ambiguous: bool = False
    """Whether several of its graphs fit, and nothing tells which ran."""
    was_beaten: bool = False
    """Whether one of its graphs fits, and another capture was chosen."""


@dataclass(frozen=True)
class Choice:
    """The graph of each launch that was recognized."""

    offer: tuple[int | None, ...]
    """For each launch, the number of its graph among the offers."""
    fits: Mapping[tuple[int, int], Fit]
    """How offers fit distinct sequences, by both numbers."""
    seen: Mapping[int, Seen] = field(default_factory=dict)


def choose(context: Context, replays: Replays, offers: Sequence[Offer], vocabulary: Vocabulary) -> Choice:
    """Choose a graph for each launch.

    Args:
        context: The recording of the replays.
        replays: Its launches of graphs.
        offers: The graphs on offer, capture by capture in the order of their begin.
        vocabulary: Names of kernels.
    """
    fits = {
        (number, sequence): _cheap(offer, replay, vocabulary)
        for sequence, replay in enumerate(replays.distinct)
        for number, offer in enumerate(offers)
    }
    seen = {offer.capture: Seen() for offer in offers}
    for (number, _), found in fits.items():
        seen[offers[number].capture].best = max(seen[offers[number].capture].best, found.agreement)
    batches = _batches(context, replays.launch)
    groups: dict[tuple[int, StepMark | None], tuple[int, ...]] = {}
    candidates: list[tuple[int, ...]] = []
    for sequence, batch in zip(replays.sequence.tolist(), batches, strict=True):
        if (sequence, batch) not in groups:
            groups[sequence, batch] = _candidates(sequence, batch, offers, fits, seen)
        candidates.append(groups[sequence, batch])
    return Choice(tuple(_in_order_of_capture(candidates, offers, seen)), fits, seen)


def _cheap(offer: Offer, replay: Replay, vocabulary: Vocabulary) -> Fit:
    """The fit of a graph, without looking closer at one of quite another length."""
    here, there = int(offer.nodes.is_kernel.sum()), int(replay.is_kernel.sum())
    if abs(here - there) > max(1, 0.1 * max(here, there)):
        return Fit(0.0, NO_FIT.partner)
    return fit(offer.nodes, replay, offer.names, vocabulary)


def _batches(context: Context, launches: I64) -> list[StepMark | None]:
    """What the innermost mark around each launch says of its batch."""
    trace = context.trace
    host = trace.host
    rows = np.flatnonzero(host.category == Category.ANNOTATION)
    rows = rows[trace.names.where(_is_step)[host.name[rows]]]
    tree, order = Tree.build(host.thread[rows], host.start_ns[rows], host.dur_ns[rows])
    name = host.name[rows[order]]
    at = tree.innermost(trace.launches.thread[launches], trace.launches.start_ns[launches])
    marks = {code: step_mark(trace.names[code]) for code in np.unique(name).tolist()}
    return [marks[int(name[position])] if position != NO_PARENT else None for position in at.tolist()]


def _is_step(name: str) -> bool:
    mark = step_mark(name)
    return mark is not None and mark.phase != "capture"


def _batch(offer: Offer, batch: StepMark | None) -> int | None:
    """The batch in the unit that the graph was captured for: requests or tokens."""
    mark = offer.nodes.graph.mark
    if mark is None or batch is None:
        return None
    return batch.requests if mark.requests is not None else batch.tokens


def _candidates(
    sequence: int,
    batch: StepMark | None,
    offers: Sequence[Offer],
    fits: Mapping[tuple[int, int], Fit],
    seen: Mapping[int, Seen],
) -> tuple[int, ...]:
    """The graphs that may be what ran, all of one size and equally good; none where nothing tells which."""
    fitting = [number for number in range(len(offers)) if fits[number, sequence].is_accepted]
    holding = []
    for number in fitting:
        size, needed = offers[number].size, _batch(offers[number], batch)
        if size is not None and needed is not None and size < needed:
            seen[offers[number].capture].too_small = (size, needed)
        else:
            holding.append(number)
    if not holding:
        return ()
    best = max(fits[number, sequence].agreement for number in holding)
    best_ones = [number for number in holding if fits[number, sequence].agreement == best]
    sizes = {offers[number].size for number in best_ones}
    if len(sizes) > 1:
        if None in sizes or any(_batch(offers[number], batch) is None for number in best_ones):
            best_ones = _interchangeable(best_ones, offers)
        else:
            smallest = min(size for size in sizes if size is not None)
            best_ones = [number for number in best_ones if offers[number].size == smallest]
    if not best_ones:
        for number in holding:
            seen[offers[number].capture].was_ambiguous = True
        return ()
    first = offers[best_ones[0]]
    chosen = tuple(number for number in best_ones if offers[number].family == first.family)
    for number in set(holding) - set(chosen):
        seen[offers[number].capture].was_beaten = True
    return chosen


def _interchangeable(numbers: list[int], offers: Sequence[Offer]) -> list[int]:
    """The first graph, if all of them have the same callers with the same inputs; else none."""
    first = _content(offers[numbers[0]])
    return numbers[:1] if all(_content(offers[number]) == first for number in numbers[1:]) else []


def _content(offer: Offer) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Callers of the nodes by name, and the shapes of their inputs."""
    callers, shapes = offer.nodes.caller.tolist(), offer.nodes.shapes.tolist()
    return (
        tuple(offer.names[code] if code >= 0 else "" for code in callers),
        tuple(offer.shapes[code] if code >= 0 else "" for code in shapes),
    )


def _in_order_of_capture(
    candidates: Sequence[tuple[int, ...]], offers: Sequence[Offer], seen: Mapping[int, Seen]
) -> list[int | None]:
    """One graph for each launch: where several fit, the one that was captured after that of the launch before."""
    result: list[int | None] = [None] * len(candidates)
    by_family: dict[tuple[int, str], list[int]] = {}
    for launch, numbers in enumerate(candidates):
        if numbers:
            by_family.setdefault(offers[numbers[0]].family, []).append(launch)
    sizes = Counter(offer.family for offer in offers)
    firsts = {offer.family: number for number, offer in reversed([*enumerate(offers)])}
    for family, launches in by_family.items():
        places = [[number - firsts[family] for number in candidates[launch]] for launch in launches]
        every = [firsts[family] + place for place in range(sizes[family])]
        found = _walk(places, sizes[family], is_safe=len(launches) == len(every) or bool(_interchangeable(every, offers)))
        if found is None:
            found = _same_for_all(candidates, launches, offers, firsts[family])
        if found is None:
            seen[family[0]].was_ambiguous = True
            continue
        for launch, place in zip(launches, found, strict=True):
            result[launch] = firsts[family] + place
    return result


def _walk(places: list[list[int]], size: int, *, is_safe: bool) -> list[int] | None:
    """One place for each launch, going around in the order of the captures from the first launch that is certain.

    Args:
        places: Those that each launch may have, ascending.
        size: Number of places.
        is_safe: The first launch may count as certain if the launches are whole rounds: there is one for each place,
            or all places have the same operators.

    Returns:
        The places; None if nothing tells where the launches begin.
    """
    certain = next((at for at, allowed in enumerate(places) if len(allowed) == 1), None)
    if certain is None:
        if len(places) % size or not is_safe:
            return None
        certain, places = 0, [places[0][:1], *places[1:]]
    result = [0] * len(places)
    result[certain] = places[certain][0]
    for at in range(certain + 1, len(places)):
        before = result[at - 1]
        result[at] = min(places[at], key=lambda place: (place - before - 1) % size)
    for at in range(certain - 1, -1, -1):
        after = result[at + 1]
        result[at] = min(places[at], key=lambda place: (after - place - 1) % size)
    return result


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


def joined(choice: Choice, replays: Replays, offers: Sequence[Offer]) -> Iterator[tuple[int, I64, I64]]:
    """For each recognized launch its offer, the rows of its events that have a node, and the rows of their calls."""
    for launch, number in enumerate(choice.offer):
        if number is not None:
            partner = choice.fits[number, int(replays.sequence[launch])].partner
            matched = np.flatnonzero(partner >= 0)
            yield number, replays.events(launch)[matched], offers[number].nodes.graph.launch[partner[matched]]
