"""Which decode steps of a server replay graphs, and of which size is the graph, compared to the requests in the step?

A server captures graphs for some sizes of batches. It pads a batch to the next size, and launches kernel by kernel what
is larger than all of them. Marks tell how many requests decode in a step. The size of the graph shows in two ways:

* the first operator after the launch that takes a matrix of floating-point numbers takes what the graph put out (the
  scores, or the hidden states), one row for each request that the graph computes;
* the same graph is replayed for steps of several batches, so that it is at least as large as the largest of them.
  Graphs are the same if their ids are, or the names, grids and blocks of all that runs in them.

Only steps of one token per request count: drafts that are verified are tokens as well, and marks do not show how many.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np

from traceanalyzer.knowledge.framework_marks import StepMark
from traceanalyzer.knowledge.inputs import Inputs
from traceanalyzer.report.message import Text
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.launch_calls import graph_calls
from traceanalyzer.structure.recording.left_out import OTHER_PHASE, UNKNOWN
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.structure.sums import count_by, group, members, most_by, sum_by
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, Bool, take_or
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

_COUNTS = frozenset({None, OTHER_PHASE, UNKNOWN})
"""Reasons for being unlike other steps that leave a step to its phase: no edge of the recording, no one-time event."""
_MOST = 0.5
"""Share of the kernels of a step that graphs launch where the step counts as replayed, and share of the kernels of such
a step that one without graphs must launch (own choice: attention between pieces of a graph is less)."""
_FLOATS = frozenset({"float", "c10::Half", "c10::BFloat16"})


class DecodeBatch(msgspec.Struct, frozen=True):
    """Decode steps of one batch whose work reaches the device in the same way."""

    requests: int
    """Requests that decode in each of these steps, by their marks."""
    in_graph: bool
    """Whether graphs launch most of the kernels; else no graph launches any."""
    size: int | None
    """Requests that the graph computes; null without a graph, and where nothing shows it."""
    is_exact: bool
    """Whether an operator shows the size; else another step of so many requests replays the same graph, which may be
    larger still."""
    steps: int
    """Number of these steps."""
    median_duration_ns: float
    """Median duration of these steps in ns."""
    median_idle_ns: float
    """Median time in ns of these steps in which no device works."""
    median_device_ns: float
    """Median time in ns of what a step launched on devices."""
    longest: str
    """Mark of the longest of these steps."""
    start_ns: int
    """Its start in ns since the first event."""


class DecodeGraphs(msgspec.Struct, frozen=True):
    """How decode steps reach the device."""

    batches: tuple[DecodeBatch, ...]
    """By number of requests; those in graphs first."""


class _Steps(msgspec.Struct, frozen=True):
    """The decode steps, one value per step."""

    names: tuple[str, ...]
    requests: I64
    is_token: Bool
    """Whether the mark says that each request computes one token."""
    start_ns: I64
    end_ns: I64
    mark_start_ns: I64
    mark_end_ns: I64

    def at(self, times: I64) -> I64:
        """The step whose mark contains each time; -1 for none."""
        step = np.searchsorted(self.mark_start_ns, times, side="right") - 1
        return np.where(times < take_or(self.mark_end_ns, step, 0), step, -1)


class _Work(msgspec.Struct, frozen=True):
    """What the steps launched, one value per step."""

    kernels: I64
    in_graphs: I64
    """Kernels that graphs launched."""
    device_ns: I64
    last_launch: I64
    """Row of the last launch of a graph; -1 for none."""
    graph: I64
    """Number of the graphs that the step replays; -1 where nothing distinguishes them."""


def analyze(context: Context) -> DecodeGraphs:
    """The decode steps by batch and by how their work reaches the device."""
    steps = context.cached(_decode_steps)
    launched = _work(context, steps)
    in_graph = (launched.in_graphs > 0) & (launched.in_graphs >= _MOST * launched.kernels)
    usual = float(np.median(launched.kernels[in_graph])) if in_graph.any() else 0.0
    has_no_graph = (launched.last_launch < 0) & (launched.kernels > 0)
    is_eager = has_no_graph & (launched.kernels >= _MOST * usual)
    exact = np.where(in_graph, _sizes(context, steps, launched.last_launch), -1)
    shared = _shared(np.where(in_graph, launched.graph, -1), steps.requests)
    sizes = _Sizes(in_graph, np.where(exact >= 0, exact, shared), exact >= 0)
    rows = np.flatnonzero(in_graph | is_eager)
    _, kind = group(~in_graph[rows], steps.requests[rows], sizes.size[rows], sizes.is_exact[rows])
    times = _step_times(context, steps, launched)
    return DecodeGraphs(tuple(_decode_batch(steps, rows[of_kind], sizes, times) for _, of_kind in members(kind)))


class _Sizes(NamedTuple):
    """Of each step: whether graphs launch it, and how many requests these are made for; -1 if unknown."""

    in_graph: Bool
    size: I64
    is_exact: Bool


class _StepTimes(NamedTuple):
    """Times of each step in ns."""

    duration: I64
    idle: I64
    device: I64


def _step_times(context: Context, steps: _Steps, launched: _Work) -> _StepTimes:
    device = context.trace.device
    duration = steps.end_ns - steps.start_ns
    busy = Intervals.union(device.start_ns, device.end_ns).within(steps.start_ns, steps.end_ns)
    return _StepTimes(duration, duration - busy, launched.device_ns)


def _decode_batch(steps: _Steps, rows: I64, sizes: _Sizes, times: _StepTimes) -> DecodeBatch:
    """Some steps of one batch and one way of launching, with the longest of them."""
    longest = int(rows[np.argmax(times.duration[rows])])
    size = int(sizes.size[longest])
    return DecodeBatch(
        requests=int(steps.requests[longest]),
        in_graph=bool(sizes.in_graph[longest]),
        size=size if size >= 0 else None,
        is_exact=bool(sizes.is_exact[longest]),
        steps=len(rows),
        median_duration_ns=float(np.median(times.duration[rows])),
        median_idle_ns=float(np.median(times.idle[rows])),
        median_device_ns=float(np.median(times.device[rows])),
        longest=steps.names[longest],
        start_ns=int(steps.start_ns[longest]),
    )


def _decode_steps(context: Context) -> _Steps:
    steps = program_steps(context)
    marks = [_requests(mark) for mark in steps.marks]
    kept = [row for row, requests in enumerate(marks) if requests and steps.reasons[row] in _COUNTS]
    rows = np.array(kept, np.int64)
    start, end = steps.mark_ns or (steps.start_ns, steps.end_ns)
    return _Steps(
        tuple(steps.names[row] for row in kept),
        np.array([marks[row] for row in kept], np.int64),
        np.array([getattr(steps.marks[row], "tokens", None) is not None for row in kept], np.bool_),
        steps.start_ns[rows],
        steps.end_ns[rows],
        start[rows],
        end[rows],
    )


def _requests(mark: StepMark | None) -> int:
    """The requests of a step that only decodes, as far as known one token for each; else 0."""
    if mark is None or mark.phase != "decode" or not mark.requests:
        return 0
    return mark.requests if mark.tokens in (None, mark.requests) else 0


def _work(context: Context, steps: _Steps) -> _Work:
    device = context.trace.device
    count = len(steps.names)
    step_of = np.append(steps.at(context.trace.launches.start_ns), -1)
    is_graph = np.append(graph_calls(context), False)
    launch = context.links.launch  # -1 is the entry after the last
    rows = np.flatnonzero((launch != NO_PARENT) & (step_of[launch] >= 0))
    step = step_of[launch[rows]]
    graph = is_graph[launch[rows]]
    kernel = device.category[rows] == Category.KERNEL
    calls = np.flatnonzero((step_of >= 0) & is_graph)
    last = np.full(count, -1, np.int64)
    np.maximum.at(last, step_of[calls], calls)
    return _Work(
        kernels=count_by(step[kernel], count),
        in_graphs=count_by(step[kernel & graph], count),
        device_ns=sum_by(step, device.dur_ns[rows], count),
        last_launch=last,
        graph=_graphs(context, rows[graph], step[graph], count),
    )


def _graphs(context: Context, rows: I64, step: I64, count: int) -> I64:
    """For each step a number of what its graphs run, equal for equal graphs; -1 where ids and grids are unknown."""
    device = context.trace.device
    kernels = device.category[rows] == Category.KERNEL
    rows = rows[kernels]
    step = step[kernels]
    ids = device.graph[rows]
    grid = device.grid[rows]
    if (ids >= 0).all():
        _, kind = group(ids, device.name[rows])
    else:
        _, kind = group(device.name[rows], grid, device.block[rows])
    # sums do not depend on the order, which changes from launch to launch if several streams run
    mixed = (kind.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio
    mixed = (mixed ^ (mixed >> np.uint64(29))) >> np.uint64(24)  # 40 bits: sums of millions stay exact
    events = count_by(step, count)
    _, graph = group(sum_by(step, mixed.astype(np.int64), count), events)
    is_known = (events > 0) & (events == count_by(step[(ids >= 0) | (grid > 0)], count))
    return np.where(is_known, graph, -1)


def _shared(graph: I64, requests: I64) -> I64:
    """The most requests of a step that replays the same graph, where that is more than the step's own; else -1."""
    shared = most_by(graph + 1, requests, int(graph.max(initial=-1)) + 2)[graph + 1]
    return np.where((graph >= 0) & (shared > requests), shared, -1)


def _sizes(context: Context, steps: _Steps, last: I64) -> I64:
    """Rows of the matrix that a step's last graph put out, if there are as many as requests or more; else -1."""
    host = context.trace.host
    step = steps.at(host.start_ns)
    rows = np.flatnonzero((step >= 0) & (host.category == Category.OPERATOR) & (host.shapes > 0))
    rows = rows[_follows(context, rows, last[step[rows]])]
    first, kind = group(host.shapes[rows], host.types[rows])
    matrix_rows = [_matrix_rows(Inputs.of(context.trace, row)) for row in rows[first].tolist()]
    size = np.array(matrix_rows, np.int64)[kind]
    rows = rows[size > 0]
    size = size[size > 0]
    steps_with_matrix, first = np.unique(step[rows], return_index=True)  # rows are in the order of time
    sizes = np.full(len(last), -1, np.int64)
    sizes[steps_with_matrix] = size[first]
    return np.where(steps.is_token & (sizes >= steps.requests), sizes, -1)


def _follows(context: Context, operators: I64, call: I64) -> Bool:
    """Which operators begin after a launch has returned, on its thread; -1 for no launch."""
    host, launches = context.trace.host, context.trace.launches
    is_after = host.start_ns[operators] >= take_or(launches.end_ns, call, 0)
    is_on_thread = host.thread[operators] == take_or(launches.thread, call, -1)
    follows: Bool = (call >= 0) & is_after & is_on_thread
    return follows


def _matrix_rows(given: Inputs) -> int:
    """Rows of an operator's first input, if that is a matrix of floating-point numbers; else 0."""
    shape = given.shape(0)
    return shape[0] if shape is not None and len(shape) == 2 and given.type(0) in _FLOATS else 0


_DECODE = Need(
    Text("skip-no-decode-steps", "no marks of a server show steps in which requests decode, one token per request"),
    lambda context: bool(context.cached(_decode_steps).names),
)
ANALYSES = (Analysis(160, "decode_graphs", DecodeGraphs, analyze, needs=(_DECODE,)),)
