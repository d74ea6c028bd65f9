"""How much memory is in use, when is the peak, which operators allocate it, and does it grow?

Levels are the memory that PyTorch's allocator gave to tensors (allocated) and that it has from the driver (reserved),
by its own records. Memory that other libraries take from the driver is in neither.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np

from traceanalyzer.analyzers.memory import holders, levels, peak_picture, snapshot_peak, trace_blocks
from traceanalyzer.analyzers.memory.block_kinds import kinds_of
from traceanalyzer.analyzers.memory.holders import OperatorMemory, PeakContents
from traceanalyzer.analyzers.memory.levels import Curve, Ledger, StepMemory, curve, curve_rows
from traceanalyzer.analyzers.memory.peak_picture import HeldOverTime, HeldStacks
from traceanalyzer.analyzers.memory.snapshot_peak import HeldKind
from traceanalyzer.analyzers.memory.trace_blocks import TraceBlocks
from traceanalyzer.report.message import Text
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.context import Context
from traceanalyzer.trace.table import I64, UNKNOWN


class DeviceMemoryUse(msgspec.Struct, frozen=True):
    """The memory of one device, within the chosen steps if a choice was made."""

    device: str
    """Which memory it is: `CPU`, or `GPU` and the id of the device."""
    peak_allocated_bytes: int | None
    """Highest number of bytes that the allocator had handed out; null where the trace has no totals (torch 1.8 to
    1.10)."""
    peak_reserved_bytes: int | None
    """Highest number of bytes that the caching allocator held from the driver; null on the CPU, which has none, and
    where unknown."""
    capacity_bytes: int | None
    """Memory of the device in bytes; null where the trace does not describe it, and on the CPU."""
    is_relative: bool
    """Whether levels count from an unknown level at the start of the trace, because no record has a total."""
    allocations: int
    """Number of allocations."""
    allocated_bytes: int
    """Bytes of all allocations, whether given back or not."""
    frees: int
    """Number of releases."""
    freed_bytes: int
    """Bytes of all releases."""
    foreign_records: int
    """Number of records of memory that the allocator does not manage (shared memory of loader workers); they are no
    part of levels."""
    unattributed_allocations: int
    """Number of allocations outside of operators."""
    unattributed_bytes: int
    """Bytes of the allocations outside of operators."""
    allocated: Curve
    """Bytes that the allocator had handed out, over time."""
    reserved: Curve | None
    """Bytes that the caching allocator held from the driver, over time; null where unknown."""
    steps: tuple[StepMemory, ...]
    """Memory of each step, in the order of time."""
    growth_bytes_per_step: float | None
    """Slope of the levels at the ends of the steps, in bytes per step; null with fewer than two steps."""
    at_peak: PeakContents | None
    """Blocks in memory at the peak; null if records have no addresses."""
    kinds: tuple[HeldKind, ...] = ()
    """What is in memory at the peak by kind, the largest first, in bytes as the allocator rounded them; empty for the
    CPU, and if records have no addresses or no totals."""
    over_time: HeldOverTime | None = None
    """The level by kind, over time; null where `kinds` is empty."""
    stacks: HeldStacks | None = None
    """What is in memory at the peak by kind and stack; null where `kinds` is empty."""


class MemoryUse(msgspec.Struct, frozen=True):
    """Memory that was taken and given back on every device."""

    devices: tuple[DeviceMemoryUse, ...]
    """One entry per device: accelerators by id, then the CPU."""
    operators: tuple[OperatorMemory, ...]
    """Memory by device and operator, the operator that took most by itself first."""
    steps_from: str | None
    """How the steps were found; see `steps_from` of the trace. Null if there are none."""
    records_without_device: int
    """Number of records that name no device; they are counted nowhere else."""

    def with_peak(self) -> list[tuple[DeviceMemoryUse, int, int]]:
        """Devices with their peak of allocated memory and their capacity in bytes, where both are known."""
        return [
            (device, device.peak_allocated_bytes, device.capacity_bytes)
            for device in self.devices
            if device.peak_allocated_bytes and device.capacity_bytes and not device.is_relative
        ]


def analyze(context: Context) -> MemoryUse:
    """Peaks, curves, operators, steps, and what is in memory at the peak."""
    result = MemoryUse(
        devices=tuple(_device(context, ledger) for ledger in context.cached(levels.ledgers)),
        operators=holders.by_operator(context),
        steps_from=context.cached(levels.host_steps).found_by,
        records_without_device=levels.without_device(context),
    )
    context.release(holders.nodes_of_records)
    return result


def _device(context: Context, ledger: Ledger) -> DeviceMemoryUse:
    rows = np.flatnonzero(context.in_scope(ledger.time_ns))
    taken = rows[ledger.change_bytes[rows] > 0]
    given = rows[ledger.change_bytes[rows] < 0]
    outside = taken[~context.cached(holders.is_operator)[holders.operator_of(context, ledger)[taken]]]
    steps = levels.by_step(ledger, context.cached(levels.host_steps))
    level = ledger.level_bytes[rows]
    peak = int(level.argmax()) if len(rows) else None
    held = rows[ledger.reserved_bytes[rows] != UNKNOWN]
    reserved = ledger.reserved_bytes[held]
    blocks = next((one for one in context.cached(trace_blocks.stacked) if one.ledger.device == ledger.device), None)
    contents = _Held() if blocks is None or peak is None or ledger.is_relative else _held(blocks, rows, int(rows[peak]))
    return DeviceMemoryUse(
        device=ledger.device,
        peak_allocated_bytes=None if ledger.is_relative or peak is None else int(level[peak]),
        peak_reserved_bytes=int(reserved.max()) if len(held) else None,
        capacity_bytes=_capacity(context, ledger),
        is_relative=ledger.is_relative,
        allocations=len(taken),
        allocated_bytes=int(ledger.change_bytes[taken].sum()),
        frees=len(given),
        freed_bytes=-int(ledger.change_bytes[given].sum()),
        foreign_records=int(ledger.is_foreign[rows].sum()),
        unattributed_allocations=len(outside),
        unattributed_bytes=int(ledger.change_bytes[outside].sum()),
        allocated=curve(ledger.time_ns[rows], level),
        reserved=curve(ledger.time_ns[held], reserved) if len(held) else None,
        steps=steps,
        growth_bytes_per_step=levels.growth(steps),
        at_peak=None if peak is None else holders.at_peak(context, ledger, int(rows[peak])),
        kinds=contents.kinds,
        over_time=contents.over_time,
        stacks=contents.stacks,
    )


class _Held(NamedTuple):
    """What the blocks of a device hold."""

    kinds: tuple[HeldKind, ...] = ()
    over_time: HeldOverTime | None = None
    stacks: HeldStacks | None = None


def _held(found: TraceBlocks, rows: I64, peak: int) -> _Held:
    """What is held at a record, and after others; what was allocated before the trace is unknown."""
    ledger, blocks = found.ledger, found.blocks
    kinds = kinds_of(blocks, found.stacks)
    level = ledger.level_bytes
    alive = blocks.alive_at(peak)
    points = rows[curve_rows(ledger.time_ns[rows], level[rows])]
    every = np.arange(len(blocks))
    return _Held(
        snapshot_peak.held_kinds(blocks, alive, kinds, int(level[peak])),
        peak_picture.held_over_time(blocks, kinds, every, points, ledger.time_ns[points], level[points]),
        peak_picture.held_stacks(blocks, kinds, alive, found.stacks, int(level[peak])),
    )


def _capacity(context: Context, ledger: Ledger) -> int | None:
    if ledger.device == levels.CPU:
        return None
    return next((device.memory_bytes for device in context.trace.info.devices if device.id == ledger.number), None)


RECORDS = Need(
    Text("skip-no-memory", "the trace has no memory records: record them with profile_memory=True"),
    lambda context: len(context.trace.memory) > 0,
)
ANALYSES = (Analysis(320, "memory", MemoryUse, analyze, needs=(RECORDS,)),)
