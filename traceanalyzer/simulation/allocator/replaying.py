"""Replays the allocations and frees of a history through the model of the allocator, unchanged or with changes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from traceanalyzer.simulation.allocator.beginning import place
from traceanalyzer.simulation.allocator.blocks import HeldBlock
from traceanalyzer.simulation.allocator.caching import CachingAllocator
from traceanalyzer.simulation.allocator.changes import ChangedBlocks, MemoryChange, changed
from traceanalyzer.simulation.allocator.recording import RecordedMemory
from traceanalyzer.structure.block_lifetimes import BEFORE
from traceanalyzer.trace.table import I64


class ReplayedMemory(msgspec.Struct, frozen=True):
    """What a program needs, by a replay."""

    requested_peak: int
    """Most bytes that were requested and not yet freed."""
    requested_peak_entry: int
    """Entry of the history at which it is reached first; -1 for the beginning."""
    active_peak: int
    """Most bytes of blocks in use, as rounded by the allocator."""
    reserved_peak: int
    """Most bytes that the allocator held from the device."""
    reserved_peak_entry: int
    """Entry of the history at which it is reached first; -1 for the beginning."""
    reserved_end: int
    """Bytes that the allocator holds after the last entry."""
    retries: int
    """How often a request did not fit until cached segments were freed."""
    failures: int
    """How many requests do not fit at all: of those that failed, and of others with bytes beyond the limit."""
    moved: int
    """How many blocks of the history lie at another address than recorded; of the unchanged program none should."""


def replay(
    memory: RecordedMemory, changes: Sequence[MemoryChange] = (), *, keeps_cached: bool = True
) -> ReplayedMemory:
    """Peaks of a program with changes.

    Args:
        memory: Its recording.
        changes: All at once; none for the program as it is.
        keeps_cached: Whether memory stays reserved that was cached when the history began. It was needed by what went
            before, which the changes would have made smaller, too: to compare a program with and without changes, leave
            it out of both.
    """
    blocks = changed(memory.blocks, changes, memory.settings)
    events = _Events(memory, blocks)
    requested_peak, requested_at = _requested(memory, blocks, events)
    return _Replay(memory, blocks, keeps_cached=keeps_cached).run(events, requested_peak, requested_at)


def requested_peak(memory: RecordedMemory, changes: Sequence[MemoryChange] = ()) -> int:
    """Most bytes that a program with changes requests at once; much faster than a whole replay."""
    return requested_peak_at(memory, changes)[0]


def requested_peak_at(memory: RecordedMemory, changes: Sequence[MemoryChange] = ()) -> tuple[int, int]:
    """As `requested_peak`, and the entry at which it is reached; -1 for the beginning."""
    blocks = changed(memory.blocks, changes, memory.settings)
    return _requested(memory, blocks, _Events(memory, blocks))


class _Events:
    """What happens, in order. A code is a row that is allocated, or `~row` for a row that is freed.

    Higher codes are requests that failed, by their position, and after them one for an emptied cache.
    """

    def __init__(self, memory: RecordedMemory, blocks: ChangedBlocks) -> None:
        recorded = memory.blocks
        rows = np.flatnonzero(~blocks.is_dropped)
        born = rows[recorded.born[rows] > BEFORE]
        dying = rows[blocks.freed[rows] < recorded.entries]
        self.empty_cache = len(recorded) + len(memory.failures)
        failures = np.arange(len(recorded), self.empty_cache)
        releases = np.full(len(memory.releases), self.empty_cache)
        # What is freed earlier than recorded is freed after the entry, so frees come last.
        left, since, until = blocks.gaps
        time = np.concatenate(
            (until, recorded.born[born], memory.failures, memory.releases, blocks.freed[dying], since)
        )
        order = np.argsort(time, kind="stable")
        self.code: I64 = np.concatenate((left, born, failures, releases, ~dying, ~left))[order]
        self.entry: I64 = time[order]


def _requested(memory: RecordedMemory, blocks: ChangedBlocks, events: _Events) -> tuple[int, int]:
    """The highest level of requested bytes, and the entry at which it is reached."""
    before = (memory.blocks.born == BEFORE) & ~blocks.is_dropped
    start = int(blocks.requested[before].sum())
    code = events.code
    is_alloc, is_free = (code >= 0) & (code < len(memory.blocks)), code < 0
    change = np.zeros(len(code), np.int64)
    change[is_alloc] = blocks.requested[code[is_alloc]]
    change[is_free] = -blocks.requested[~code[is_free]]
    levels = np.append(start, start + np.cumsum(change))
    at = int(levels.argmax())
    return int(levels[at]), BEFORE if at == 0 else int(events.entry[at - 1])


class _Replay:
    """One run of the allocator."""

    def __init__(self, memory: RecordedMemory, blocks: ChangedBlocks, *, keeps_cached: bool) -> None:
        self.memory = memory
        self.failures = self.moved = 0
        self.addresses = memory.blocks.address.tolist()
        self.requested = blocks.requested.tolist()
        self.stream = memory.blocks.stream.tolist()
        self.private = memory.private.tolist()
        self.allocator = CachingAllocator(memory.settings, addresses=memory.addresses)
        ranges, recorded = memory.ranges, memory.blocks
        self.held = place(self.allocator, ranges, recorded, blocks.stays, keeps_cached=keeps_cached)
        self.allocator.settings = blocks.settings
        before = (recorded.born == BEFORE) & ~blocks.stays & ~blocks.is_dropped
        for row in np.flatnonzero(before).tolist():
            self.held[row] = self._allocate(row)
        self.allocator.limit = memory.limit

    def run(self, events: _Events, requested_peak: int, requested_at: int) -> ReplayedMemory:
        """All events in their order."""
        allocator, held, count = self.allocator, self.held, len(self.requested)
        active_peak, reserved_peak, reserved_at = allocator.active, allocator.reserved, BEFORE
        for code, entry in zip(events.code.tolist(), events.entry.tolist(), strict=True):
            if code < 0:
                allocator.free(held.pop(~code))
                continue
            if code < count:
                block = held[code] = self._allocate(code)
                self.moved += block.address != self.addresses[code]
                active_peak = max(active_peak, allocator.active)
            elif code == events.empty_cache:
                allocator.release()
            else:
                self._try(code - count)
            if allocator.reserved > reserved_peak:
                reserved_peak, reserved_at = allocator.reserved, entry
        return ReplayedMemory(
            requested_peak=requested_peak,
            requested_peak_entry=requested_at,
            active_peak=active_peak,
            reserved_peak=reserved_peak,
            reserved_peak_entry=reserved_at,
            reserved_end=allocator.reserved,
            retries=allocator.retries,
            failures=self.failures,
            moved=self.moved,
        )

    def _allocate(self, row: int) -> HeldBlock:
        """The block of a row; if there is no memory for it, the device is taken to have that much more."""
        allocator = self.allocator
        block = allocator.allocate(self.requested[row], self.stream[row], self.private[row])
        if block is not None:
            return block
        self.failures += 1
        limit, allocator.limit = allocator.limit, None
        block = self._allocate(row)
        allocator.limit = limit
        return block

    def _try(self, failure: int) -> None:
        """A request that failed: what went on is not known, so its block is freed at once if it fits now."""
        size, stream = int(self.memory.failed_bytes[failure]), int(self.memory.failed_stream[failure])
        block = self.allocator.allocate(size, stream)
        if block is None:
            self.failures += 1
        else:
            self.allocator.free(block)
