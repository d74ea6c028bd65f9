"""What would a program save of its memory, by a replay of what its allocator did?

Traces and very long histories are replayed without an allocator: what changes save of requested bytes is known then,
and what they save of reserved memory is not.

Each change is replayed alone and after all others, so that its saving is an interval; all together have one of their
own. The unchanged replay must give the recorded peak: by how much it does not is the error of the model.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from traceanalyzer.analyzers.memory import RECORDS
from traceanalyzer.analyzers.memory.block_kinds import kinds_of
from traceanalyzer.analyzers.memory.snapshot_peak import HeldLine, StackNames, lines_of
from traceanalyzer.analyzers.memory.snapshots import MemorySnapshotUse, SnapshotDevice
from traceanalyzer.analyzers.memory.trace_blocks import stacked
from traceanalyzer.simulation.allocator.ideas import MemoryIdea, ProposedChange, proposed
from traceanalyzer.simulation.allocator.recording import RecordedMemory, recorded_memory, without_segments
from traceanalyzer.simulation.allocator.replaying import ReplayedMemory, replay, requested_peak, requested_peak_at
from traceanalyzer.simulation.allocator.savings import MemoryProposal, SavedBytes, requested_savings, savings
from traceanalyzer.simulation.allocator.sizes import settings_of
from traceanalyzer.structure.analysis import Analysis
from traceanalyzer.structure.block_lifetimes import Lifetimes, Obstacle
from traceanalyzer.structure.context import Context
from traceanalyzer.trace.memory_snapshot import DeviceMemory, MemorySnapshot
from traceanalyzer.trace.table import U8

_MOST_BLOCKS = 100_000
"""Blocks of a history that is replayed (own choice: it takes seconds each time)."""
_MOST_REQUESTED = 3_000_000
"""Blocks of a history that is replayed without an allocator (own choice: it takes seconds for all changes)."""
_WORTH = 0.005
"""Share of the peak that a change must save to be replayed (own choice)."""
_MOST_LINES = 5


class MemorySaving(msgspec.Struct, frozen=True):
    """What a change of the program saves."""

    idea: str
    """What is changed: `checkpoint`, `halved`, `logits`, `state`, `gradients-freed`, `gradients-zeroed`,
    `gradients-once`, `no-graph`, `not-kept`, or `expandable`."""
    blocks: int
    """Number of blocks at the peak that it is about."""
    held_bytes: int
    """Bytes of these that the program asked for."""
    parts: int | None
    """Number of layers that could be checkpointed; null for other changes."""
    saved: SavedBytes
    """By how much the peaks get lower."""
    fits: bool | None
    """Whether all allocations that failed fit then, by the cautious estimate; null if none fails in the replay."""
    lines: tuple[HeldLine, ...]
    """Lines that allocate these blocks, or free them where they are freed late, the largest first."""


class ReplayedDevice(msgspec.Struct, frozen=True):
    """The memory of one device, replayed."""

    device: int
    """Number of the device."""
    obstacle: str | None
    """Why it cannot be replayed: `no-history`, `stopped` (recording had stopped before the dump), `contradiction`
    (entries are missing), `outside` (blocks lie in no segment), `impossible` (sizes that no device has); `long` and
    `trace` (which has no segments): what changes save of requested bytes is known; null if it can."""
    recorded_peak_bytes: int | None
    """Highest number of bytes that were reserved, as recorded; null if it is not replayed."""
    replayed_peak_bytes: int | None
    """The same by the unchanged replay."""
    active_peak_bytes: int | None
    """Highest number of bytes of blocks in use, as rounded, by the unchanged replay."""
    requested_peak_bytes: int | None
    """Highest number of bytes that the program asked for and held, by the unchanged replay."""
    moved_blocks: int | None
    """Blocks that the unchanged replay puts at other addresses than were recorded."""
    changes: tuple[MemorySaving, ...]
    """What could be changed, that which saves most first."""
    together: SavedBytes | None
    """What all of these save together; null if there are none."""

    def saving(self, idea: MemoryIdea) -> MemorySaving | None:
        """What one of the changes saves; None if it was not tried, or saves nothing."""
        return next((one for one in self.changes if one.idea == idea), None)


class MemoryReplay(msgspec.Struct, frozen=True):
    """What a program would save of its memory."""

    devices: tuple[ReplayedDevice, ...]
    """One entry for each device, by its number."""


def analyze(snapshot: MemorySnapshot, found: MemorySnapshotUse) -> MemoryReplay:
    """Replay each device.

    Args:
        snapshot: What a process wrote.
        found: What it shows.
    """
    names = StackNames(snapshot.stacks)
    settings = settings_of(snapshot.settings)
    devices = []
    for device, shown in zip(snapshot.devices, found.devices, strict=True):
        memory = recorded_memory(device, settings)
        if isinstance(memory, Obstacle):
            devices.append(_not_replayed(device, str(memory)))
        elif len(memory.blocks) > _MOST_REQUESTED:
            devices.append(_not_replayed(device, "long"))
        elif len(memory.blocks) > _MOST_BLOCKS:
            kept = [row.line for row in shown.kept]
            devices.append(_without_allocator(device.device, "long", memory.blocks, names, kept))
        else:
            devices.append(_replayed(device, memory, shown, names))
    return MemoryReplay(tuple(devices))


def of_trace(context: Context) -> MemoryReplay:
    """What changes save of the bytes of a trace's blocks."""
    return MemoryReplay(
        tuple(
            _without_allocator(found.ledger.number, "trace", found.blocks, StackNames(found.stacks), ())
            for found in context.cached(stacked)
            if not found.ledger.is_relative
        )
    )


def _without_allocator(
    device: int, obstacle: str, blocks: Lifetimes, names: StackNames, kept_lines: Sequence[str]
) -> ReplayedDevice:
    """What changes save of requested bytes."""
    memory, kinds = without_segments(blocks), kinds_of(blocks, names.stacks)
    peak, entry = requested_peak_at(memory)
    kept = [
        one
        for one in proposed(memory, kinds, names, kept_lines)
        if one.idea is not MemoryIdea.EXPANDABLE
        and (one.idea is not MemoryIdea.CHECKPOINT or names.has_lines)
        and peak - requested_peak(memory, one.proposal.changes) >= _WORTH * peak
    ]
    each, together = requested_savings(memory, [one.proposal for one in kept])
    changes = [_saving(one, own, memory, kinds, names, entry) for one, own in zip(kept, each, strict=True)]
    changes.sort(key=lambda one: -one.saved.most)
    return ReplayedDevice(device, obstacle, None, None, None, peak, None, tuple(changes), together if kept else None)


def _not_replayed(device: DeviceMemory, obstacle: str) -> ReplayedDevice:
    return ReplayedDevice(device.device, obstacle, None, None, None, None, None, (), None)


def _replayed(device: DeviceMemory, memory: RecordedMemory, shown: SnapshotDevice, names: StackNames) -> ReplayedDevice:
    unchanged = replay(memory)
    kinds = kinds_of(memory.blocks, names.stacks)
    peak = unchanged.requested_peak
    kept = [
        one
        for one in proposed(memory, kinds, names, [row.line for row in shown.kept])
        if _is_worth(memory, one, unchanged)
    ]
    saved = savings(memory, [one.proposal for one in kept])
    entry, has_failed = unchanged.requested_peak_entry, unchanged.failures > 0
    changes = [
        _saving(one, own, memory, kinds, names, entry, has_failed=has_failed)
        for one, own in zip(kept, saved.each, strict=True)
    ]
    changes.sort(key=lambda one: -one.saved.most)
    return ReplayedDevice(
        device=device.device,
        obstacle=None,
        recorded_peak_bytes=memory.reserved_peak,
        replayed_peak_bytes=unchanged.reserved_peak,
        active_peak_bytes=unchanged.active_peak,
        requested_peak_bytes=peak,
        moved_blocks=unchanged.moved,
        changes=tuple(changes),
        together=saved.together if kept else None,
    )


def _is_worth(memory: RecordedMemory, change: ProposedChange, unchanged: ReplayedMemory) -> bool:
    """Whether a change saves anything to speak of, by the cheapest way to know."""
    least, changes = _WORTH * unchanged.requested_peak, change.proposal.changes
    if change.idea is not MemoryIdea.EXPANDABLE:
        return unchanged.requested_peak - requested_peak(memory, changes) >= least
    before, after = (replay(memory, own, keeps_cached=False) for own in ((), changes))
    return before.reserved_peak - after.reserved_peak >= least or after.failures < before.failures


def _saving(
    change: ProposedChange,
    saved: SavedBytes,
    memory: RecordedMemory,
    kinds: U8,
    names: StackNames,
    entry: int,
    *,
    has_failed: bool = False,
) -> MemorySaving:
    rows = change.rows[np.isin(change.rows, memory.blocks.alive_at(entry))]
    lines = lines_of(memory.blocks, rows, kinds, names, frees=change.idea is MemoryIdea.GRADIENTS_FREED)
    return MemorySaving(
        idea=str(change.idea),
        blocks=len(rows),
        held_bytes=int(memory.blocks.requested[rows].sum()),
        parts=change.parts,
        saved=saved,
        fits=_fits(memory, change.proposal) if has_failed else None,
        lines=lines[:_MOST_LINES],
    )


def _fits(memory: RecordedMemory, proposal: MemoryProposal) -> bool:
    changes = proposal.changes if proposal.cautious is None else proposal.cautious
    return replay(memory, changes, keeps_cached=False).failures == 0


ANALYSES = (Analysis(321, "memory_replay", MemoryReplay, of_trace, needs=(RECORDS,)),)
