"""Does every backward pass exchange its gradients, although only the last one before an update has to?"""

from __future__ import annotations

import re

import msgspec
import numpy as np

from traceanalyzer.analyzers.communicating import communication_kernels
from traceanalyzer.analyzers.context import Context
from traceanalyzer.analyzers.passes.marks import backward, optimizer_starts
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
    """Time of their kernels on the device in ns; null where there are none, as on a CPU."""


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
    """Time of their kernels on the device in ns; null where there are none, as on a CPU."""
    exposed_ns: int | None
    """Part of that time in ns in which no other kernel runs; null where there are no kernels."""
    examples: tuple[Exchange, ...]
    """The early exchanges that take longest, at most five, the longest first."""


def find(context: Context) -> Accumulation | None:
    """Updates with several passes before them; None where there are none."""
    passes, steps = context.once(backward), context.once(optimizer_starts)[0]
    update = np.searchsorted(steps, passes.start_ns)
    inside = (update < len(steps)) & context.in_scope(passes.start_ns)
    numbers, counts = np.unique(update[inside], return_counts=True)
    several = np.flatnonzero(inside & np.isin(update, numbers[counts > 1]))
    if not len(several):
        return None
    calls, kernels = _collectives(context)
    bounds = passes.start_ns[several], _until(context)[several]
    count = np.searchsorted(calls, bounds[1]) - np.searchsorted(calls, bounds[0])
    first, after = (np.searchsorted(kernels[1], times) for times in bounds)
    spent = np.concatenate(([0], np.cumsum(context.trace.device.dur_ns[kernels[0]])))
    time = spent[after] - spent[first]
    is_last = np.append(update[several][1:] != update[several][:-1], True)
    last = np.flatnonzero(is_last)[np.cumsum(is_last) - is_last]
    by_time = time >= _SAME * time[last]
    early = ~is_last & (count > 0) & (count >= _SAME * count[last]) & by_time
    rows = [kernels[0][first[number] : after[number]] for number in np.flatnonzero(early).tolist()]
    on_device = len(kernels[0]) > 0
    found = [
        Exchange(int(bounds[0][number]), int(count[number]), int(time[number]) if on_device else None)
        for number in np.flatnonzero(early).tolist()
    ]
    return Accumulation(
        updates=int((counts > 1).sum()),
        passes=len(several),
        early_exchanges=len(found),
        collectives=sum(exchange.collectives for exchange in found),
        time_ns=sum(exchange.time_ns or 0 for exchange in found) if on_device else None,
        exposed_ns=_exposed(context, np.concatenate([kernels[0][:0], *rows])) if on_device else None,
        examples=tuple(sorted(found, key=lambda exchange: (-(exchange.time_ns or 0), exchange.start_ns))[:_SHOWN]),
    )


def _until(context: Context) -> I64:
    """For each pass, when the next pass or the next call of an optimizer begins: what it launched lies before."""
    passes = context.once(backward)
    marks = np.sort(np.concatenate((passes.start_ns, *context.once(optimizer_starts))))
    until: I64 = entries(marks, np.searchsorted(marks, passes.end_ns), np.iinfo(np.int64).max)
    return until


def _collectives(context: Context) -> tuple[I64, tuple[I64, I64]]:
    """When all-reduces are called (by kernels, else by host ranges); rows of their kernels and when those start."""
    trace = context.trace
    reduces = trace.names.where(lambda name: _ALL_REDUCE.search(name) is not None)
    device, launch = trace.device, context.links.launch
    kernels = np.flatnonzero(communication_kernels(trace) & reduces[device.name] & (launch != NO_PARENT))
    called = trace.launches.start_ns[launch[kernels]]
    order = np.argsort(called, kind="stable")
    kernels, called = kernels[order], called[order]
    if len(kernels):
        return called, (kernels, called)
    host = trace.host
    ranges = (host.category == Category.ANNOTATION) & reduces[host.name]
    return np.sort(host.start_ns[ranges]), (kernels, called)


def _exposed(context: Context, kernels: I64) -> int:
    """Time in which these kernels run and no kernel that computes."""
    device = context.trace.device
    computes = (device.category == Category.KERNEL) & ~communication_kernels(context.trace)
    both = [
        Intervals.union(device.start_ns[rows], device.start_ns[rows] + device.dur_ns[rows])
        for rows in (kernels, np.flatnonzero(computes))
    ]
    return (both[0] - both[1]).length
