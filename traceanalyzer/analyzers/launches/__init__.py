"""How does work get to the device: how long do kernels wait after their launch, and how full are the queues?

Launch delay is max(0, start of the kernel - start of its launch call - duration of the call). Kernels of graphs
are left out of every figure about single launches, because one call starts hundreds of them; `graphs` counts them.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np

from traceanalyzer.report.message import Text
from traceanalyzer.structure import launch_calls, unrecorded_work
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.context import Context, device_events_in_scope
from traceanalyzer.structure.launch_calls import GraphCapture, StreamQueue, graph_calls, graph_capture, held_up
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.structure.sums import count_by, group, members, rows_by, sum_by
from traceanalyzer.trace.distinct import distinct, ranked
from traceanalyzer.trace.table import F64, I64, Array
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

_GRAPHS = 10
"""Graphs in the result (own choice: servers have dozens, for each size of a batch)."""


class ShortKernels(msgspec.Struct, frozen=True):
    """Kernels that ran for less time than the call that launched them."""

    calls: int
    """Number of such kernels."""
    time_ns: int
    """Sum of the durations of these kernels in ns."""
    calls_share: float | None
    """Share of such kernels among those that are launched one by one (0 to 1); null if there are none."""
    time_share: float | None
    """Share of such kernels in the time of those that are launched one by one (0 to 1); null without such time."""


class Blocked(msgspec.Struct, frozen=True):
    """Calls that waited because the queue was full: launches of kernels and fills, copies within devices."""

    calls: int
    """Number of launch calls that waited."""
    time_ns: int
    """What these calls took beyond the median call, in ns."""
    full_length: int | None
    """Number of waiting launches from which on a queue counts as full; null where no call was blocked."""


class GraphCall(msgspec.Struct, frozen=True):
    """All launches of graphs through one function of the runtime."""

    name: str
    """Name of the runtime or driver function."""
    launches: int
    """Number of calls, each of which launches one graph."""
    kernels: int
    """Number of kernels that these calls started."""
    kernel_ns: int
    """Time of these kernels in ns."""


class GraphRepetitions(msgspec.Struct, frozen=True):
    """All launches of one graph: those with as many kernels that begin with the same one. Times are on the device."""

    first_kernel: str
    """Name of the first kernel that starts."""
    kernels: int
    """Number of kernels, copies and fills of one repetition."""
    repetitions: int
    """Number of launches that started something."""
    median_ns: float
    """Median time in ns from the first start to the last end of a repetition."""
    shortest_ns: int
    """Shortest such time in ns."""
    longest_ns: int
    """Longest such time in ns."""
    median_gap_ns: float | None
    """Median time in ns from the end of a repetition to the start of the next one; null for a single one, and where
    repetitions overlap."""
    first_call_ns: int
    """Duration of the first call in ns, which may upload the graph to the device."""
    median_call_ns: float | None
    """Median duration of the later calls in ns; null for a single one."""


class Graphs(msgspec.Struct, frozen=True):
    """Captured graphs (CUDA graphs, HIP graphs), launched by one call each."""

    launches: int
    """Number of launches of graphs."""
    kernels: int
    """Number of kernels that were started by graphs."""
    kernel_ns: int
    """Time of these kernels in ns."""
    kernel_share: float | None
    """Share of the time of all kernels that graphs started (0 to 1); null if there is none."""
    calls: tuple[GraphCall, ...]
    """Launches of graphs by function of the runtime, in the order of the names."""
    repeated: tuple[GraphRepetitions, ...] = ()
    """Repetitions by graph, at most ten, the one with the most time first."""


class LaunchFigures(msgspec.Struct, frozen=True):
    """How work gets to the devices: launches, their delays, queues and graphs."""

    kernels: int
    """Number of kernels that start in the chosen steps, or in the whole trace."""
    launched_kernels: int
    """Number of kernels with a launch call of their own in the trace; every figure about delays is about them."""
    unlinked_kernels: int
    """Number of kernels whose launch is not in the trace."""
    median_call_ns: float | None
    """Median duration in ns of the calls that launch one kernel each; null if there are none."""
    delay: Delay | None
    """Launch delays of all kernels that were launched by themselves; null if there are none."""
    by_kernel: tuple[KernelDelay, ...]
    """Launch delays by kernel name, the greatest sum first."""
    short_kernels: ShortKernels
    """Kernels that ran for less time than the call that launched them."""
    queues: tuple[StreamQueue, ...]
    """The queue of each stream, by device and stream."""
    blocked: Blocked
    """Launch calls that waited because the queue was full."""
    graphs: Graphs
    """Launches of captured graphs."""
    earlier_work_ns: int = 0
    """Time in ns at the beginning in which a device runs nothing that was recorded although launched work, or a call,
    waits for it: it most likely finishes work that was launched before the recording began. 0 where it starts at
    once."""
    capture: GraphCapture | None = None
    """Figures about the capture of graphs; null if the trace captures none."""
    capturing_steps: int = 0
    """Number of typical steps in which the capture of a graph begins."""
    typical_steps: int = 0
    """Number of typical steps."""


def analyze(context: Context) -> LaunchFigures:
    """Launches of the kernels that start in the chosen steps, or of all."""
    device, launch = context.trace.device, context.links.launch
    kernels = np.flatnonzero((device.category == Category.KERNEL) & device_events_in_scope(context))
    linked = kernels[launch[kernels] != NO_PARENT]
    in_graph = graph_calls(context)[launch[linked]]
    single = linked[~in_graph]
    calls = distinct(launch[single])
    call_ns = context.trace.launches.dur_ns[calls]
    typical = program_steps(context).typical
    return LaunchFigures(
        kernels=len(kernels),
        launched_kernels=len(single),
        unlinked_kernels=len(kernels) - len(linked),
        median_call_ns=float(np.median(call_ns)) if len(calls) else None,
        delay=_overall_delay(context, single),
        by_kernel=_delays_by_kernel(context, single),
        short_kernels=_short(context, single),
        queues=tuple(queue for queue, _, _ in context.cached(launch_calls.of_streams)),
        blocked=_blocked(context),
        graphs=_graphs(context, kernels, linked[in_graph]),
        earlier_work_ns=unrecorded_work.longest_ns(context),
        capture=graph_capture(context),
        capturing_steps=int((distinct(typical.at(launch_calls.begun_ns(context))) >= 0).sum()),
        typical_steps=len(typical),
    )


def _short(context: Context, single: I64) -> ShortKernels:
    dur = context.trace.device.dur_ns[single]
    short = dur < context.trace.launches.dur_ns[context.links.launch[single]]
    total = int(dur.sum())
    time = int(dur[short].sum())
    calls = int(short.sum())
    return ShortKernels(calls, time, calls / len(single) if len(single) else None, time / total if total else None)


def _blocked(context: Context) -> Blocked:
    held, full, median = context.cached(held_up)
    dur = context.trace.launches.dur_ns[held]
    return Blocked(len(held), int((dur - median).sum()), full if len(held) else None)


def _graphs(context: Context, kernels: I64, in_graph: I64) -> Graphs:
    device = context.trace.device
    launches = np.flatnonzero(graph_calls(context) & context.in_scope(context.trace.launches.start_ns))
    total = int(device.dur_ns[kernels].sum())
    time = int(device.dur_ns[in_graph].sum())
    return Graphs(
        len(launches),
        len(in_graph),
        time,
        time / total if total else None,
        _calls_of_graphs(context, launches, in_graph),
        _repetitions(context),
    )


def _calls_of_graphs(context: Context, launches: I64, in_graph: I64) -> tuple[GraphCall, ...]:
    """The functions that launch graphs, with their calls and the kernels of these graphs."""
    trace = context.trace
    name = trace.launches.name[launches]
    launched_by = trace.launches.name[context.links.launch[in_graph]]
    calls_of = rows_by(name)
    kernels_of = rows_by(launched_by)
    rows = []
    for code in distinct(np.concatenate((name, launched_by))).tolist():
        kernels = in_graph[kernels_of(code)]
        time = int(trace.device.dur_ns[kernels].sum())
        rows.append(GraphCall(trace.names[code], len(calls_of(code)), len(kernels), time))
    return tuple(sorted(rows, key=lambda row: row.name))


class _Launched(NamedTuple):
    """What launches of graphs ran, in the order of the launches."""

    first_kernel: Array
    """Code of the name of the first event."""
    kernels: I64
    start_ns: I64
    end_ns: I64
    call_ns: I64
    """Duration of the call that launched it."""


def _launched_graphs(context: Context) -> _Launched:
    """What the calls in scope ran."""
    device, launches, launch = context.trace.device, context.trace.launches, context.links.launch
    chosen = graph_calls(context) & context.in_scope(launches.start_ns)
    rows = np.flatnonzero((launch != NO_PARENT) & np.append(chosen, False)[launch])
    rows = rows[np.lexsort((device.start_ns[rows], launch[rows]))]
    opens = np.flatnonzero(np.append(True, np.diff(launch[rows]) != 0)[: len(rows)])
    return _Launched(
        first_kernel=device.name[rows[opens]],
        kernels=np.diff(np.append(opens, len(rows))),
        start_ns=device.start_ns[rows[opens]],
        end_ns=np.maximum.reduceat(device.end_ns[rows], opens),
        call_ns=launches.dur_ns[launch[rows[opens]]],
    )


def _repetitions(context: Context) -> tuple[GraphRepetitions, ...]:
    """Repetitions of each graph whose calls are in scope: graphs are alike by first kernel and number of kernels."""
    launched = _launched_graphs(context)
    _, graph = group(launched.first_kernel, launched.kernels)
    repetitions = []
    for _, rows in members(graph):
        in_order = rows[np.argsort(launched.start_ns[rows], kind="stable")]
        repetitions.append(_repeated(context, _Launched(*(column[in_order] for column in launched))))
    repetitions.sort(key=lambda row: (-row.median_ns * row.repetitions, row.first_kernel))
    return tuple(repetitions[:_GRAPHS])


def _repeated(context: Context, launched: _Launched) -> GraphRepetitions:
    """The repetitions of one graph, in the order of time."""
    took = launched.end_ns - launched.start_ns
    gaps = launched.start_ns[1:] - launched.end_ns[:-1]
    calls = launched.call_ns
    return GraphRepetitions(
        first_kernel=context.trace.names[int(launched.first_kernel[0])],
        kernels=int(launched.kernels[0]),
        repetitions=len(took),
        median_ns=float(np.median(took)),
        shortest_ns=int(took.min()),
        longest_ns=int(took.max()),
        median_gap_ns=float(np.median(gaps)) if len(gaps) and gaps.min() >= 0 else None,
        first_call_ns=int(calls[0]),
        median_call_ns=float(np.median(calls[1:])) if len(calls) > 1 else None,
    )


class Delay(msgspec.Struct, frozen=True):
    """Time between the end of launch calls and the start of their kernels; 0 where the kernel started earlier."""

    median_ns: float
    """Median delay in ns."""
    p95_ns: int
    """The least delay in ns that 95 % of the launches do not exceed."""
    max_ns: int
    """Longest delay in ns."""
    total_ns: int
    """Sum of all delays in ns; delays of several kernels overlap."""


class KernelDelay(msgspec.Struct, frozen=True):
    """Launch delays of one kernel, by name."""

    name: str
    """Name of the kernel as recorded, template arguments included."""
    calls: int
    """Number of launches of the kernel by itself, not by a graph."""
    median_ns: float
    """Median delay in ns."""
    p95_ns: int
    """The least delay in ns that 95 % of the launches do not exceed."""
    max_ns: int
    """Longest delay in ns."""
    total_ns: int
    """Sum of its delays in ns."""
    shorter_than_launch: int
    """Number of launches whose call took longer than the kernel."""


def _overall_delay(context: Context, rows: I64) -> Delay | None:
    """The delays of some device events that have a launch; None for none."""
    if not len(rows):
        return None
    delay = np.sort(_delays(context, rows))
    first = np.array([0])
    count = np.array([len(delay)])
    median = float(_median(delay, first, count)[0])
    p95 = int(_p95(delay, first, count)[0])
    return Delay(median, p95, int(delay[-1]), int(delay.sum()))


def _delays_by_kernel(context: Context, rows: I64) -> tuple[KernelDelay, ...]:
    """The delays by name, the greatest sum first."""
    if not len(rows):
        return ()
    device, launches = context.trace.device, context.trace.launches
    delay = _delays(context, rows)
    codes, name = ranked(device.name[rows])
    short = device.dur_ns[rows] < launches.dur_ns[context.links.launch[rows]]
    count = count_by(name, len(codes))
    first = np.cumsum(count) - count
    ordered = delay[np.lexsort((delay, name))]
    columns = (
        codes,
        count,
        _median(ordered, first, count),
        _p95(ordered, first, count),
        ordered[first + count - 1],
        sum_by(name, delay, len(codes)),
        count_by(name[short], len(codes)),
    )
    names, *figures = (column.tolist() for column in columns)
    delays = map(KernelDelay, map(context.trace.names.__getitem__, names), *figures)
    return tuple(sorted(delays, key=lambda row: (-row.total_ns, row.name)))


def _delays(context: Context, rows: I64) -> I64:
    launches = context.trace.launches
    launch = context.links.launch[rows]
    called = launches.start_ns[launch] + launches.dur_ns[launch]
    return np.maximum(context.trace.device.start_ns[rows] - called, 0)


def _median(ordered: I64, first: I64, count: I64) -> F64:
    """The median of each run of ascending values."""
    median: F64 = (ordered[first + (count - 1) // 2] + ordered[first + count // 2]) / 2
    return median


def _p95(ordered: I64, first: I64, count: I64) -> I64:
    """The least value of each run of ascending values that 95 % of the run do not exceed."""
    p95: I64 = ordered[first + (95 * count + 99) // 100 - 1]
    return p95


_LAUNCHES = Need(
    Text("skip-no-launches", "the trace has no launches of work that ran on a device"),
    lambda context: (context.links.launch != NO_PARENT).any(),
)
ANALYSES = (Analysis(150, "launches", LaunchFigures, analyze, needs=(_LAUNCHES,)),)
