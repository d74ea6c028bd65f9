"""When each block of the caching allocator lived, by the history of a memory snapshot.

A block is known from its allocation, from its free if the ring has lost the allocation, or only from the dump. Its
bytes count until the free is completed: a block that another stream still uses is not given to anybody else.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec
import numpy as np
from numpy.typing import NDArray

from traceanalyzer.trace.memory_snapshot import ACTIONS, STATES, DeviceMemory, MemoryHistory
from traceanalyzer.trace.table import I32, I64, UNKNOWN, Array, Bool, take_or

BEFORE = -1
"""Entry at which a block was allocated whose allocation is not in the history."""
_ALLOC, _FREE = ACTIONS.index("alloc"), ACTIONS.index("free_completed")
_SEGMENTS = tuple(ACTIONS.index(name) for name in ("segment_alloc", "segment_free", "segment_map", "segment_unmap"))
_MOST_BYTES = 1 << 40
"""Size of a block or a segment: more than any device has."""
_MOST_MOVED = 1 << 45
"""Bytes of pages that are mapped and unmapped in a history: a million entries of 20 MiB."""
_ACTIVE = (STATES.index("active_allocated"), STATES.index("active_pending_free"))


class Obstacle(StrEnum):
    """Why the history of a device cannot be replayed."""

    NO_HISTORY = "no-history"
    """No allocation was recorded: it is only known what is held at the dump."""
    STOPPED = "stopped"
    """Recording had stopped before the dump: blocks at the dump are not those that the history leaves."""
    CONTRADICTION = "contradiction"
    """An address is given while it is in use, or freed twice: entries in between are missing."""
    OUTSIDE = "outside"
    """Blocks of the history lie in no segment of the dump or the history."""
    IMPOSSIBLE = "impossible"
    """Sizes that no device has."""


class Lifetimes(msgspec.Struct, frozen=True, eq=False):
    """Blocks as columns: first those from before the history by address, then the others as they were allocated."""

    born: I64
    """Entry of the allocation; `BEFORE` if there is none."""
    died: I64
    """Entry at which the free is completed; the number of entries if the block lives at the dump."""
    address: NDArray[np.uint64]
    requested: I64
    """Bytes that the program asked for."""
    size: I64
    """Bytes that the allocator gave, as the dump says; -1 for blocks that do not live there."""
    stream: I64
    segment: I32
    """Row of the segment of the dump that has the address; -1 if there is none, or if it was reserved later."""
    frames: I32
    """Stack of the allocation; -1 where unknown."""
    freed_frames: I32
    """Stack of the free; -1 where unknown, or at the dump."""
    entries: int
    """Length of the history."""

    def __len__(self) -> int:
        return len(self.born)

    def alive_at(self, entry: int) -> I64:
        """Rows of the blocks that live after an entry; -1 stands for the beginning."""
        return np.flatnonzero((self.born <= entry) & (self.died > entry))


def obstacle(device: DeviceMemory) -> Obstacle | None:
    """Why the history cannot be replayed; None if it can."""
    history, blocks = device.history, device.blocks
    if not (history.action == _ALLOC).any():
        return Obstacle.NO_HISTORY
    if not _is_possible(device):
        return Obstacle.IMPOSSIBLE
    events = _Events(history)
    left = events.address[events.is_last & events.is_alloc]
    gone = events.address[events.is_last & ~events.is_alloc]
    active = blocks.address[np.isin(blocks.state, _ACTIVE)]
    if not np.isin(left, active).all() or np.isin(gone, active).any():
        return Obstacle.STOPPED
    same_again = ~events.is_last[:-1] & (events.is_alloc[1:] == events.is_alloc[:-1])
    if same_again.any():
        return Obstacle.CONTRADICTION
    return None if _are_within(events.address, *_ranges(device)) else Obstacle.OUTSIDE


def _is_possible(device: DeviceMemory) -> bool:
    """Whether each size is one of a device, and all that is ever mapped or unmapped is what a program may do."""
    history, segments = device.history, device.segments
    pages = np.isin(history.action, tuple(ACTIONS.index(name) for name in ("segment_map", "segment_unmap")))
    sizes = np.concatenate((history.size, segments.total_size, device.blocks.size, device.blocks.requested))
    if (sizes < 0).any() or (sizes > _MOST_BYTES).any():
        return False
    moved = float(history.size[pages].sum(dtype=np.float64))
    return moved + float(segments.total_size.sum(dtype=np.float64)) <= _MOST_MOVED


def lifetimes(device: DeviceMemory) -> Lifetimes:
    """The blocks of a history without obstacle, or those of a dump alone."""
    history, blocks = device.history, device.blocks
    events, count = _Events(history), len(history)
    ends = np.where(events.is_last, count, np.append(events.entry[1:], count))
    allocs = np.flatnonzero(events.is_alloc)
    allocs = allocs[np.argsort(events.entry[allocs])]
    born, died = events.entry[allocs], ends[allocs]
    lost = events.entry[events.is_first & ~events.is_alloc]
    held = np.flatnonzero(np.isin(blocks.state, _ACTIVE))
    kept = held[~np.isin(blocks.address[held], events.address)]
    given = _positions(blocks.address[held], np.where(died == count, history.address[born], 0))
    started = np.concatenate((history.address[lost], blocks.address[kept]))
    order = np.argsort(started, kind="stable")

    def column(of_lost: Array, of_kept: Array, of_given: Array) -> Array:
        return np.concatenate((np.concatenate((of_lost, of_kept))[order], of_given))

    unknown = np.full(len(lost), UNKNOWN)
    address = column(history.address[lost], blocks.address[kept], history.address[born])
    first = column(np.full(len(lost), BEFORE), np.full(len(kept), BEFORE), born)
    segments = device.segments
    until = column(lost, np.full(len(kept), count), died)
    return Lifetimes(
        born=first,
        died=until,
        address=address,
        requested=column(history.size[lost], blocks.requested[kept], history.size[born]),
        size=column(unknown, blocks.size[kept], take_or(blocks.size[held], given, UNKNOWN)),
        stream=column(history.stream[lost], segments.stream[blocks.segment[kept]], history.stream[born]),
        segment=_segments(device, address, first),
        frames=column(unknown, blocks.frames[kept], history.frames[born]).astype(np.int32),
        freed_frames=take_or(history.frames, until, UNKNOWN).astype(np.int32),
        entries=count,
    )


class _Events:
    """Allocations and completed frees in the order of addresses, and of the ring within one."""

    def __init__(self, history: MemoryHistory) -> None:
        entry = np.flatnonzero((history.action == _ALLOC) | (history.action == _FREE))
        self.entry: I64 = entry[np.argsort(history.address[entry], kind="stable")]
        self.address = history.address[self.entry]
        self.is_alloc: Bool = history.action[self.entry] == _ALLOC
        changes = self.address[1:] != self.address[:-1]
        self.is_first: Bool = np.append(True, changes)[: len(entry)]
        self.is_last: Bool = np.append(changes, True)[: len(entry)]


def _positions(values: Array, wanted: Array) -> I64:
    """Where each wanted value stands among distinct values; -1 if it is not there."""
    if not len(values):
        return np.full(len(wanted), UNKNOWN)
    order = np.argsort(values)
    at = order[np.minimum(np.searchsorted(values, wanted, sorter=order), len(values) - 1)]
    return np.where(values[at] == wanted, at, UNKNOWN)


def _segments(device: DeviceMemory, address: Array, born: I64) -> I32:
    """The segment of the dump that each block lies in, unless the history reserves it after the block's allocation."""
    segments, history = device.segments, device.history
    if not len(segments):
        return np.full(len(address), UNKNOWN, np.int32)
    order = np.argsort(segments.address)
    starts = segments.address[order]
    at = np.searchsorted(starts, address, side="right") - 1
    row = order[np.maximum(at, 0)]
    inside = (at >= 0) & (address < segments.address[row] + segments.total_size[row].astype(np.uint64))
    since = np.full(len(segments), BEFORE)
    for entry in np.flatnonzero(history.action == ACTIONS.index("segment_alloc")):
        since[segments.address == history.address[entry]] = entry
    return np.where(inside & (born >= since[row]), row, UNKNOWN).astype(np.int32)


def _ranges(device: DeviceMemory) -> tuple[Array, Array]:
    """Starts and ends of all that was ever reserved, as far as it is known."""
    segments, history = device.segments, device.history
    rows = np.isin(history.action, _SEGMENTS)
    start = np.concatenate((segments.address, history.address[rows]))
    return start, start + np.concatenate((segments.total_size, history.size[rows])).astype(np.uint64)


def _are_within(values: Array, start: Array, end: Array) -> bool:
    if not len(start):
        return not len(values)
    order = np.argsort(start, kind="stable")
    reach = np.maximum.accumulate(end[order])
    at = np.searchsorted(start[order], values, side="right") - 1
    return bool(((at >= 0) & (values < reach[np.maximum(at, 0)])).all())
