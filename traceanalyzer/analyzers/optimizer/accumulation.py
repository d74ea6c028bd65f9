"""Does every backward pass exchange its gradients, although only the last one before an update has to?"""

from __future__ import annotations

import re

import msgspec
import numpy as np

from traceanalyzer.structure import recorded_collectives
from traceanalyzer.structure.autograd import backward, optimizer_starts
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.recorded_collectives import communication_kernels
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, entries
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

_ALL_REDUCE = re.compile(r"all_?reduce", re.IGNORECASE)
_SAME = 0.5
"""An exchange that takes half as long as that of the last pass, or has half as many collectives, is one of all
gradients (own choice: statistics and losses that are exchanged beside them are far smaller)."""
_SHOWN = 5


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


def find(context: Context) -> Accumulation | None:
    """Updates with several passes before them; None if there are none."""
    passes, steps = context.once(backward), context.once(optimizer_starts)[0]
    update = np.searchsorted(steps, passes.start_ns)
    inside = (update < len(steps)) & context.in_scope(passes.start_ns)
    numbers, counts = np.unique(update[inside], return_counts=True)
    several = np.flatnonzero(inside & np.isin(update, numbers[counts > 1]))
    if not len(several):
        return None
    found = _reduces(context)
    bounds = passes.start_ns[several], _until(context)[several]
    first, after = (np.searchsorted(found.called, times) for times in bounds)
    count = after - first
    spent = np.concatenate(([0], np.cumsum(found.dur_ns)))
    time = spent[after] - spent[first]
    is_last = np.append(update[several][1:] != update[several][:-1], True)
    last = np.flatnonzero(is_last)[np.cumsum(is_last) - is_last]
    is_same = time >= _SAME * time[last] if found.on_device else np.ones(len(time), np.bool_)
    early = ~is_last & (count > 0) & (count >= _SAME * count[last]) & is_same
    numbers_of_early = np.flatnonzero(early).tolist()
    exchanges = [
        Exchange(int(bounds[0][number]), int(count[number]), int(time[number]) if found.is_timed else None)
        for number in numbers_of_early
    ]
    rows = [np.arange(first[number], after[number]) for number in numbers_of_early]
    return Accumulation(
        updates=int((counts > 1).sum()),
        passes=len(several),
        early_exchanges=len(exchanges),
        collectives=sum(exchange.collectives for exchange in exchanges),
        time_ns=sum(exchange.time_ns or 0 for exchange in exchanges) if found.is_timed else None,
        exposed_ns=found.exposed(np.concatenate([np.empty(0, np.int64), *rows])) if found.is_timed else None,
        examples=tuple(sorted(exchanges, key=lambda exchange: (-(exchange.time_ns or 0), exchange.start_ns))[:_SHOWN]),
        is_on_host=found.is_timed and not found.on_device,
    )


def _until(context: Context) -> I64:
    """For each pass, when the next pass or the next call of an optimizer begins: what it launched lies before."""
    passes = context.once(backward)
    marks = np.sort(np.concatenate((passes.start_ns, *context.once(optimizer_starts))))
    until: I64 = entries(marks, np.searchsorted(marks, passes.end_ns), np.iinfo(np.int64).max)
    return until


class _Reduces(msgspec.Struct, frozen=True):
    """All-reduces in the order in which they are called."""

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
        return _Reduces(called, device.start_ns[kernels], device.dur_ns[kernels], others, on_device=True, is_timed=True)
    host = trace.host
    own = context.once(recorded_collectives.host_ranges) & reduces[host.name]
    is_timed = bool(own.any())
    rows = np.flatnonzero(own if is_timed else (host.category == Category.ANNOTATION) & reduces[host.name])
    rows = rows[np.argsort(host.start_ns[rows], kind="stable")]
    start, others = host.start_ns[rows], context.once(recorded_collectives.computing)
    return _Reduces(start, start, host.dur_ns[rows], others, on_device=False, is_timed=is_timed)
