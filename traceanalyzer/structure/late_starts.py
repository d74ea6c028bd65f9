"""Which kernels start late although their GPU is free when they are launched, and nothing recorded holds them up?

A free GPU starts a kernel some microseconds after its launch. Where kernels start milliseconds late again and again,
the GPU does something that is not in the recording: it works for another process, or wakes up to save power. One such
start is none: it may be a first use. Not judged are work of graphs, which the first launch uploads; collectives, which
wait for other ranks; the first run of each kernel, which may load its code; what follows a call that makes a stream
wait for an event; and time in which another device works, or in which calls load code or allocate memory, or the
profiler itself works.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
import numpy as np

from traceanalyzer.structure import gaps, host_activity
from traceanalyzer.structure.context import Context, cached
from traceanalyzer.structure.launch_calls import graph_calls
from traceanalyzer.structure.recorded_collectives import communication_kernels
from traceanalyzer.structure.sums import first_rows
from traceanalyzer.trace.distinct import distinct, ranked
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, Bool
from traceanalyzer.trace.tables import Category

LEAST_NS = 1_000_000
"""Own choice: a queue of the driver, or an interrupt, delays a start by less."""
TIMES = 10
"""A start is late if its delay is so many times the median."""
AGAIN = 10
"""Least number of late starts that are no chance."""
_PARTS = 10
_SPREAD = 5
"""In how many of ten equal parts of the judged kernels there must be late ones (own choice: ten at random are in fewer
in one of a hundred cases; those of a warm-up are at the beginning)."""
_BEFORE_ITS_CALL = 0.01
"""Greatest share of kernels that may start before their call began (own choice): with more, the clocks differ."""
_MAKES_WAIT = re.compile(r"^(cuda|cu|hip|musa)(StreamWait(Event|Value)|LaunchHostFunc|StreamAddCallback)")


class LateRows(msgspec.Struct, frozen=True):
    """Kernels of one device that started late although it was free, in the order of time."""

    row: I64
    """Row of each in the device table."""
    begin_ns: I64
    """The return of its launch."""
    start_ns: I64
    judged: int
    """Number of kernels whose device was free when they were launched."""
    median_ns: float
    """Median of their delays in ns."""
    is_spread: bool
    """Whether late starts are spread over the recording, as those of a warm-up are not."""

    @property
    def is_again_and_again(self) -> bool:
        """Whether so many are late, over so much of the recording, that something else keeps the device busy."""
        return self.is_spread and len(self.row) >= AGAIN

    @property
    def late_ns(self) -> I64:
        """The delay of each in ns."""
        return self.start_ns - self.begin_ns

    @property
    def times(self) -> Intervals:
        """When the device does nothing although one of these was launched."""
        return Intervals.union(self.begin_ns, self.start_ns)


@cached
def late_starts(context: Context) -> Mapping[int, LateRows]:
    """Late starts by number of the device; devices without any are left out."""
    found = {number: _of_device(context, number) for number in gaps.with_kernels(context)}
    return {number: late for number, late in found.items() if late is not None and len(late.row)}


def _of_device(context: Context, number: int) -> LateRows | None:
    """The late starts of a device; None where its clock is not that of the host, or nothing can be judged."""
    device, launches, launch = context.trace.device, context.trace.launches, context.links.launch
    rows = _found_free(context, number)
    begin, start = launches.end_ns[launch[rows]], device.start_ns[rows]
    if not len(rows) or (start < launches.start_ns[launch[rows]]).mean() > _BEFORE_ITS_CALL:
        return None
    delay = np.maximum(start - begin, 0)
    median = float(np.median(delay))
    late = delay - context.cached(_explained, number).within(begin, start) >= max(LEAST_NS, TIMES * median)
    late &= ~_is_first_run(context)[rows]
    late[late] = ~_may_await(context, rows[late])
    parts = distinct(np.flatnonzero(late) * _PARTS // len(rows))
    return LateRows(rows[late], begin[late], start[late], len(rows), median, len(parts) >= _SPREAD)


def _found_free(context: Context, number: int) -> I64:
    """Kernels whose device ran nothing since they were launched, without those of graphs and collectives."""
    device, launches = context.trace.device, context.trace.launches
    found = gaps.of_device(context, number, (0, context.trace.info.span_ns))
    is_launched = (found.launch >= 0) & found.is_first_of_launch & found.has_previous
    found = found.take(is_launched)
    is_free = launches.start_ns[found.launch] >= found.whole_start_ns
    is_kernel = device.category[found.next] == Category.KERNEL
    is_other = communication_kernels(context)[found.next] | graph_calls(context)[found.launch]
    rows: I64 = found.next[is_free & is_kernel & ~is_other]
    return rows


def _explained(context: Context, number: int) -> Intervals:
    """When something that was recorded may hold up the start of a kernel: another device, calls, the profiler."""
    trace = context.trace
    others = np.flatnonzero(trace.device.device != number)
    loads = host_activity.loading_calls(context)
    allocates = np.flatnonzero(trace.names.where(host_activity.is_allocation)[trace.launches.name])
    return (
        gaps.times_of(trace.device, others)
        | gaps.times_of(trace.launches, np.concatenate((loads, allocates)))
        | gaps.times_of(trace.overheads, np.arange(len(trace.overheads)))
    )


def _is_first_run(context: Context) -> Bool:
    """Which device events are the first of their name."""
    codes, name = ranked(context.trace.device.name)
    first = np.zeros(len(name), np.bool_)
    first[first_rows(name, len(codes))] = True
    return first


def _may_await(context: Context, rows: I64) -> Bool:
    """For each of some device events, whether a call makes a stream wait since the launch before it on its stream."""
    device, launches, links = context.trace.device, context.trace.launches, context.links
    waiting = np.sort(launches.start_ns[context.trace.names.where(_makes_wait)[launches.name]])
    stream = gaps.streams(context)[1][links.heads]
    called = launches.start_ns[links.calls]
    order = np.lexsort((called, stream))
    before = np.full(len(device), np.iinfo(np.int64).min)
    follows = stream[order[1:]] == stream[order[:-1]]
    before[links.heads[order[1:]][follows]] = called[order[:-1]][follows]
    found: Bool = np.searchsorted(waiting, launches.start_ns[links.launch[rows]]) > np.searchsorted(
        waiting, before[rows]
    )
    return found


def _makes_wait(name: str) -> bool:
    return _MAKES_WAIT.match(name) is not None
