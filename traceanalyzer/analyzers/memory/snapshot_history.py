"""The level of requested bytes over the history of a memory snapshot, and which blocks live when.

Entries of the history hold the bytes that the program asked for. The history is a ring that has lost its beginning, so
its level is known from its end: the blocks that are active at the dump. Where recording stopped before the dump, that
end is unknown, and the level begins with what the history frees without having allocated it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.trace.memory_snapshot import ACTIONS, STATES, DeviceMemory

I64 = NDArray[np.int64]
Bool = NDArray[np.bool_]

_ALLOC, _FREED = ACTIONS.index("alloc"), ACTIONS.index("free_completed")
_GROWING = tuple(ACTIONS.index(name) for name in ("segment_alloc", "segment_map"))
_SHRINKING = tuple(ACTIONS.index(name) for name in ("segment_free", "segment_unmap"))
ACTIVE = tuple(STATES.index(name) for name in ("active_allocated", "active_pending_free"))
"""States of blocks that the allocator cannot give to anyone else."""


@dataclass(frozen=True)
class Lifetimes:
    """The allocations of a history, in its order."""

    entry: I64
    """The entry that allocates."""
    end: I64
    """The entry that ends it: that of the next allocation or completed free of its address; the number of entries if
    there is none."""
    size: I64
    """Bytes that the program asked for."""
    frames: I64
    freed_by: I64
    """Stack of the free that was asked for; -1 is unknown."""

    def living(self, entry: int) -> Bool:
        """Which of them live after an entry."""
        return (self.entry <= entry) & (self.end > entry)


@dataclass(frozen=True)
class Levels:
    """How many bytes the program held."""

    lifetimes: Lifetimes
    start: int
    """Before the first entry."""
    after: I64
    """After each entry."""
    stopped_before_dump: bool
    peak: int
    peak_entry: int
    """-1: before the first one."""
    reserved: I64 | None
    """What the allocator reserved after each entry; None if the history does not show that."""
    older: I64
    """Active blocks at the dump that were allocated before the history, as places in the blocks."""


def is_active(device: DeviceMemory) -> Bool:
    """Which blocks are active."""
    return np.isin(device.blocks.state, ACTIVE)


def levels(device: DeviceMemory) -> Levels:
    """The level of a device over its history."""
    history, active = device.history, np.flatnonzero(is_active(device))
    is_alloc, is_freed = history.action == _ALLOC, history.action == _FREED
    change = np.where(is_alloc, history.size, 0) - np.where(is_freed, history.size, 0)
    lifetimes, unseen = _lifetimes(device, is_alloc, is_freed)
    at_end = history.address[lifetimes.entry[lifetimes.end == len(history)]]
    stopped = not np.isin(at_end, device.blocks.address[active]).all()
    asked = int(device.blocks.requested[active].sum())
    start = unseen if stopped else asked - int(change.sum())
    after = start + np.cumsum(change)
    place = int(after.argmax()) if len(after) else -1
    is_higher = place >= 0 and after[place] > start
    older = active[~np.isin(device.blocks.address[active], at_end)]
    return Levels(
        lifetimes=lifetimes,
        start=start,
        after=after,
        stopped_before_dump=stopped,
        peak=int(after[place]) if is_higher else start,
        peak_entry=place if is_higher else -1,
        reserved=_reserved(device, is_known=not stopped),
        older=older,
    )


def _lifetimes(device: DeviceMemory, is_alloc: Bool, is_freed: Bool) -> tuple[Lifetimes, int]:
    """The allocations, and the bytes of completed frees whose allocation was not seen."""
    history = device.history
    rows = np.flatnonzero(is_alloc | is_freed)
    order = rows[np.argsort(history.address[rows], kind="stable")]
    address, alloc = history.address[order], is_alloc[order]
    same = np.append(address[1:] == address[:-1], np.False_)[: len(order)]
    following = np.where(same, np.append(order[1:], 0)[: len(order)], len(history))
    after_alloc = np.append(np.False_, alloc[:-1] & same[:-1])[: len(order)]
    unseen = int(history.size[order[~alloc & ~after_alloc]].sum())
    entry, end = order[alloc], following[alloc]
    in_time = np.argsort(entry)
    entry, end = entry[in_time], end[in_time]
    frees = np.append(history.frames, np.int32(-1))[end]
    frees = np.where(np.append(is_freed, np.False_)[end], frees, -1)
    found = Lifetimes(entry, end, history.size[entry], history.frames[entry].astype(np.int64), frees.astype(np.int64))
    return found, unseen


def _reserved(device: DeviceMemory, *, is_known: bool) -> I64 | None:
    """What was reserved after each entry, by the segments at the dump and what the history changed until then."""
    history = device.history
    grown, shrunk = np.isin(history.action, _GROWING), np.isin(history.action, _SHRINKING)
    if not is_known or not (grown | shrunk).any():
        return None
    change = np.where(grown, history.size, 0) - np.where(shrunk, history.size, 0)
    after = int(device.segments.total_size.sum()) - int(change.sum()) + np.cumsum(change)
    return after if (after >= 0).all() else None


def retries(device: DeviceMemory) -> int:
    """How often segments were given back right before one was taken or an allocation failed."""
    action = device.history.action
    kept = action[np.isin(action, (*_GROWING, *_SHRINKING, ACTIONS.index("oom")))]
    shrunk = np.isin(kept, _SHRINKING)
    return int((shrunk[:-1] & ~shrunk[1:]).sum())
