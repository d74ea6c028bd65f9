"""What does a training on several ranks exchange too often, and how long does it wait as a stage of a pipeline?

Only the last backward pass before an update has to exchange its gradients.

In a pipeline, parts of a batch (micro-batches) pass through stages on several ranks. A stage receives activations,
computes a forward pass, sends its result, and does the same with gradients. So between messages (`c10d::send`,
`c10d::recv_`) lie whole passes: each backward pass evaluates what one forward pass between two messages has created,
and the passes come in the same order (GPipe, 1F1B). Exchanges within a layer (ring attention) cut forward passes into
pieces, which one backward pass evaluates from the last to the first; exchanges of embeddings are all-to-all.

A stage waits in a full pipeline only if it is faster than others, but always before its first forward pass (the stages
before it fill), before its first backward pass, and in backward passes after its last forward pass (they drain).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
import numpy as np

from traceanalyzer.knowledge.collectives import operation
from traceanalyzer.structure import recorded_collectives
from traceanalyzer.structure.autograd import AutogradGraph, backward, graph, optimizer_starts
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import Occurrences, event_set
from traceanalyzer.structure.module_calls import owners
from traceanalyzer.structure.recorded_collectives import communication_kernels
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.structure.sums import members
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, UNKNOWN, Bool, take_or
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

_ALL_REDUCE = re.compile(r"all_?reduce", re.IGNORECASE)
_SAME = 0.5
"""An exchange that takes half as long as that of the last pass, or has half as many collectives, is one of all
gradients (own choice: statistics and losses that are exchanged beside them are far smaller)."""
_SHOWN = 5
_RECEIVES = re.compile(r"c10d::recv(_any_source)?_$")
_SENDS = re.compile(r"c10d::send$")
_BETWEEN_RANKS = ("send", "recv", "send_recv")
_FORWARD, _BACKWARD, _MESSAGE, _UPDATE = range(4)
_PLACES = ("", "first-forward", "first-backward", "last-backwards")
_LATER = np.iinfo(np.int64).max


class Exchange(msgspec.Struct, frozen=True):
    """A backward pass that exchanges gradients before it has to."""

    start_ns: int
    """Start of the backward pass in ns since the first event."""
    collectives: int
    """Number of collectives that the backward pass calls."""
    time_ns: int | None
    """Time of their kernels on the device, or of their threads on the CPU, in ns; null where neither was recorded."""


class Accumulation(msgspec.Struct, frozen=True):
    """Updates from several backward passes."""

    updates: int
    """Number of updates with two or more backward passes before them."""
    passes: int
    """Number of backward passes before these updates."""
    early_exchanges: int
    """Number of these passes, other than the last before an update, that exchange about as much as the last one."""
    collectives: int
    """Number of all-reduces that these early exchanges call."""
    time_ns: int | None
    """Time of their kernels on the device, or of their threads on the CPU, in ns; null where neither was recorded."""
    exposed_ns: int | None
    """Part of that time in ns in which no other kernel runs, or on the CPU no operator of another thread; null where
    the time is unknown."""
    examples: tuple[Exchange, ...]
    """The early exchanges that take longest, at most five, the longest first."""
    is_on_host: bool = False
    """Whether the times are those of threads on the CPU."""


class _Early(msgspec.Struct, frozen=True):
    """Backward passes that exchange gradients too early; positions among all passes with others before an update."""

    updates: int
    passes: int
    exchanges: list[Exchange]
    reduces: _Reduces
    rows: I64
    """Their all-reduces, positions in `reduces`."""


@event_set
def early_at(context: Context) -> Iterator[Occurrences]:
    """When exchanges run that come too early."""
    found = context.cached(_early)
    if found is not None:
        rows = found.reduces.row[found.rows]
        of = Occurrences.on_device if found.reduces.on_device else Occurrences.of_host
        yield of(context, "communication", rows)


def accumulation(context: Context) -> Accumulation | None:
    """Updates with several passes before them; None if there are none."""
    early = context.cached(_early)
    if early is None:
        return None
    exchanges, found = early.exchanges, early.reduces
    return Accumulation(
        updates=early.updates,
        passes=early.passes,
        early_exchanges=len(exchanges),
        collectives=sum(exchange.collectives for exchange in exchanges),
        time_ns=sum(exchange.time_ns or 0 for exchange in exchanges) if found.is_timed else None,
        exposed_ns=found.exposed(early.rows) if found.is_timed else None,
        examples=tuple(sorted(exchanges, key=lambda exchange: (-(exchange.time_ns or 0), exchange.start_ns))[:_SHOWN]),
        is_on_host=found.is_timed and not found.on_device,
    )


def _early(context: Context) -> _Early | None:
    """Exchanges before the last pass of an update; None without updates that have several passes."""
    several, update = _several_passes(context)
    if not len(several):
        return None
    reduces = _reduces(context)
    start = context.cached(backward).start_ns[several]
    first = np.searchsorted(reduces.called, start)  # they are in the order of calls: those of a pass are a range
    after = np.searchsorted(reduces.called, _until(context)[several])
    count = after - first
    time_until = np.concatenate(([0], np.cumsum(reduces.dur_ns)))
    time = time_until[after] - time_until[first]
    exchanges, rows = [], [np.empty(0, np.int64)]
    for number in _as_much_as_last(update, count, time if reduces.on_device else None).tolist():
        time_ns = int(time[number]) if reduces.is_timed else None
        exchanges.append(Exchange(int(start[number]), int(count[number]), time_ns))
        rows.append(np.arange(first[number], after[number]))
    return _Early(len(distinct(update)), len(several), exchanges, reduces, np.concatenate(rows))


def _several_passes(context: Context) -> tuple[I64, I64]:
    """Passes before updates that have several, and the update after each."""
    passes, steps = context.cached(backward), context.cached(optimizer_starts)[0]
    update = np.searchsorted(steps, passes.start_ns)
    counted = (update < len(steps)) & context.in_scope(passes.start_ns)
    updates, counts = np.unique(update[counted], return_counts=True)
    several = np.flatnonzero(counted & np.isin(update, updates[counts > 1]))
    return several, update[several]


def _as_much_as_last(update: I64, count: I64, time: I64 | None) -> I64:
    """Passes that exchange about as much as the last one before the same update.

    Args:
        update: The update after each pass, ascending.
        count: How many all-reduces each calls.
        time: How long these take; None where that tells nothing.
    """
    is_last = np.append(update[1:] != update[:-1], True)
    last = np.flatnonzero(is_last)[np.cumsum(is_last) - is_last]
    as_much = ~is_last & (count > 0) & (count >= _SAME * count[last])
    if time is not None:
        as_much &= time >= _SAME * time[last]
    return np.flatnonzero(as_much)


def _until(context: Context) -> I64:
    """For each pass, when the next pass or the next call of an optimizer begins: what it launched lies before."""
    passes = context.cached(backward)
    marks = np.sort(np.concatenate((passes.start_ns, *context.cached(optimizer_starts))))
    return take_or(marks, np.searchsorted(marks, passes.end_ns), np.iinfo(np.int64).max)


class _Reduces(msgspec.Struct, frozen=True):
    """All-reduces in the order in which they are called."""

    row: I64
    """Rows of the device table, or of the host table."""
    called: I64
    start_ns: I64
    dur_ns: I64
    others: Intervals
    """When the program computes."""
    on_device: bool
    is_timed: bool
    """Whether durations are those of the all-reduces, not of handing them over to a device that was not recorded."""

    def exposed(self, rows: I64) -> int:
        """Time in which some of them run and nothing computes."""
        start = self.start_ns[rows]
        return (Intervals.union(start, start + self.dur_ns[rows]) - self.others).length


def _reduces(context: Context) -> _Reduces:
    """Kernels that reduce; if there are none, host ranges."""
    trace = context.trace
    reduces = trace.names.where(lambda name: _ALL_REDUCE.search(name) is not None)
    device, launch = trace.device, context.links.launch
    communicates = communication_kernels(trace)
    kernels = np.flatnonzero(communicates & reduces[device.name] & (launch != NO_PARENT))
    if len(kernels):
        kernels = kernels[np.argsort(trace.launches.start_ns[launch[kernels]], kind="stable")]
        called = trace.launches.start_ns[launch[kernels]]
        computes = (device.category == Category.KERNEL) & ~communicates
        others = Intervals.union(device.start_ns[computes], device.end_ns[computes])
        start, dur = device.start_ns[kernels], device.dur_ns[kernels]
        return _Reduces(kernels, called, start, dur, others, on_device=True, is_timed=True)
    host = trace.host
    own = context.cached(recorded_collectives.host_ranges) & reduces[host.name]
    is_timed = bool(own.any())
    rows = np.flatnonzero(own if is_timed else (host.category == Category.ANNOTATION) & reduces[host.name])
    rows = rows[np.argsort(host.start_ns[rows], kind="stable")]
    start, others = host.start_ns[rows], context.cached(recorded_collectives.computing)
    return _Reduces(rows, start, start, host.dur_ns[rows], others, on_device=False, is_timed=is_timed)


class PipelineWait(msgspec.Struct, frozen=True):
    """Waiting between two passes of a stage."""

    place: str
    """`first-forward`, `first-backward` or `last-backwards`: the passes that come next."""
    start_ns: int
    """Start of the first message in ns since the first event."""
    time_ns: int
    """Time in ns in which messages are exchanged and nothing is computed."""


class Pipeline(msgspec.Struct, frozen=True):
    """A stage of a pipeline in the typical steps; times in ns are sums over them."""

    steps: int
    """Number of typical steps."""
    updates: int
    """Number of updates of the parameters in these steps."""
    micro_batches: int
    """Micro-batches before each update, the fewest."""
    is_between: bool
    """Whether the stage receives activations as well as gradients, so that there are stages before and after it."""
    waiting_ns: int
    """Waiting while the pipeline fills and drains: before the first forward and backward pass of an update, and in
    backward passes after the last forward pass, while messages are exchanged and nothing is computed."""
    other_ns: int
    """Time of other messages in which nothing is computed."""
    examples: tuple[PipelineWait, ...]
    """The longest of the waits, at most five, the longest first."""
    is_on_host: bool
    """Whether messages are those of a library on the CPU."""


class _Segments(msgspec.Struct, frozen=True):
    """Runs of functions of one forward or backward pass, of messages, or of updates, in the order of time."""

    kind: I64
    start_ns: I64
    least: I64
    """Of each run, the lowest number of a function of the graph."""
    most: I64
    receives: Bool
    """Whether something is received in a run of messages."""
    update: I64
    """Number of updates before."""

    def before(self, update: int) -> tuple[I64, I64, I64]:
        """The runs of forward passes, of backward passes and of messages between an update and the one before."""
        first, after = np.searchsorted(self.update, (update, update + 1))
        kind = self.kind[first:after]
        forward, backward, message = (first + np.flatnonzero(kind == own) for own in (_FORWARD, _BACKWARD, _MESSAGE))
        return forward, backward, message


class _Stage(msgspec.Struct, frozen=True):
    """The passes and messages of a stage in the typical steps."""

    runs: _Segments
    updates: I64
    batches: list[tuple[int, bool]]
    """Of each update the number of micro-batches, and whether it receives in both directions."""
    place: I64
    """For each run, where it leads to."""
    waits: _Waits
    run: I64
    """Of each wait."""
    leads_to: I64
    """For each wait the index in `_PLACES`, -1 where it is in no update."""
    computing: Intervals


def pipeline(context: Context) -> Pipeline | None:
    """The stage that the program is; None if it is none."""
    stage = context.cached(_stage)
    if stage is None:
        return None
    start, end, fills = stage.waits.start, stage.waits.start + stage.waits.dur, stage.leads_to > 0
    found = Intervals.union(start[fills], end[fills]) - stage.computing
    others = Intervals.union(start[stage.leads_to == 0], end[stage.leads_to == 0]) - stage.computing - found
    return Pipeline(
        steps=len(program_steps(context).typical),
        updates=len(stage.updates),
        micro_batches=min(count for count, _ in stage.batches),
        is_between=all(both for _, both in stage.batches),
        waiting_ns=found.length,
        other_ns=others.length,
        examples=_examples(stage, fills),
        is_on_host=stage.waits.is_on_host,
    )


@event_set
def bubbles_at(context: Context) -> Iterator[Occurrences]:
    """When a stage waits while the pipeline fills and drains."""
    stage = context.cached(_stage)
    if stage is None:
        return
    waits, rows = stage.waits, np.flatnonzero(stage.leads_to > 0)
    for place, own in members(waits.place[rows]):
        start = waits.start[rows[own]]
        times = Intervals.union(start, start + waits.dur[rows[own]]) - stage.computing
        kind = "host" if waits.is_on_host else "device"
        yield Occurrences(kind, "communication", np.full(len(times), place), times.start, times.end)


def _stage(context: Context) -> _Stage | None:
    runs = _segments(context)
    updates = np.flatnonzero(program_steps(context).typical.at(optimizer_starts(context)[0]) >= 0)
    if runs is None or not len(updates):
        return None
    batches = [_micro_batches(runs, update) for update in updates.tolist()]
    known = [each for each in batches if each is not None]
    if len(known) < len(batches):
        return None
    place = _places(runs, updates)
    waits = _waits(context)
    run = np.searchsorted(runs.start_ns, waits.called, side="right") - 1
    counted = (run >= 0) & (np.isin(take_or(runs.update, run, -1), updates))
    if waits.is_on_host:
        computing = context.cached(recorded_collectives.computing)
    else:
        computing = recorded_collectives.times_of(context, np.ones(len(context.trace.device), np.bool_))[1]
    leads_to = np.where(counted, take_or(place, run, 0), -1)
    return _Stage(runs, updates, known, place, waits, run, leads_to, computing)


def _segments(context: Context) -> _Segments | None:
    """Runs of what is alike; None without messages or updates."""
    received, sent = (_rows(context, pattern) for pattern in (_RECEIVES, _SENDS))
    updates = optimizer_starts(context)[0]
    if not len(received) or not len(updates):
        return None
    table, tree, created = context.trace.host, context.host.tree, _created(context)
    found = context.cached(owners)
    above = np.append(found.evaluation, NO_PARENT)[tree.parent]
    evaluated = np.flatnonzero(found.is_evaluation & (above == NO_PARENT))  # without those of recomputation
    start = (created.start_ns, tree.start_ns[evaluated], table.start_ns[sent], table.start_ns[received], updates)
    kinds = (_FORWARD, _BACKWARD, _MESSAGE, _MESSAGE, _UPDATE)
    kind = np.repeat(np.array(kinds), [len(times) for times in start])
    number = np.full(len(kind), UNKNOWN, np.int64)
    number[: len(created.sequence)] = created.sequence
    number[kind == _BACKWARD] = table.sequence[context.host.row[evaluated]]
    is_received = np.repeat(np.array([False, False, False, True, False]), [len(times) for times in start])
    order = np.argsort(np.concatenate(start), kind="stable")
    time, kind, number, is_received = np.concatenate(start)[order], kind[order], number[order], is_received[order]
    first = np.flatnonzero(np.append(True, (kind[1:] != kind[:-1]) | (kind[1:] == _UPDATE)))
    return _Segments(
        kind=kind[first],
        start_ns=time[first],
        least=np.minimum.reduceat(np.where(number == UNKNOWN, _LATER, number), first),
        most=np.maximum.reduceat(number, first),
        receives=np.logical_or.reduceat(is_received, first),
        update=np.searchsorted(updates, time[first]),
    )


def _created(context: Context) -> AutogradGraph:
    """Functions that forward passes created. Receiving takes a number of its own, but is no part of a pass."""
    found, names = context.cached(graph), context.trace.names
    messages = names.where(lambda name: name.startswith(recorded_collectives.HOST_NAMES))
    kept = ~messages[context.host.name[found.node]]
    return AutogradGraph(found.node[kept], found.start_ns[kept], found.sequence[kept])


def _rows(context: Context, pattern: re.Pattern[str]) -> I64:
    """Host events of some names."""
    named = context.trace.names.where(lambda name: pattern.match(name) is not None)
    return np.flatnonzero(named[context.trace.host.name])


def _micro_batches(runs: _Segments, update: int) -> tuple[int, bool] | None:
    """Number of micro-batches before an update, and whether it receives in both directions; None if it is no stage."""
    forward, backward, message = runs.before(update)
    messages = int(runs.receives[message].sum())
    if len(backward) < 2 or not len(forward) or messages not in (len(backward), 2 * len(backward)):
        return None
    made = np.searchsorted(runs.least[forward], runs.least[backward], side="right") - 1
    whole = (made >= 0) & (runs.most[backward] <= runs.most[forward][made]) & (runs.most[backward] != UNKNOWN)
    if not whole.all() or (np.diff(made) <= 0).any() or (np.diff(runs.least[forward]) <= 0).any():
        return None
    return len(backward), messages > len(backward)


def _places(runs: _Segments, updates: I64) -> I64:
    """For each run, which place of an update it leads to: the index in `_PLACES`, 0 for none."""
    place = np.zeros(len(runs.kind), np.int64)
    for update in updates.tolist():
        forward, backward, message = runs.before(update)
        if backward[0] < forward[-1]:
            place[message[(message > forward[-1]) & (message < backward[-1])]] = _PLACES.index("last-backwards")
        place[message[message < forward[0]]] = _PLACES.index("first-forward")
        place[message[message == backward[0] - 1]] = _PLACES.index("first-backward")
    return place


class _Waits(msgspec.Struct, frozen=True):
    """Messages that hold the stage up."""

    place: I64
    """Device or thread of each."""
    called: I64
    start: I64
    dur: I64
    is_on_host: bool


def _waits(context: Context) -> _Waits:
    """Kernels that send and receive, else ranges of the CPU that receive."""
    kernels = context.cached(recorded_collectives.of_libraries)
    if kernels.any():
        found = recorded_collectives.on_device(context, kernels)
        described = [context.trace.collectives[row].name for row in found.described.tolist()]
        names = zip(described, found.names, strict=True)
        known = [operation(own) or operation(name) for own, name in names]
        kept = np.array([each in _BETWEEN_RANKS for each in known], np.bool_)
        place = context.trace.device.device[np.flatnonzero(kernels)[kept]].astype(np.int64)
        return _Waits(place, found.called[kept], found.start[kept], found.dur[kept], is_on_host=False)
    host = context.trace.host
    receives = context.trace.names.where(lambda name: operation(name) == "recv")[host.name]
    rows = np.flatnonzero(context.cached(recorded_collectives.host_ranges) & receives)
    place = host.thread[rows].astype(np.int64)
    return _Waits(place, host.start_ns[rows], host.start_ns[rows], host.dur_ns[rows], is_on_host=True)


def _examples(stage: _Stage, fills: Bool) -> tuple[PipelineWait, ...]:
    """The runs of messages in which the stage waits longest."""
    made = []
    start, end = stage.waits.start[fills], (stage.waits.start + stage.waits.dur)[fills]
    for each, rows in members(stage.run[fills]):
        own = Intervals.union(start[rows], end[rows]) - stage.computing
        made.append(PipelineWait(_PLACES[stage.place[each]], int(stage.runs.start_ns[each]), own.length))
    return tuple(sorted(made, key=lambda wait: (-wait.time_ns, wait.start_ns))[:_SHOWN])
