"""The level of requested bytes over the history of a memory snapshot, and which blocks live when.

Entries of the history hold the bytes that the program asked for. The history is a ring that has lost its beginning, so
its level is known from its end: the blocks that are active at the dump. Where recording stopped before the dump, that
end is unknown, and the level begins with what the history frees without having allocated it.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.structure.block_lifetimes import BEFORE, Lifetimes, lifetimes
from traceanalyzer.trace.memory_snapshot import ACTIONS, STATES, DeviceMemory
from traceanalyzer.trace.table import I64, Bool

_ALLOC, _FREED = ACTIONS.index("alloc"), ACTIONS.index("free_completed")
_GROWING = tuple(ACTIONS.index(name) for name in ("segment_alloc", "segment_map"))
_SHRINKING = tuple(ACTIONS.index(name) for name in ("segment_free", "segment_unmap"))
ACTIVE = tuple(STATES.index(name) for name in ("active_allocated", "active_pending_free"))
"""States of blocks that the allocator cannot give to anyone else."""


class Levels(msgspec.Struct, frozen=True):
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

    def known(self) -> I64:
        """Rows of the lifetimes that are sure: where recording stopped before the dump, not those of the dump alone."""
        blocks = self.lifetimes
        is_of_dump = (blocks.born == BEFORE) & (blocks.died == blocks.entries)
        return np.flatnonzero(~is_of_dump if self.stopped_before_dump else np.ones(len(blocks), np.bool_))

    def alive_at_peak(self) -> I64:
        """Rows of the lifetimes that live at the peak, and are sure to."""
        rows = self.lifetimes.alive_at(self.peak_entry)
        return rows[np.isin(rows, self.known())] if self.stopped_before_dump else rows


def is_active(device: DeviceMemory) -> Bool:
    """Which blocks are active."""
    return np.isin(device.blocks.state, ACTIVE)


def levels(device: DeviceMemory) -> Levels:
    """The level of a device over its history."""
    history, is_used = device.history, is_active(device)
    signs = (history.action == _ALLOC).astype(np.int64) - (history.action == _FREED)
    change = signs * history.size
    blocks = lifetimes(device)
    at_end = blocks.address[(blocks.born > BEFORE) & (blocks.died == blocks.entries)]
    stopped = not np.isin(at_end, device.blocks.address[is_used]).all()
    unseen = int(blocks.requested[(blocks.born == BEFORE) & (blocks.died < blocks.entries)].sum())
    asked = int(device.blocks.requested[is_used].sum())
    start = unseen if stopped else asked - int(change.sum())
    after = start + np.cumsum(change)
    place = int(after.argmax()) if len(after) else -1
    is_higher = place >= 0 and after[place] > start
    return Levels(
        lifetimes=blocks,
        start=start,
        after=after,
        stopped_before_dump=stopped,
        peak=int(after[place]) if is_higher else start,
        peak_entry=place if is_higher else -1,
        reserved=_reserved(device, is_known=not stopped),
    )


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
