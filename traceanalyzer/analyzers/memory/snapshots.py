"""What does a snapshot of torch's memory show: what is held at the dump and at the peak, and by which line?

Blocks have the bytes that the program asked for and those that the allocator rounded them to; entries of the history
have only the first. So the level and its peak are in requested bytes, and what is active at the dump in both.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import msgspec
import numpy as np

from traceanalyzer.analyzers.memory import peak_picture, snapshot_history, snapshot_peak
from traceanalyzer.analyzers.memory.block_kinds import kinds_of
from traceanalyzer.analyzers.memory.levels import Curve, curve, curve_rows
from traceanalyzer.analyzers.memory.peak_picture import HeldOverTime, HeldStacks, MemorySpan
from traceanalyzer.analyzers.memory.snapshot_history import Levels
from traceanalyzer.analyzers.memory.snapshot_peak import GrowingLine, HeldKind, HeldLine, HeldSize, KeptLine, StackNames
from traceanalyzer.trace.memory_snapshot import ACTIONS, DeviceMemory, MemoryAnnotation, MemorySnapshot
from traceanalyzer.trace.table import I64, U8

_STEP = "Optimizer.step#"
"""How torch annotates the update of an optimizer (`torch/optim/optimizer.py`)."""
_LEAST_STEPS = 4
"""Updates from which on a growth is told (own choice: the first one makes the state of the optimizer)."""
_MOST_PARTS = 50
"""Parts of the program that a result keeps, those with the highest level first."""


class PrivatePool(msgspec.Struct, frozen=True):
    """Segments that only a graph or another owner of a pool may use."""

    pool: int
    """Number of the pool, in the order of the file."""
    segments: int
    """Number of its segments."""
    reserved_bytes: int
    """Bytes of its segments."""
    active_bytes: int
    """Bytes of its active blocks, as the allocator rounded them."""


class FailedAllocation(msgspec.Struct, frozen=True):
    """The last allocation of a history that failed: out of memory."""

    asked_bytes: int
    """Bytes that were asked for."""
    line: str | None
    """Innermost line of the program that asked; null if its stack has none."""
    device_free_bytes: int | None
    """Bytes that the device had free; null if the file does not say."""
    reserved_bytes: int | None
    """Bytes that the allocator held from the driver then; null if unknown."""
    level_bytes: int
    """Bytes that the program had asked for and held then."""
    inactive_bytes: int | None
    """Bytes that the allocator held and nobody used, at most; null if unknown."""
    largest_inactive_bytes: int | None
    """The largest inactive block, if nothing happened after it until the dump; else null."""
    is_fragmentation: bool
    """Whether what was inactive, with what the device had free, would have been enough in one piece."""
    failures: int
    """Number of allocations in the history that failed."""


class MemoryPart(msgspec.Struct, frozen=True):
    """A part of the program that it annotated."""

    name: str
    """As the program names it."""
    times: int
    """How often it began and ended in the history."""
    peak_bytes: int
    """Highest level of requested bytes within it."""
    growth_bytes: int
    """By how much the level rose from its begin to its end, all times together."""


class SnapshotDevice(msgspec.Struct, frozen=True):
    """The memory of one device."""

    device: int
    """Number of the device."""
    segments: int
    """Number of segments, which the allocator takes from the driver."""
    reserved_bytes: int
    """Bytes of all segments at the dump."""
    active_bytes: int
    """Bytes of the active blocks at the dump, as the allocator rounded them; those that wait to be freed count."""
    active_requested_bytes: int
    """Bytes of these that the program asked for."""
    inactive_bytes: int
    """Bytes of the segments that are in no active block."""
    unusable_bytes: int
    """Bytes of inactive blocks in segments that are partly in use and smaller than the largest request."""
    free_segments_bytes: int
    """Bytes of segments without an active block, which `torch.cuda.empty_cache()` gives back."""
    largest_inactive_bytes: int
    """The largest inactive block."""
    largest_request_bytes: int | None
    """The largest allocation that the history has, failed ones included; null without a history."""
    is_expandable: bool
    """Whether segments can grow (`expandable_segments:True`)."""
    history_entries: int
    """Number of entries of the history."""
    entries: dict[str, int]
    """These by what they say."""
    start_ns: int | None
    """Time of the first entry, in ns since 1970; null without a history."""
    span_ns: int
    """From the first entry to the last one."""
    stopped_before_dump: bool
    """Whether recording had stopped before the dump, because what the history leaves alive is not active."""
    start_requested_bytes: int
    """Requested bytes that were held before the first entry."""
    peak_requested_bytes: int
    """Highest level of requested bytes; without a history what is held at the dump."""
    peak_entry: int | None
    """The entry of the history at which it is reached; null if it is before the first one, and without a history."""
    peak_ns: int | None
    """Time of that entry, in ns since the first one; null where `peak_entry` is."""
    peak_older_bytes: int
    """Bytes of the peak that were allocated before the history; without one all."""
    unused_graph_bytes: int | None
    """Bytes of the peak that autograd had saved, if the history has no backward pass; null if it has one."""
    kinds: tuple[HeldKind, ...]
    """What lives at the peak by kind, the largest first; without a history at the dump."""
    lines: tuple[HeldLine, ...]
    """What lives at the peak by line of the program, the largest first; without a history at the dump."""
    sizes: tuple[HeldSize, ...]
    """What was allocated in the history and lives at the peak, by size."""
    kept: tuple[KeptLine, ...]
    """Lines whose blocks were kept again and again, the largest first."""
    parts: tuple[MemoryPart, ...]
    """Annotated parts of the program, those with the highest level first."""
    steps: int
    """Number of updates of an optimizer that the history has, by their annotations."""
    growth_bytes_per_step: float | None
    """Median change of the level from the end of one update to the next, without the first one; null with fewer than
    four."""
    growing: tuple[GrowingLine, ...]
    """Lines that take more from step to step, the one that grows most first; empty with fewer than four updates."""
    pools: tuple[PrivatePool, ...]
    """Private pools, in the order of the file."""
    failure: FailedAllocation | None
    """The last allocation that failed; null if none did."""
    retries: int
    """How often segments were given back right before one was taken or an allocation failed."""
    requested: Curve
    """Requested bytes that the program held, over time."""
    reserved: Curve | None
    """Bytes that the allocator held from the driver, over time; null where the history does not show it."""
    over_time: HeldOverTime | None = None
    """The level by kind, over time; null without a history, and in reports of old versions."""
    stacks: HeldStacks | None = None
    """What lives at the peak, or without a history at the dump, by kind and stack; null in reports of old versions."""
    running: tuple[MemorySpan, ...] = ()
    """When setup, forward and backward passes and updates of the optimizer ran, by the stacks of allocations; the
    longest ones, in the order of time."""
    annotated: tuple[MemorySpan, ...] = ()
    """When the parts ran that the program annotated; the longest ones, in the order of time."""

    @property
    def has_history(self) -> bool:
        """Whether any allocation was recorded."""
        return self.entries.get("alloc", 0) > 0


class MemorySnapshotUse(msgspec.Struct, frozen=True):
    """What a memory snapshot shows."""

    devices: tuple[SnapshotDevice, ...]
    """One entry for each device, by its number; at least one."""
    settings: dict[str, str]
    """Settings of the allocator that the file has, as texts."""
    host_reserved_bytes: int | None
    """Pinned host memory that the allocator of the host holds; null if the file does not say."""
    host_active_bytes: int | None
    """Bytes of it that are in use."""
    host_peak_bytes: int | None = None
    """Highest level of pinned host memory that the program asked for; null without a history of it (torch before 2.14,
    or recorded without `record_pinned_host_memory=True`)."""
    host_lines: tuple[HeldLine, ...] = ()
    """What lives at that peak by line of the program, the largest first."""

    @property
    def fullest(self) -> SnapshotDevice:
        """The device to speak of: one where an allocation failed, else the one with the highest peak."""
        return max(
            self.devices,
            key=lambda device: (device.failure is not None, device.peak_requested_bytes, device.reserved_bytes),
        )


def analyze(snapshot: MemorySnapshot) -> MemorySnapshotUse:
    """What is held at the dump and at the peak."""
    names = StackNames(snapshot.stacks)
    host = None if snapshot.host is None or not len(snapshot.host.history) else snapshot_history.levels(snapshot.host)
    return MemorySnapshotUse(
        devices=tuple(_device(device, snapshot, names) for device in snapshot.devices),
        settings={name: str(value) for name, value in snapshot.settings.items() if value not in ("", -1, 0.0, False)},
        host_reserved_bytes=snapshot.host_reserved,
        host_active_bytes=snapshot.host_active,
        host_peak_bytes=None if host is None else host.peak,
        host_lines=() if host is None else _lines(host, names),
    )


def _lines(level: Levels, names: StackNames) -> tuple[HeldLine, ...]:
    kinds = kinds_of(level.lifetimes, names.stacks)
    return snapshot_peak.lines_of(level.lifetimes, level.alive_at_peak(), kinds, names)


def _device(device: DeviceMemory, snapshot: MemorySnapshot, names: StackNames) -> SnapshotDevice:
    history = device.history
    level = snapshot_history.levels(device)
    largest = _largest(history.size[np.isin(history.action, (ACTIONS.index("alloc"), ACTIONS.index("oom")))])
    space = _space(device, largest or 0)
    time = _times(history.time_us)
    peak = level.peak_entry if level.peak_entry >= 0 else None
    ends = _step_ends(device, snapshot.annotations)
    at_steps = np.append(level.start, level.after)[ends]
    has_steps = len(ends) >= _LEAST_STEPS
    kinds = kinds_of(level.lifetimes, names.stacks)
    contents = snapshot_peak.contents(level, kinds, names)
    return SnapshotDevice(
        device=device.device,
        segments=len(device.segments),
        reserved_bytes=space.reserved,
        active_bytes=space.active,
        active_requested_bytes=space.active_requested,
        inactive_bytes=space.reserved - space.active,
        unusable_bytes=space.unusable,
        free_segments_bytes=space.free_segments,
        largest_inactive_bytes=space.largest_inactive,
        largest_request_bytes=largest,
        is_expandable=bool(device.segments.is_expandable.any()),
        history_entries=len(history),
        entries=dict(sorted(Counter(ACTIONS[code] for code in history.action.tolist()).items())),
        start_ns=int(history.time_us[0]) * 1000 if len(history) and history.time_us[0] else None,
        span_ns=int(time[-1]) if len(time) else 0,
        stopped_before_dump=level.stopped_before_dump,
        start_requested_bytes=level.start,
        peak_requested_bytes=level.peak,
        peak_entry=peak,
        peak_ns=None if peak is None else int(time[peak]),
        peak_older_bytes=contents.older_bytes,
        unused_graph_bytes=contents.unused_graph_bytes,
        kinds=contents.kinds,
        lines=contents.lines,
        sizes=contents.sizes,
        kept=snapshot_peak.kept(level, names),
        parts=_parts(device, level, snapshot.annotations),
        steps=len(at_steps),
        growth_bytes_per_step=float(np.median(np.diff(at_steps[1:]))) if has_steps else None,
        growing=snapshot_peak.growing(level, names, ends) if has_steps else (),
        pools=_pools(device),
        failure=_failure(device, level, names, space.largest_inactive),
        retries=snapshot_history.retries(device),
        requested=curve(time, level.after),
        reserved=None if level.reserved is None else curve(time, level.reserved),
        over_time=_over_time(level, kinds, time) if len(time) else None,
        stacks=peak_picture.held_stacks(level.lifetimes, kinds, level.alive_at_peak(), names.stacks, level.peak),
        running=peak_picture.running_spans(level.lifetimes, names.stacks, time),
        annotated=peak_picture.annotated_spans(
            device.device, snapshot.annotations, history.time_us, int(time[-1]) if len(time) else 0
        ),
    )


def _over_time(level: Levels, kinds: U8, time: I64) -> HeldOverTime:
    """The level by kind at the points of its curve."""
    entries = curve_rows(time, level.after)
    return peak_picture.held_over_time(
        level.lifetimes, kinds, level.known(), entries, time[entries], level.after[entries]
    )


def _largest(sizes: I64) -> int | None:
    return int(sizes.max()) if len(sizes) else None


class _Space(NamedTuple):
    """Bytes of the segments and blocks of a device at the dump."""

    reserved: int
    active: int
    active_requested: int
    unusable: int
    """Of inactive blocks beside active ones that are smaller than the largest request."""
    free_segments: int
    """Of segments without an active block."""
    largest_inactive: int
    """Of the largest inactive block; 0 if there is none."""


def _space(device: DeviceMemory, largest_request: int) -> _Space:
    segments, blocks = device.segments, device.blocks
    is_active = snapshot_history.is_active(device)
    in_use = np.bincount(blocks.segment[is_active], minlength=len(segments)) > 0
    is_unusable = ~is_active & in_use[blocks.segment] & (blocks.size < largest_request)
    return _Space(
        reserved=int(segments.total_size.sum()),
        active=int(blocks.size[is_active].sum()),
        active_requested=int(blocks.requested[is_active].sum()),
        unusable=int(blocks.size[is_unusable].sum()),
        free_segments=int(segments.total_size[~in_use].sum()),
        largest_inactive=_largest(blocks.size[~is_active]) or 0,
    )


def _times(time_us: I64) -> I64:
    """Times of entries in ns since the first one; they never run backwards."""
    if not len(time_us):
        return time_us
    return np.maximum.accumulate(np.where(time_us > 0, time_us - time_us[0], 0)) * 1000


def _pools(device: DeviceMemory) -> tuple[PrivatePool, ...]:
    segments, blocks = device.segments, device.blocks
    is_active = snapshot_history.is_active(device)
    pool_of_block = segments.pool[blocks.segment]
    return tuple(
        PrivatePool(
            pool=pool,
            segments=int((segments.pool == pool).sum()),
            reserved_bytes=int(segments.total_size[segments.pool == pool].sum()),
            active_bytes=int(blocks.size[is_active & (pool_of_block == pool)].sum()),
        )
        for pool in sorted(set(segments.pool.tolist()) - {-1})
    )


def _failure(device: DeviceMemory, level: Levels, names: StackNames, largest: int) -> FailedAllocation | None:
    history = device.history
    failed = np.flatnonzero(history.action == ACTIONS.index("oom"))
    if not len(failed):
        return None
    last = int(failed[-1])
    later = history.action[last + 1 :]
    is_last = not np.isin(later, [ACTIONS.index(name) for name in ("alloc", "free_completed", "segment_alloc")]).any()
    reserved = int(device.segments.total_size.sum()) if is_last else None
    if reserved is None and level.reserved is not None:
        reserved = int(level.reserved[last])
    held = int(level.after[last])
    active = int(device.blocks.size[snapshot_history.is_active(device)].sum()) if is_last else held
    inactive = None if reserved is None else max(0, reserved - active)
    asked = int(history.size[last])
    free = int(history.device_free[last])
    enough = inactive is not None and inactive + max(0, free) >= asked
    return FailedAllocation(
        asked_bytes=asked,
        line=names.line(int(history.frames[last])),
        device_free_bytes=free if free >= 0 else None,
        reserved_bytes=reserved,
        level_bytes=held,
        inactive_bytes=inactive,
        largest_inactive_bytes=largest if is_last else None,
        is_fragmentation=enough and (not is_last or largest < asked),
        failures=len(failed),
    )


def _step_ends(device: DeviceMemory, annotations: tuple[MemoryAnnotation, ...]) -> I64:
    """How many entries lie before the end of each update of an optimizer; none if their clock is unknown."""
    ends = [
        mark.time_us
        for mark in annotations
        if mark.device == device.device and mark.stage == "END" and mark.name.startswith(_STEP)
    ]
    time = device.history.time_us
    if not len(time) or not time[0]:
        return np.zeros(0, dtype=np.int64)
    within = [end for end in sorted(ends) if end >= time[0]]
    found: I64 = np.searchsorted(time, within).astype(np.int64)
    return found


def _parts(device: DeviceMemory, level: Levels, annotations: tuple[MemoryAnnotation, ...]) -> tuple[MemoryPart, ...]:
    """The annotated parts; those of one name together, an end belongs to the last begin of its name."""
    time = device.history.time_us
    if not len(time):
        return ()
    before = np.append(level.start, level.after)
    begun: dict[str, list[int]] = {}
    found: dict[str, list[int]] = {}
    for mark in annotations:
        if mark.device != device.device:
            continue
        if mark.stage == "START":
            begun.setdefault(mark.name, []).append(mark.time_us)
        elif mark.stage == "END" and begun.get(mark.name):
            first, last = np.searchsorted(time, [begun[mark.name].pop(), mark.time_us])
            part = found.setdefault(mark.name, [0, 0, 0])
            part[0] += 1
            part[1] = max(part[1], int(before[first : last + 1].max()))
            part[2] += int(before[last] - before[first])
    parts = [MemoryPart(name, *figures) for name, figures in found.items()]
    return tuple(sorted(parts, key=lambda part: (-part.peak_bytes, part.name))[:_MOST_PARTS])
