"""What a replay needs of one device: its blocks, what was reserved at the start, and when cached memory was freed."""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.simulation.allocator.beginning import ReservedRange, reserved_at_start
from traceanalyzer.simulation.allocator.caching import DEFAULT_POOL
from traceanalyzer.simulation.allocator.expanding import ADDRESSES
from traceanalyzer.simulation.allocator.sizes import SMALL_SEGMENT, AllocatorSettings
from traceanalyzer.structure.block_lifetimes import Lifetimes, Obstacle, lifetimes, obstacle
from traceanalyzer.trace.memory_snapshot import ACTIONS, DeviceMemory, MemoryHistory
from traceanalyzer.trace.table import I64, UNKNOWN, Bool

_RESERVE = tuple(ACTIONS.index(name) for name in ("segment_alloc", "segment_map"))
_RELEASE = tuple(ACTIONS.index(name) for name in ("segment_free", "segment_unmap"))
_MAP = ACTIONS.index("segment_map")
_OOM = ACTIONS.index("oom")


class RecordedMemory(msgspec.Struct, frozen=True, eq=False):
    """The history of one device, ready for replays."""

    blocks: Lifetimes
    private: I64
    """Private pool of each block, or `DEFAULT_POOL`; shape (blocks,)."""
    ranges: tuple[ReservedRange, ...]
    """What was reserved at the start."""
    addresses: dict[int, tuple[int, ...]]
    """Addresses of the segments that were reserved later, by size, in their order."""
    releases: I64
    """Entries at which the program emptied the cache."""
    failures: I64
    """Entries of requests that failed."""
    failed_bytes: I64
    failed_stream: I64
    limit: int | None
    """Most bytes that could be reserved, as far as requests show that did not fit; None if all did."""
    reserved_peak: int
    """Most bytes that were reserved at once, as recorded."""
    settings: AllocatorSettings


def recorded_memory(device: DeviceMemory, settings: AllocatorSettings) -> RecordedMemory | Obstacle:
    """The history of one device, or why it cannot be replayed."""
    found = obstacle(device)
    if found is not None:
        return found
    history, blocks = device.history, lifetimes(device)
    ranges = reserved_at_start(device)
    if not _are_reserved(blocks, ranges):
        return Obstacle.OUTSIDE
    reserved = _reserved(device)
    releases, limit = _releases(history, reserved)
    failures = np.flatnonzero(history.action == _OOM)
    pool = device.segments.pool
    known = blocks.segment >= 0
    private = np.full(len(blocks), DEFAULT_POOL)
    private[known] = pool[blocks.segment[known]]
    return RecordedMemory(
        blocks=blocks,
        private=private,
        ranges=ranges,
        addresses=_addresses(history, ranges),
        releases=releases,
        failures=failures,
        failed_bytes=history.size[failures],
        failed_stream=history.stream[failures],
        limit=limit,
        reserved_peak=int(reserved.max()),
        settings=settings,
    )


def without_segments(blocks: Lifetimes) -> RecordedMemory:
    """Blocks of whose segments nothing is known: changes of their bytes can be replayed, but no allocator."""
    none = np.zeros(0, np.int64)
    return RecordedMemory(
        blocks=blocks,
        private=np.full(len(blocks), DEFAULT_POOL),
        ranges=(),
        addresses={},
        releases=none,
        failures=none,
        failed_bytes=none,
        failed_stream=none,
        limit=None,
        reserved_peak=0,
        settings=AllocatorSettings(),
    )


def _are_reserved(blocks: Lifetimes, ranges: tuple[ReservedRange, ...]) -> bool:
    """Whether each block from before the history lies in what was reserved at its start."""
    before = blocks.address[blocks.born < 0]
    if not ranges or not len(before):
        return not len(before)
    start = np.array([one.address for one in ranges], np.uint64)
    end = np.array([one.address + one.size for one in ranges], np.uint64)
    at = np.searchsorted(start, before, side="right") - 1
    return bool((at >= 0).all() and (before < end[at]).all())


def _reserved(device: DeviceMemory) -> I64:
    """Bytes that were reserved before the first entry and after each one."""
    history = device.history
    signs = np.isin(history.action, _RESERVE).astype(np.int64) - np.isin(history.action, _RELEASE)
    change = np.cumsum(signs * history.size)
    start = int(device.segments.total_size.sum()) - int(change[-1])
    return np.append(start, start + change)


def _releases(history: MemoryHistory, reserved: I64) -> tuple[I64, int | None]:
    """Entries at which the program emptied the cache, and the most bytes that the device can have reserved.

    The allocator frees cached segments, too, where a request does not fit: then the request reserves or fails right
    after it, with the same stack. (Entries of `empty_cache` have the stack of that call, or of the segment's
    allocation.) If more was reserved at another time than this request needed, it did not fail for lack of memory.
    """
    entries = np.flatnonzero(np.isin(history.action, _RELEASE))
    starts = entries[np.diff(entries, prepend=-2) > 1]
    ends = entries[np.diff(entries, append=len(history) + 1) > 1]
    behind = np.minimum(ends + 1, len(history) - 1)
    follows = (ends + 1 < len(history)) & np.isin(history.action[behind], (*_RESERVE, _OOM))
    same: Bool = (history.frames[behind] == history.frames[ends]) | (history.frames[ends] == UNKNOWN)
    needed = reserved[starts] + history.size[behind]
    is_retry = follows & same & (needed > reserved.max())
    failed = np.flatnonzero(history.action == _OOM)
    room = reserved[failed] + history.device_free[failed]
    bounds = np.concatenate((needed[is_retry] - 1, room, reserved[failed] + history.size[failed] - 1))
    limit = max(int(bounds.min()), int(reserved.max())) if len(bounds) else None
    return starts[~is_retry], limit


def _addresses(history: MemoryHistory, ranges: tuple[ReservedRange, ...]) -> dict[int, tuple[int, ...]]:
    """Addresses of the segments that are reserved during the history; expandable ones have the size `ADDRESSES`."""
    found: dict[int, list[int]] = {}
    begun = {(one.pool.stream, one.pool.is_large) for one in ranges if one.base is not None}
    rows = np.flatnonzero(np.isin(history.action, _RESERVE))
    columns = (history.action[rows], history.stream[rows], history.size[rows], history.address[rows])
    for action, stream, size, address in zip(*(one.tolist() for one in columns), strict=True):
        pool = (stream, size > SMALL_SEGMENT)
        if action == _MAP and pool not in begun:
            begun.add(pool)
            found.setdefault(ADDRESSES, []).append(address)
        elif action != _MAP:
            found.setdefault(size, []).append(address)
    return {size: tuple(own) for size, own in found.items()}
