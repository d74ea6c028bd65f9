"""Changes of a program's use of memory as data. Rows are those of the lifetimes of blocks.

All changes are combined before any is applied: factors that overlap are multiplied, extra bytes are added, the earliest
free counts, and a block that is never allocated stays so. So their order does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from traceanalyzer.simulation.allocator.sizes import AllocatorSettings
from traceanalyzer.structure.block_lifetimes import BEFORE, Lifetimes
from traceanalyzer.trace.table import F64, I64, Bool


class DropBlocks(msgspec.Struct, frozen=True):
    """Blocks are never allocated."""

    rows: I64


class FreeBlocks(msgspec.Struct, frozen=True):
    """Blocks are freed earlier."""

    rows: I64
    entries: I64
    """The entry after which each is freed, shape (rows,); a later one than recorded changes nothing."""


class LeaveOut(msgspec.Struct, frozen=True):
    """Blocks are freed, and allocated again later."""

    rows: I64
    """Shape (gaps,); a block may have several gaps, which do not overlap."""
    since: I64
    """The entry after which each gap begins."""
    until: I64
    """The entry at which it ends."""


class ResizeBlocks(msgspec.Struct, frozen=True):
    """Blocks get another size: another type, a shard, a smaller batch."""

    rows: I64
    factor: float
    """Ratio of new to old requested bytes, 0 or more; a block without bytes is not allocated."""
    extra_bytes: int = 0
    """Added to each block, such as the scales of a quantized state."""


class UseExpandableSegments(msgspec.Struct, frozen=True):
    """The allocator maps pages instead of reserving segments (`expandable_segments:True`)."""

    from_start: bool = True
    """Also for what was allocated before the history; else its segments stay, and only new ones expand."""


MemoryChange = DropBlocks | FreeBlocks | LeaveOut | ResizeBlocks | UseExpandableSegments
MemoryChanges = Sequence[MemoryChange]


class ChangedBlocks(msgspec.Struct, frozen=True):
    """The blocks of a program after all changes."""

    requested: I64
    """Bytes, shape (blocks,)."""
    freed: I64
    """Entry at which each block is freed, or right after which, where that is earlier than recorded."""
    is_dropped: Bool
    stays: Bool
    """Blocks that are as recorded when they are allocated, and so can be where they were."""
    settings: AllocatorSettings
    gaps: I64
    """Rows, entries after which they are freed, and entries at which they are allocated again; shape (3, gaps)."""


def changed(blocks: Lifetimes, changes: MemoryChanges, settings: AllocatorSettings) -> ChangedBlocks:
    """The blocks after all changes together."""
    count = len(blocks)
    factor: F64 = np.ones(count)
    extra = np.zeros(count, np.int64)
    freed = np.full(count, blocks.entries)
    is_dropped = np.zeros(count, np.bool_)
    gaps = [np.zeros((3, 0), np.int64)]
    for change in changes:
        match change:
            case DropBlocks():
                is_dropped[change.rows] = True
            case ResizeBlocks():
                factor[change.rows] *= change.factor
                extra[change.rows] += change.extra_bytes
            case FreeBlocks():
                np.minimum.at(freed, change.rows, np.maximum(change.entries, blocks.born[change.rows]))
            case LeaveOut():
                gaps.append(np.stack((change.rows, change.since, change.until)))
            case UseExpandableSegments():
                settings = msgspec.structs.replace(settings, expandable_segments=True)
    requested = np.where(factor == 1, blocks.requested, np.ceil(blocks.requested * factor).astype(np.int64)) + extra
    is_dropped |= (requested <= 0) & (blocks.requested > 0)
    moves = any(isinstance(change, UseExpandableSegments) and change.from_start for change in changes)
    stays = ~is_dropped & (requested == blocks.requested) & (not moves)
    freed = np.minimum(freed, blocks.died)
    return ChangedBlocks(
        requested=requested,
        freed=freed,
        is_dropped=is_dropped,
        stays=stays,
        settings=settings,
        gaps=_within(np.concatenate(gaps, axis=1), blocks, np.where(is_dropped, BEFORE, freed)),
    )


def _within(gaps: I64, blocks: Lifetimes, freed: I64) -> I64:
    """The gaps that lie within the lives of their blocks."""
    rows, since, until = gaps
    return gaps[:, (since > blocks.born[rows]) & (until < freed[rows])]
