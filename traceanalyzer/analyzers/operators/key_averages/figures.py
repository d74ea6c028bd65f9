"""Times and memory of every event, in torch's arithmetic: microseconds in float64, added in torch's order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traceanalyzer.analyzers.operators.key_averages.events import AveragedEvents, EventKind
from traceanalyzer.analyzers.operators.key_averages.memory import during, sizes_by_place
from traceanalyzer.analyzers.operators.key_averages.nesting import Nesting, levels, nest
from traceanalyzer.analyzers.operators.key_averages.owners import EventOwners
from traceanalyzer.structure.sums import sum_by
from traceanalyzer.trace.distinct import stable_order
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.table import F64, I64, Bool
from traceanalyzer.trace.tree import NO_PARENT


@dataclass(frozen=True)
class Figures:
    """Times and memory of all events as columns."""

    counted: Bool
    """Events that torch kept when it took duplicates out."""
    times: tuple[F64, F64, F64, F64]
    """Self CPU, CPU total, self device, device total, in microseconds."""
    memory: tuple[I64, I64, I64, I64]
    """CPU, self CPU, device, self device, in bytes."""


def add_up(groups: I64, values: F64, size: int) -> F64:
    """Sums by group that add one value after the other, as torch does: `bincount` is such a loop."""
    return np.asarray(np.bincount(groups, weights=values, minlength=size), np.float64)


def measure(trace: Trace, events: AveragedEvents) -> Figures:
    """Times and memory of all events."""
    began = trace.info.profiler_start_ns or 0
    elapsed = (events.end_ns - began) / 1000 - (events.start_ns - began) / 1000
    on_device = events.on_device
    cpu = np.flatnonzero(~on_device)
    cpu = cpu[stable_order(events.thread[cpu])]
    nesting = nest(events.thread[cpu], events.start_ns[cpu], events.end_ns[cpu], events.name[cpu])
    counted = np.ones(len(events), np.bool_)
    counted[cpu[nesting.duplicate]] = False
    children = np.flatnonzero((nesting.parent != NO_PARENT) & ~nesting.duplicate)
    return Figures(
        counted,
        (*_cpu_times(elapsed, cpu, nesting, children), *_device_times(events, elapsed, cpu, nesting)),
        _memory(trace, events, cpu, nesting, children),
    )


def _cpu_times(elapsed: F64, cpu: I64, nesting: Nesting, children: I64) -> tuple[F64, F64]:
    total, own = np.zeros(len(elapsed)), np.zeros(len(elapsed))
    total[cpu] = elapsed[cpu]
    own[cpu] = elapsed[cpu] - add_up(nesting.parent[children], elapsed[cpu[children]], len(cpu))
    return own, total


def _device_times(events: AveragedEvents, elapsed: F64, cpu: I64, nesting: Nesting) -> tuple[F64, F64]:
    """Device events count in full; operators have their kernels, and those of what is nested in them."""
    own = np.where(events.on_device, elapsed, 0.0)
    total = own.copy()
    kernels = _kernel_times(events, elapsed)[cpu][nesting.innermost]
    if kernels.any():
        nested = np.zeros(len(cpu))
        for level in levels(np.where(nesting.duplicate, NO_PARENT, nesting.parent)):
            inner = level[(nesting.parent[level] != NO_PARENT) & ~nesting.duplicate[level]]
            np.add.at(nested, nesting.parent[inner], kernels[inner] + nested[inner])
        total[cpu] = kernels + nested
        own[cpu] = total[cpu] - nested
    return own, total


def _kernel_times(events: AveragedEvents, elapsed: F64) -> F64:
    """For each event on the CPU, the time of the device events that name it."""
    device = np.flatnonzero(events.on_device & (events.linked > 0))
    position, owner = EventOwners(np.where(events.on_device, 0, events.ident)).all(events.linked[device])
    return add_up(owner, elapsed[device[position]], len(events))


def _memory(
    trace: Trace, events: AveragedEvents, cpu: I64, nesting: Nesting, children: I64
) -> tuple[I64, I64, I64, I64]:
    places = during(trace.memory, events.start_ns[cpu], events.end_ns[cpu])
    alone = np.flatnonzero(events.kind[cpu] == EventKind.MEMORY)
    columns = []
    for held, sizes in zip(places, sizes_by_place(trace.memory), strict=True):
        held[alone] = sizes[events.row[cpu[alone]]]  # without other records at the same time
        total, own = np.zeros((2, len(events)), np.int64)
        total[cpu] = held
        own[cpu] = held - sum_by(nesting.parent[children], held[children], len(cpu))
        columns += [total, own]
    return (columns[0], columns[1], columns[2], columns[3])
