"""What does `nn.DataParallel` cost: the walk over the parameters, scattering, replicating, gathering?

Calls are found by the range `DataParallel.forward` or, if only Python frames were recorded, by the frames of the
wrapper. `DistributedDataParallel.forward` is another wrapper.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
import numpy as np

from traceanalyzer.report.message import Text
from traceanalyzer.structure import host_activity
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import Occurrences, event_set
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.idle_times import IdleTime, ended_earlier, summed
from traceanalyzer.structure.operator_times import node_times
from traceanalyzer.structure.sums import least_by, members, most_by
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64
from traceanalyzer.trace.tables import Category, Frames, HostEvents
from traceanalyzer.trace.tree import NO_PARENT

_RANGE = "DataParallel.forward"
_FRAME = re.compile(r"(nn\.Module: DataParallel(_\d+)?|.*\bparallel[/\\]data_parallel\.py\(\d+\): forward)$")
_DISTRIBUTION = re.compile(r"(Scatter|Gather|Broadcast|ReduceAddCoalesced)(Backward)?\d*$")
"""Functions of torch.nn.parallel that move inputs, parameters, outputs and gradients between devices."""


class Distribution(msgspec.Struct, frozen=True):
    """All calls of one function that distributes or collects."""

    name: str
    """Name of the range or operator that scatters, replicates or gathers, as recorded."""
    calls: int
    """Number of calls that are not inside another such call."""
    host_ns: int
    """Duration of the calls on the host, in ns."""
    device_ns: int
    """Device time in ns of everything that the calls launched."""


class DataParallel(msgspec.Struct, frozen=True):
    """All calls of `nn.DataParallel`; a model without it has none."""

    calls: int
    """Number of forward calls of the wrapper."""
    host_ns: int
    """Duration of the calls on the host, in ns."""
    own_host_ns: int
    """Duration of the calls without the time from the first to the last operator of the wrapped module, in ns."""
    exposed: tuple[IdleTime, ...]
    """How much earlier the device could have continued without the wrapper's own time, by cause of its idle time."""
    devices: tuple[int, ...]
    """Numbers of the devices on which kernels were launched during the calls."""
    is_marked: bool
    """Whether the wrapper's own range was recorded; false where the calls were inferred from Python frames."""
    distribution: tuple[Distribution, ...]
    """Scattering, replicating and gathering in the forward and backward pass, the most host time first."""
    start_ns: int | None
    """Start of the longest call in ns since the first event; null without calls."""
    spread_ns: int = 0
    """Time in ns of the calls without that of the wrapped module, and of all distribution, each moment of a thread
    once."""


def analyze(context: Context) -> DataParallel:
    """Sum up all calls of the wrapper."""
    table, rows = _calls(context)
    if not len(rows):
        return DataParallel(0, 0, 0, (), (), False, (), None)
    start = table.start_ns[rows]
    dur = table.dur_ns[rows]
    own = _own_time(context, table, rows)
    earlier = ended_earlier(context, start, start + dur, own)
    return DataParallel(
        calls=len(rows),
        host_ns=int(dur.sum()),
        own_host_ns=int(own.sum()),
        exposed=summed(earlier),
        devices=_devices(context, start, start + dur),
        is_marked=table is context.trace.host,
        distribution=_distribution(context),
        start_ns=int(start[dur.argmax()]),
        spread_ns=sum(each.length for each in _spreading(context, all_distribution=True).values()),
    )


@event_set
def wrapper_at(context: Context, *, all_distribution: bool) -> Iterator[Occurrences]:
    """When the wrapper itself works, and where it has several devices, when anything is distributed or collected."""
    for thread, times in _spreading(context, all_distribution=all_distribution).items():
        yield Occurrences("host", _RANGE, np.full(len(times), thread), times.start, times.end)


def _spreading(context: Context, *, all_distribution: bool) -> dict[int, Intervals]:
    """Times of the calls without that of the wrapped module, by thread."""
    table, rows = _calls(context)
    first, last = _module(context, table, rows)
    tree = context.host.tree
    nodes = _distributing(context) if all_distribution else np.empty(0, np.int64)
    # from the start of a call to its module, from there to its end, and what else distributes
    threads = np.concatenate((table.thread[rows], table.thread[rows], tree.thread[nodes]))
    starts = np.concatenate((table.start_ns[rows], last, tree.start_ns[nodes]))
    ends = np.concatenate((first, table.end_ns[rows], tree.end_ns[nodes]))
    return {thread: Intervals.union(starts[parts], ends[parts]) for thread, parts in members(threads)}


def _calls(context: Context) -> tuple[HostEvents | Frames, I64]:
    """The table and rows of the calls: ranges or, without ranges, the outermost frames."""
    trace = context.trace
    rows = np.flatnonzero(trace.host.name == trace.names.code(_RANGE))
    rows = rows[context.in_scope(trace.host.start_ns[rows])]
    if len(rows):
        return trace.host, rows
    frames = trace.frames
    rows = np.flatnonzero(trace.names.where(lambda name: _FRAME.match(name) is not None)[frames.name])
    rows = rows[context.in_scope(frames.start_ns[rows])]
    order = rows[np.lexsort((frames.start_ns[rows], frames.thread[rows]))]
    reach = np.maximum.accumulate(frames.start_ns[order] + frames.dur_ns[order]) if len(order) else order
    inside = (frames.start_ns[order[1:]] < reach[:-1]) & (frames.thread[order[1:]] == frames.thread[order[:-1]])
    return frames, order[np.append(True, ~inside)[: len(order)]]


def _own_time(context: Context, table: HostEvents | Frames, rows: I64) -> I64:
    """Duration of each call without the span of the wrapped module's operators."""
    first, last = _module(context, table, rows)
    return table.dur_ns[rows] - (last - first)


def _module(context: Context, table: HostEvents | Frames, rows: I64) -> tuple[I64, I64]:
    """For each call, the start of the first and the end of the last operator of the wrapped module; its end if none."""
    host, names = context.host, context.trace.names
    distributes = names.where(_is_distribution)[host.name]
    plain = (host.kind == NodeKind.OPERATOR) & (host.tree.nearest(distributes) == NO_PARENT)
    plain &= host.name != names.code(_RANGE)
    nodes = np.flatnonzero(plain)
    ascending = np.sort(rows)
    row = host_activity.innermost(table, ascending, host.tree.thread[nodes], host.tree.start_ns[nodes])
    nodes = nodes[row != NO_PARENT]
    call = np.searchsorted(ascending, row[row != NO_PARENT])
    first = least_by(call, host.tree.start_ns[nodes], len(rows))
    last = most_by(call, host.tree.end_ns[nodes], len(rows))
    has_none = last < first
    end = table.end_ns[ascending]
    place = np.searchsorted(ascending, rows)
    return np.where(has_none, end, first)[place], np.where(has_none, end, last)[place]


def _is_distribution(name: str) -> bool:
    return _DISTRIBUTION.match(name) is not None


def _devices(context: Context, start: I64, end: I64) -> tuple[int, ...]:
    """Devices that got kernels during the calls, from whatever thread."""
    device, launches, launch = context.trace.device, context.trace.launches, context.links.launch
    kernels = np.flatnonzero((device.category == Category.KERNEL) & (launch != NO_PARENT))
    order = np.argsort(start, kind="stable")
    called = launches.start_ns[launch[kernels]]
    before = np.searchsorted(start[order], called, side="right") - 1
    inside = (before >= 0) & (called < end[order][before])
    numbers: list[int] = distinct(device.device[kernels[inside]]).tolist()
    return tuple(numbers)


def _distribution(context: Context) -> tuple[Distribution, ...]:
    host = context.host
    names = context.trace.names
    times = context.cached(node_times)
    nodes = _distributing(context)
    found = []
    for code, rows in members(host.name[nodes]):
        own = nodes[rows]
        sums = (int(column[own].sum()) for column in (host.tree.dur_ns, times.device_total_ns))
        found.append(Distribution(names[code], len(own), *sums))
    return tuple(sorted(found, key=lambda row: (-row.host_ns, row.name)))


def _distributing(context: Context) -> I64:
    """Outermost nodes that scatter, replicate or gather."""
    host = context.host
    matches = context.trace.names.where(_is_distribution)[host.name]
    outer = host.tree.around(matches) == 0
    return np.flatnonzero(matches & outer & context.in_scope(host.tree.start_ns))


_HOST = Need(
    Text("skip-no-host-events", "the trace has no operators, ranges or Python frames"),
    lambda context: bool(len(context.trace.host) or len(context.trace.frames)),
)
ANALYSES = (Analysis(530, "data_parallel", DataParallel, analyze, needs=(_HOST,), is_of_steps=True),)
