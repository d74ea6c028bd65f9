"""How does work get to the device: how long do kernels wait after their launch, and how full are the queues?

Launch delay is max(0, start of the kernel - start of its launch call - duration of the call). Kernels of graphs
are left out of every figure about single launches, because one call starts hundreds of them; `graphs` counts them.
"""

from __future__ import annotations

import re
from functools import partial

import msgspec
import numpy as np

from traceanalyzer.analyzers.launches import delays, queues
from traceanalyzer.analyzers.launches.delays import Delay, KernelDelay
from traceanalyzer.analyzers.launches.queues import StreamQueue
from traceanalyzer.knowledge import marks
from traceanalyzer.report.message import Message, Text
from traceanalyzer.structure import host_activity, unrecorded_work
from traceanalyzer.structure.context import Context
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.table import I64, Bool
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

_NO_LAUNCHES = Text("skip-no-launches", "the trace has no launches of work that ran on a device")

_CAPTURE = re.compile(r"^(cuda|cu|hip|musa)StreamBeginCapture")
_INSTANTIATE = re.compile(r"^(cuda|cu|hip|musa)GraphInstantiate")
_LAUNCH = re.compile(r"^(cuda|cu|hip|musa)\w{0,20}Launch\w{0,20}Kernel")

_FAR_LONGER = 10
"""A call this many times as long as the median counts as blocked (own choice)."""
_DEPTH = 1024
"""Launches that a CUDA stream takes before the next launch call waits."""
_NEARLY = 0.98
"""The length is counted at the start of the call, a few launches before the limit."""
_MANY = 100
"""Own choice: fewer launches without an event on the device may be chance."""
_HARDLY_ANY = 0.1
"""Device events over launch calls (own choice): a capture runs nothing, and little runs around it."""
_SHALLOW = 256
"""A queue that never was longer cannot be called full."""


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


class GraphCapture(msgspec.Struct, frozen=True):
    """Calls that record a graph instead of running anything on a device."""

    captures: int
    """Number of captures that were begun on a stream."""
    launch_calls: int
    """Number of calls in the trace that launch a kernel; those within a capture start none."""
    device_events: int
    """Number of kernels, copies and fills that ran on a device."""
    replays: int
    """Number of launches of whole graphs."""

    @property
    def is_most(self) -> bool:
        """Whether the recording is mostly a capture: no graph is replayed, and hardly any launch starts work."""
        many = not self.replays and self.launch_calls >= _MANY
        return many and self.device_events < _HARDLY_ANY * self.launch_calls


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


def missing(context: Context) -> Message | None:
    """The reason why launches cannot be analyzed, or None."""
    return None if (context.links.launch != NO_PARENT).any() else _NO_LAUNCHES()


def analyze(context: Context) -> LaunchFigures:
    """Launches of the kernels that start in the chosen steps, or of all."""
    device, launch = context.trace.device, context.links.launch
    kernels = np.flatnonzero((device.category == Category.KERNEL) & context.in_scope(device.start_ns))
    linked = kernels[launch[kernels] != NO_PARENT]
    in_graph = graph_calls(context)[launch[linked]]
    single = linked[~in_graph]
    calls = distinct(launch[single])
    call_ns = context.trace.launches.dur_ns[calls]
    return LaunchFigures(
        kernels=len(kernels),
        launched_kernels=len(single),
        unlinked_kernels=len(kernels) - len(linked),
        median_call_ns=float(np.median(call_ns)) if len(calls) else None,
        delay=delays.overall(context, single),
        by_kernel=delays.by_kernel(context, single),
        short_kernels=_short(context, single),
        queues=tuple(queue for queue, _, _ in context.once(queues.of_streams)),
        blocked=_blocked(context),
        graphs=_graphs(context, kernels, linked[in_graph]),
        earlier_work_ns=unrecorded_work.longest_ns(context),
        capture=graph_capture(context),
    )


def graph_calls(context: Context) -> Bool:
    """Which rows of the launch table launch a captured graph."""
    launches = context.trace.launches
    found: Bool = context.trace.names.where(marks.is_graph_launch)[launches.name]
    return found


def graph_capture(context: Context) -> GraphCapture | None:
    """Figures about the capture of graphs; None if the trace captures none."""
    return context.once(_graph_capture)


def _graph_capture(context: Context) -> GraphCapture | None:
    names, called = context.trace.names, context.trace.launches.name

    def calls(pattern: re.Pattern[str]) -> int:
        return int(names.where(partial(_is_call, pattern))[called].sum())

    begun = calls(_CAPTURE) or calls(_INSTANTIATE)
    replays = int(graph_calls(context).sum())
    return GraphCapture(begun, calls(_LAUNCH), len(context.trace.device), replays) if begun else None


def _is_call(pattern: re.Pattern[str], name: str) -> bool:
    return pattern.search(name) is not None


def _short(context: Context, single: I64) -> ShortKernels:
    dur = context.trace.device.dur_ns[single]
    short = dur < context.trace.launches.dur_ns[context.links.launch[single]]
    total, time = int(dur.sum()), int(dur[short].sum())
    calls = int(short.sum())
    return ShortKernels(calls, time, calls / len(single) if len(single) else None, time / total if total else None)


def _blocked(context: Context) -> Blocked:
    held, full, median = context.once(_held_up)
    dur = context.trace.launches.dur_ns[held]
    return Blocked(len(held), int((dur - median).sum()), full if len(held) else None)


def blocked_calls(context: Context) -> I64:
    """Rows of launch-table calls that waited because their stream's queue was full."""
    return context.once(_held_up)[0]


def _held_up(context: Context) -> tuple[I64, int, int]:
    """Calls far longer than the median that start with a full queue; the queue's length; the median call in ns."""
    found = context.once(queues.of_streams)
    longest = max((queue.max_length for queue, _, _ in found), default=0)
    if longest < _SHALLOW:
        return np.empty(0, np.int64), 0, 0
    full = int(_NEARLY * min(_DEPTH, longest))
    calls = np.concatenate([rows for _, rows, _ in found])
    length = np.concatenate([length for _, _, length in found])
    own = ~(graph_calls(context) | _copies_with_host(context))[calls]
    calls, length = calls[own], length[own]
    dur = context.trace.launches.dur_ns[calls]
    median = int(np.median(dur)) if len(dur) else 0
    return calls[(length >= full) & (dur > _FAR_LONGER * median)], full, median


def _copies_with_host(context: Context) -> Bool:
    """Which rows of the launch table copy from or to the host, which may take long for another reason."""
    device, launch = context.trace.device, context.links.launch
    with_host = context.trace.names.where(lambda name: "H" in (host_activity.direction(name) or ""))
    rows = (device.category == Category.MEMCPY) & (launch != NO_PARENT) & with_host[device.name]
    found = np.zeros(len(context.trace.launches), np.bool_)
    found[launch[rows]] = True
    return found


def _graphs(context: Context, kernels: I64, in_graph: I64) -> Graphs:
    trace, device = context.trace, context.trace.device
    launches = np.flatnonzero(graph_calls(context) & context.in_scope(trace.launches.start_ns))
    caller = trace.launches.name[context.links.launch[in_graph]]
    rows = []
    for code in distinct(np.concatenate((trace.launches.name[launches], caller))).tolist():
        own = in_graph[caller == code]
        count = int((trace.launches.name[launches] == code).sum())
        rows.append(GraphCall(trace.names[code], count, len(own), int(device.dur_ns[own].sum())))
    total, time = int(device.dur_ns[kernels].sum()), int(device.dur_ns[in_graph].sum())
    share = time / total if total else None
    return Graphs(len(launches), len(in_graph), time, share, tuple(sorted(rows, key=lambda row: row.name)))
