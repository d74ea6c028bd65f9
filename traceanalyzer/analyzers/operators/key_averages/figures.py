"""Times and memory of every event, in torch's arithmetic: microseconds in float64, added in torch's order.

Unlike `trace.tree`, torch cuts nothing: an event that starts inside another and ends after it is nested in
the nearest event around both, or in none. Of memory all counts for an event that was allocated and freed while it ran,
on any thread.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.analyzers.operators.key_averages.events import (
    AveragedEvents,
    EventKind,
    EventOwners,
)
from traceanalyzer.structure.sums import sum_by
from traceanalyzer.trace.distinct import stable_order
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.table import F64, I32, I64, Array, Bool, take_or
from traceanalyzer.trace.tables import MemoryEvents
from traceanalyzer.trace.tree import NO_PARENT

_BEYOND = np.iinfo(np.int64).max
_CPU = (0, 2, 5)
"""c10::DeviceType: CPU, MKLDNN, IDEEP."""
_DEVICES = (1, 6, 12, 20)
"""c10::DeviceType: CUDA, HIP, XPU, PrivateUse1."""


class Figures(msgspec.Struct, frozen=True):
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
        (
            *_cpu_times(elapsed, cpu, nesting, children),
            *_device_times(events, elapsed, cpu, nesting),
        ),
        _memory(trace, events, cpu, nesting, children),
    )


def _cpu_times(elapsed: F64, cpu: I64, nesting: Nesting, children: I64) -> tuple[F64, F64]:
    total = np.zeros(len(elapsed))
    own = np.zeros(len(elapsed))
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


class Nesting(msgspec.Struct, frozen=True):
    """Events by thread, start, longest first; parents come before children."""

    parent: I64
    """Position of the parent, or -1, after the duplicates were taken out."""
    duplicate: Bool
    """Only children of the name of their parent: torch keeps the parent, with the children of its child."""
    innermost: I64
    """For each event the last of the duplicates in it, or itself: torch keeps this one's kernels."""


def nest(thread: I32, start: I64, end: I64, name: I32) -> Nesting:
    """Nest events that are sorted by thread, start, longest first."""
    parent = _parents(thread, start, end)
    nested = np.flatnonzero(parent != NO_PARENT)
    duplicate = np.zeros(len(start), np.bool_)
    only = np.bincount(parent[nested], minlength=len(start))[parent[nested]] == 1
    duplicate[nested] = only & (name[nested] == name[parent[nested]])
    kept = _settled(np.where(duplicate, parent, np.arange(len(start))))
    return Nesting(
        parent=np.where(parent == NO_PARENT, NO_PARENT, take_or(kept, parent, NO_PARENT)),
        duplicate=duplicate,
        innermost=_innermost(parent, duplicate, kept),
    )


def _parents(thread: I32, start: I64, end: I64) -> I64:
    """The parent is the last event before that ends no earlier (and has not ended at the start).

    Every event guesses the one right before it; a guess that ends too early is replaced by its own guess,
    which skips only events that end even earlier, until no guess is wrong.
    """
    size = len(start)
    # Later threads lie later, so that no event of an earlier one can be a parent; position 0 is "none".
    low = int(start.min()) if size else 0
    span = int(end.max()) - low + 2 if size else 0
    shift = np.cumsum(np.concatenate(([0], np.diff(thread) != 0)))[:size] * span - low
    reach = np.concatenate(([_BEYOND], end + shift))
    need = np.concatenate(([_BEYOND], np.maximum(end, start + 1) + shift))
    guess = np.maximum(np.arange(-1, size), 0)
    wrong = np.arange(1, size + 1)
    while len(wrong):
        wrong = wrong[reach[guess[wrong]] < need[wrong]]
        guess[wrong] = guess[guess[wrong]]
    return guess[1:] - 1


def _settled(pointer: I64) -> I64:
    """Follow pointers until they no longer change."""
    while True:
        further = pointer[pointer]
        if np.array_equal(further, pointer):
            return pointer
        pointer = further


def _innermost(parent: I64, duplicate: Bool, kept: I64) -> I64:
    innermost = np.arange(len(parent))
    has_duplicate = np.zeros(len(parent), np.bool_)
    has_duplicate[parent[duplicate]] = True
    last = np.flatnonzero(duplicate & ~has_duplicate)
    innermost[kept[last]] = last
    return innermost


def levels(parent: I64) -> list[Array]:
    """Group positions by depth, the deepest first."""
    depth = (parent != NO_PARENT).astype(np.int32)
    above = parent
    while (deeper := np.flatnonzero(above != NO_PARENT)).size:
        depth[deeper] += depth[above[deeper]]
        above = np.where(above == NO_PARENT, NO_PARENT, above[above])
    order = stable_order(depth)
    bounds = np.searchsorted(depth[order], np.arange(1, depth.max(initial=0) + 1))
    return list(reversed(np.split(order, bounds)))


def during(memory: MemoryEvents, start: I64, end: I64) -> tuple[I64, I64]:
    """Bytes on the CPU and on devices that the records from start to end add up to, both included."""
    first = np.searchsorted(memory.start_ns, start, side="left")
    after = np.searchsorted(memory.start_ns, end, side="right")
    on_cpu, on_device = (np.concatenate(([0], np.cumsum(sizes))) for sizes in sizes_by_place(memory))
    return on_cpu[after] - on_cpu[first], on_device[after] - on_device[first]


def sizes_by_place(memory: MemoryEvents) -> tuple[I64, I64]:
    """Bytes of every record as they count for the CPU and for devices."""
    on_cpu, on_device = (np.isin(memory.device_type, types) for types in (_CPU, _DEVICES))
    return memory.bytes * on_cpu, memory.bytes * on_device
