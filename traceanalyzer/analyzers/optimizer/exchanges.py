"""What does a training on several ranks exchange too often, and how long does it wait as a stage of a pipeline?

Only the last backward pass before an update has to exchange its gradients. In a pipeline, parts of a batch
(micro-batches) pass through stages on several ranks. A stage receives activations, computes a forward pass, sends its
result, and does the same with gradients. So between messages (`c10d::send`, `c10d::recv_`) lie whole passes: each
backward pass evaluates what one forward pass between two messages has created, and the passes come in the same order
(GPipe, 1F1B). Exchanges within a layer (ring attention) cut forward passes into pieces, which one backward pass
evaluates from the last to the first; exchanges of embeddings are all-to-all.
In a full pipeline only a fast stage waits; each one does before its first forward and its first backward pass (the
stages before it fill), and in backward passes after its last forward pass (they drain).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
import numpy as np

from traceanalyzer.analyzers.optimizer.gradient_reductions import Reductions, reductions
from traceanalyzer.knowledge.collectives import operation
from traceanalyzer.structure import recorded_collectives
from traceanalyzer.structure.autograd import AutogradGraph, backward, graph, optimizer_starts
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import Occurrences, event_set
from traceanalyzer.structure.module_calls import owners
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.structure.sums import members
from traceanalyzer.structure.typical import mean
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, UNKNOWN, Bool, take_or
from traceanalyzer.trace.tree import NO_PARENT

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
    reduces: Reductions
    rows: I64
    """Their all-reduces, positions in `reduces`."""


@event_set
def early_at(context: Context) -> Iterator[Occurrences]:
    """When exchanges run that come too early."""
    early = context.cached(_early)
    if early is not None:
        occurrences = Occurrences.on_device if early.reduces.on_device else Occurrences.of_host
        yield occurrences(context, "communication", early.reduces.row[early.rows])


def accumulation(context: Context) -> Accumulation | None:
    """Updates with several passes before them; None if there are none."""
    early = context.cached(_early)
    if early is None:
        return None
    exchanges = early.exchanges
    reduces = early.reduces
    return Accumulation(
        updates=early.updates,
        passes=early.passes,
        early_exchanges=len(exchanges),
        collectives=sum(exchange.collectives for exchange in exchanges),
        time_ns=sum(exchange.time_ns or 0 for exchange in exchanges) if reduces.is_timed else None,
        exposed_ns=reduces.exposed(early.rows) if reduces.is_timed else None,
        examples=tuple(sorted(exchanges, key=lambda exchange: (-(exchange.time_ns or 0), exchange.start_ns))[:_SHOWN]),
        is_on_host=reduces.is_timed and not reduces.on_device,
    )


def _early(context: Context) -> _Early | None:
    """Exchanges before the last pass of an update; None without updates that have several passes."""
    several, update = _several_passes(context)
    if not len(several):
        return None
    reduces = reductions(context)
    start = context.cached(backward).start_ns[several]
    first = np.searchsorted(reduces.called, start)  # they are in the order of calls: those of a pass are a range
    after = np.searchsorted(reduces.called, _until(context)[several])
    count = after - first
    time_until = np.concatenate(([0], np.cumsum(reduces.dur_ns)))
    time = time_until[after] - time_until[first]
    early = _as_much_as_last(update, count, time if reduces.on_device else None)
    times = time[early].tolist() if reduces.is_timed else [None] * len(early)
    exchanges = list(map(Exchange, start[early].tolist(), count[early].tolist(), times))
    rows = [np.arange(first[number], after[number]) for number in early.tolist()]
    return _Early(len(distinct(update)), len(several), exchanges, reduces, _joined(rows))


def _several_passes(context: Context) -> tuple[I64, I64]:
    """Passes before updates that have several, and the update after each."""
    passes = context.cached(backward)
    steps = context.cached(optimizer_starts)[0]
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


def _joined(parts: list[I64]) -> I64:
    return np.concatenate([np.empty(0, np.int64), *parts])


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

    @property
    def waiting_ns_per_step(self) -> float:
        """The waiting of a step."""
        return mean(self.waiting_ns, self.steps)


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
    start = stage.waits.start
    end = stage.waits.start + stage.waits.dur
    fills = stage.leads_to > 0
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
    waits = stage.waits
    rows = np.flatnonzero(stage.leads_to > 0)
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


class _Marks(msgspec.Struct, frozen=True):
    """What tells passes, messages and updates apart, as points in time."""

    start_ns: I64
    kind: I64
    number: I64
    """Number of a function of the graph, UNKNOWN for messages and updates."""
    receives: Bool

    @classmethod
    def of(cls, kind: int, start_ns: I64, number: I64 | None = None, *, receives: bool = False) -> _Marks:
        """Marks of one kind."""
        count = len(start_ns)
        numbers = np.full(count, UNKNOWN, np.int64) if number is None else number.astype(np.int64)
        return cls(start_ns, np.full(count, kind), numbers, np.full(count, receives))


def _segments(context: Context) -> _Segments | None:
    """Runs of what is alike; None without messages or updates."""
    received = _rows(context, _RECEIVES)
    sent = _rows(context, _SENDS)
    updates = optimizer_starts(context)[0]
    if not len(received) or not len(updates):
        return None
    marks = _marks(context, received, sent, updates)
    begins = np.append(True, (marks.kind[1:] != marks.kind[:-1]) | (marks.kind[1:] == _UPDATE))
    first = np.flatnonzero(begins)
    return _Segments(
        kind=marks.kind[first],
        start_ns=marks.start_ns[first],
        least=np.minimum.reduceat(np.where(marks.number == UNKNOWN, _LATER, marks.number), first),
        most=np.maximum.reduceat(marks.number, first),
        receives=np.logical_or.reduceat(marks.receives, first),
        update=np.searchsorted(updates, marks.start_ns[first]),
    )


def _marks(context: Context, received: I64, sent: I64, updates: I64) -> _Marks:
    """All marks in the order of time."""
    table, tree = context.trace.host, context.host.tree
    created = _created(context)
    of_module = context.cached(owners)
    above = np.append(of_module.evaluation, NO_PARENT)[tree.parent]
    evaluated = np.flatnonzero(of_module.is_evaluation & (above == NO_PARENT))  # without those of recomputation
    parts = (
        _Marks.of(_FORWARD, created.start_ns, created.sequence),
        _Marks.of(_BACKWARD, tree.start_ns[evaluated], table.sequence[context.host.row[evaluated]]),
        _Marks.of(_MESSAGE, table.start_ns[sent]),
        _Marks.of(_MESSAGE, table.start_ns[received], receives=True),
        _Marks.of(_UPDATE, updates),
    )
    columns = [np.concatenate(column) for column in zip(*map(msgspec.structs.astuple, parts), strict=True)]
    order = np.argsort(columns[0], kind="stable")
    return _Marks(*(column[order] for column in columns))


def _created(context: Context) -> AutogradGraph:
    """Functions that forward passes created. Receiving takes a number of its own, but is no part of a pass."""
    found = context.cached(graph)
    names = context.trace.names
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
        return _messages_of_kernels(context, kernels)
    host = context.trace.host
    receives = context.trace.names.where(lambda name: operation(name) == "recv")[host.name]
    rows = np.flatnonzero(context.cached(recorded_collectives.host_ranges) & receives)
    place = host.thread[rows].astype(np.int64)
    start = host.start_ns[rows]
    return _Waits(place, start, start, host.dur_ns[rows], is_on_host=True)


def _messages_of_kernels(context: Context, kernels: Bool) -> _Waits:
    collectives = recorded_collectives.on_device(context, kernels)
    described = [context.trace.collectives[row].name for row in collectives.described.tolist()]
    names = zip(described, collectives.names, strict=True)
    operations = [operation(description) or operation(name) for description, name in names]
    kept = np.array([known in _BETWEEN_RANKS for known in operations], np.bool_)
    place = context.trace.device.device[np.flatnonzero(kernels)[kept]].astype(np.int64)
    start = collectives.start[kept]
    return _Waits(place, collectives.called[kept], start, collectives.dur[kept], is_on_host=False)


def _examples(stage: _Stage, fills: Bool) -> tuple[PipelineWait, ...]:
    """The runs of messages in which the stage waits longest."""
    waits = []
    start = stage.waits.start[fills]
    end = start + stage.waits.dur[fills]
    for run, rows in members(stage.run[fills]):
        waiting = Intervals.union(start[rows], end[rows]) - stage.computing
        waits.append(PipelineWait(_PLACES[stage.place[run]], int(stage.runs.start_ns[run]), waiting.length))
    return tuple(sorted(waits, key=lambda wait: (-wait.time_ns, wait.start_ns))[:_SHOWN])
