"""Which sequences of kernels does the device repeat, as the layers of a model do, and what is one of them?

Nothing but the order of kernels is needed, so this answers where no operator, module or mark does: in replays of
graphs. A sequence lies within one launch of a graph, or in one step outside of graphs, on one stream.

The period of a repetition is the distance between two calls of a kernel that each layer calls once. The most frequent
distances are tried; where a sequence equals itself shifted by one of them, it repeats. This takes time that grows with
the number of kernels and with nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from traceanalyzer.analyzers.kernels import counted
from traceanalyzer.knowledge.kernel_classes import kernel_class
from traceanalyzer.structure.analysis import KERNELS, Analysis
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.graph_events import of_graphs
from traceanalyzer.structure.repeated_calls import stretches
from traceanalyzer.structure.sums import group, sum_by
from traceanalyzer.trace.table import I64, Bool
from traceanalyzer.trace.tree import NO_PARENT

LEAST_REPETITIONS = 3
"""A sequence counts if it comes this often in a row (own choice: twice is often chance)."""
LEAST_KERNELS = 2
"""Least number of kernels of a sequence (own choice: a separate stream may have two collectives per layer)."""
MOST_KERNELS = 1024
"""Kernels of a sequence at most (own choice: layers of today have less than 100)."""
_NEIGHBOURS = 4
"""Calls of a kernel within one layer that still give away its period."""
_PERIODS = 16
"""Distances that are tried (own choice; a model has few kinds of layers)."""
_SHOWN = 20
_WORTH = 0.01
"""Share of kernel time from which on a repeated sequence is worth a row (own choice)."""
U64 = np.ndarray[tuple[Any, ...], np.dtype[np.uint64]]
_ODD, _OTHER_ODD = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


class LayerKernel(msgspec.Struct, frozen=True):
    """One kernel of a repeated sequence."""

    name: str
    """Name of the kernel as recorded."""
    kernel_class: str
    """What it does, one of the classes of `kernel_classes`."""
    total_ns: int
    """Sum of its durations in ns over all repetitions."""


class RepeatedLayer(msgspec.Struct, frozen=True):
    """One sequence of kernels, and how often it comes."""

    repetitions: int
    """How often the sequence comes in all."""
    repetitions_in_a_row: int
    """How often it comes one after another, in the longest such run."""
    runs: int
    """Number of such runs: launches of a graph, or steps, or parts of them."""
    kernels: tuple[LayerKernel, ...]
    """The kernels of the sequence in the order of the stream."""
    total_ns: int
    """Sum of the durations in ns of the kernels of all repetitions."""
    mean_ns: float
    """Mean sum of the durations in ns of the kernels of one repetition."""
    share: float | None
    """Share of the time of all kernels (0 to 1); null if that is 0."""
    in_graph: bool
    """Whether launches of graphs run it."""
    start_ns: int
    """Start of the first kernel of the first repetition, in ns since the first event of the trace."""


class RepeatedLayers(msgspec.Struct, frozen=True):
    """Sequences of kernels that repeat; no kernel is in two of them."""

    rows: tuple[RepeatedLayer, ...]
    """The sequences with at least 1 % of kernel time, the most time first, at most 20."""
    kernel_ns: int
    """Time of all kernels in ns, overlap counted twice."""
    repeated_ns: int
    """Part of the kernel time in ns in the sequences of `rows`."""


class _Order(msgspec.Struct, frozen=True):
    """Kernels in the order of their streams."""

    event: I64
    """Row of each kernel in the device table."""
    name: I64
    """Code of each kernel's name."""
    sequence: I64
    """Number of the sequence that it lies in: a launch of a graph or a step, on a stream."""
    dur: I64


class _Runs(msgspec.Struct, frozen=True):
    """Places where a sequence repeats, as columns."""

    start: I64
    """Position of the first kernel."""
    period: I64
    count: I64
    """Number of whole repetitions."""

    @property
    def end(self) -> I64:
        """Position after the last kernel of the last whole repetition."""
        return self.start + self.period * self.count

    def take(self, kept: Bool | I64) -> _Runs:
        """Keep some of the runs."""
        return _Runs(self.start[kept], self.period[kept], self.count[kept])


def analyze(context: Context) -> RepeatedLayers:
    """Find sequences of kernels that repeat at least three times in a row."""
    order = _order(context)
    total = int(order.dur.sum())
    found = [_row(context, order, runs, total) for runs in _chosen(order)]
    worth = [row for row in found if row.total_ns >= _WORTH * total]
    rows = sorted(worth, key=lambda row: (-row.total_ns, row.start_ns))[:_SHOWN]
    return RepeatedLayers(tuple(rows), total, sum(row.total_ns for row in rows))


def _order(context: Context) -> _Order:
    device = context.trace.device
    events = counted(context)
    start = device.start_ns[events]
    graph = np.where(context.cached(of_graphs)[events], context.links.launch[events], NO_PARENT)
    step = np.searchsorted(context.steps.start_ns, start, side="right")
    step = np.where(graph == NO_PARENT, step, 0)
    keys = (graph, step, device.device[events], device.stream[events])
    sequence = group(*keys)[1] if len(events) else np.zeros(0, np.int64)
    order = np.lexsort((start, sequence))
    events = events[order]
    return _Order(events, device.name[events].astype(np.int64), sequence[order], device.dur_ns[events])


def _chosen(order: _Order) -> list[_Runs]:
    """Runs of the patterns that are kept: each takes the kernels that no earlier one has.

    Time times the logarithm of the repetitions ranks them, so that the layers of a model come before its steps.
    """
    found = [_runs(order, period) for period in _periods(order)]
    if not found:
        return []
    runs = _Runs(*(np.concatenate([getattr(run, f) for run in found]) for f in ("start", "period", "count")))
    if not len(runs.start):
        return []
    pattern = _patterns(order, runs)
    free = np.ones(len(order.event), np.bool_)
    chosen = []
    for number in _heaviest(order, runs, pattern).tolist():
        of_pattern = _apart(_trimmed(free, runs.take(pattern == number)))
        if len(of_pattern.start):
            free[_positions(of_pattern)] = False
            chosen.append(of_pattern)
    return chosen


def _heaviest(order: _Order, runs: _Runs, pattern: I64) -> I64:
    """The patterns with the most weight, of equal ones the shortest."""
    until = np.concatenate(([0], np.cumsum(order.dur)))
    time = until[runs.end] - until[runs.start]
    count = int(pattern.max()) + 1
    weight = sum_by(pattern, time, count) * np.log2(sum_by(pattern, runs.count, count))
    period = np.zeros(count, np.int64)
    period[pattern] = runs.period
    return np.lexsort((period, -weight))[: 4 * _SHOWN]


def _trimmed(free: Bool, runs: _Runs) -> _Runs:
    """The part of each run without kernels that are already used: the longer of its two ends, in whole repetitions."""
    taken = np.flatnonzero(~free)
    first = np.append(taken, len(free))[np.searchsorted(taken, runs.start)]
    last = np.append(taken, -1)[np.searchsorted(taken, runs.end) - 1]
    head = (np.minimum(runs.end, first) - runs.start) // runs.period
    tail_start = np.maximum(runs.start, last + 1)
    tail = (runs.end - tail_start) // runs.period
    count = np.maximum(head, tail)
    left = _Runs(np.where(head >= tail, runs.start, tail_start), runs.period, count)
    return left.take(count >= LEAST_REPETITIONS)


def _apart(runs: _Runs) -> _Runs:
    """Consecutive runs of one pattern, without those that begin before the previous one has ended."""
    order = np.argsort(runs.start, kind="stable")
    sorted_runs = runs.take(order)
    ended = np.concatenate(([0], np.maximum.accumulate(sorted_runs.end)[:-1]))
    return sorted_runs.take(sorted_runs.start >= ended)


def _positions(runs: _Runs) -> I64:
    """Positions of all kernels of some runs."""
    length = runs.period * runs.count
    offset = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
    positions: I64 = np.repeat(runs.start, length) + offset
    return positions


def _periods(order: _Order) -> list[int]:
    """The most frequent distances, by kernel time, between two calls of one kernel in one sequence."""
    same = np.lexsort((order.name, order.sequence))  # stable: then in the order of the stream
    weight = np.zeros(MOST_KERNELS + 1)
    for neighbour in range(1, _NEIGHBOURS + 1):
        first = same[:-neighbour]
        second = same[neighbour:]
        distance = second - first
        near = (order.name[first] == order.name[second]) & (order.sequence[first] == order.sequence[second])
        rows = np.flatnonzero(near & (distance >= LEAST_KERNELS) & (distance <= MOST_KERNELS))
        weight += np.bincount(distance[rows], weights=order.dur[second[rows]] + 1, minlength=MOST_KERNELS + 1)
    best = np.argsort(-weight, kind="stable")[:_PERIODS]
    return sorted(int(period) for period in best if weight[period] > 0)


def _runs(order: _Order, period: int) -> _Runs:
    """Where kernels repeat at this distance, at least three times."""
    name, sequence = order.name, order.sequence
    equal = (name[period:] == name[:-period]) & (sequence[period:] == sequence[:-period])
    start, end = stretches(equal)
    count = (end - start) // period + 1
    long_enough = count >= LEAST_REPETITIONS
    found = _Runs(start[long_enough], np.full(int(long_enough.sum()), period), count[long_enough])
    return found.take(~_is_single(order, found))


def _is_single(order: _Order, runs: _Runs) -> Bool:
    """Whether all kernels of a run have one name: that is a loop, and no layer."""
    changes = np.concatenate(([0], np.cumsum(np.diff(order.name, prepend=order.name[:1]) != 0)))
    single: Bool = changes[runs.start + runs.period] == changes[runs.start + 1]
    return single


def _patterns(order: _Order, runs: _Runs) -> I64:
    """A number for each run that runs share whose kernels follow each other in the same order, wherever they begin.

    It comes from the sum, over one period, of a hash of each kernel and the two after it.
    """
    with np.errstate(over="ignore"):  # a hash: products wrap around
        mixed: U64 = (order.name.astype(np.uint64) + np.uint64(1)) * _ODD
        mixed ^= mixed >> np.uint64(31)
        following: U64 = np.concatenate((mixed, mixed[:2]))
        three: U64 = (following[:-2] + following[1:-1] * _ODD + following[2:] * _OTHER_ODD) * _ODD
        three ^= three >> np.uint64(29)
        sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(three * _OTHER_ODD)))
        content = sums[runs.start + runs.period] - sums[runs.start]
    return group(np.unique(content, return_inverse=True)[1], runs.period)[1]


def _row(context: Context, order: _Order, runs: _Runs, total: int) -> RepeatedLayer:
    trace = context.trace
    repetitions = int(runs.count.sum())
    kernels = tuple(_kernels(context, order, runs))
    time = sum(kernel.total_ns for kernel in kernels)
    return RepeatedLayer(
        repetitions=repetitions,
        repetitions_in_a_row=int(runs.count.max()),
        runs=len(runs.start),
        kernels=kernels,
        total_ns=time,
        mean_ns=time / repetitions,
        share=time / total if total else None,
        in_graph=bool(context.cached(of_graphs)[order.event[runs.start]].all()),
        start_ns=int(trace.device.start_ns[order.event[runs.start]].min()),
    )


def _kernels(context: Context, order: _Order, runs: _Runs) -> Iterator[LayerKernel]:
    """The kernels of one repetition, each with its time in all of them."""
    period = int(runs.period[0])
    positions = _positions(runs)
    begins = np.repeat(runs.start + _shifts(order, runs), runs.period * runs.count)
    place = (positions - begins) % period
    times = sum_by(place, order.dur[positions], period)
    first = int(runs.start[0])
    for code, time in zip(order.name[first : first + period].tolist(), times.tolist(), strict=True):
        name = context.trace.names[code]
        yield LayerKernel(name, kernel_class(name).value, time)


def _shifts(order: _Order, runs: _Runs) -> I64:
    """After how many kernels of each run the sequence begins as in the first run."""
    period = int(runs.period[0])
    first = int(runs.start[0])
    wanted = order.name[first : first + period]
    known: dict[bytes, int] = {}
    shifts = []
    for start in runs.start.tolist():
        own = order.name[start : start + period]
        key = own.tobytes()
        if key not in known:
            twice = np.concatenate((own, own))
            candidates = np.flatnonzero(own == wanted[0]).tolist()
            known[key] = next((c for c in candidates if np.array_equal(twice[c : c + period], wanted)), 0)
        shifts.append(known[key])
    return np.array(shifts, np.int64)


ANALYSES = (Analysis(270, "repeated_layers", RepeatedLayers, analyze, needs=(KERNELS,)),)
