"""Which blocks are in memory at the peak, and which operators and lines allocated them?"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.analyzers.memory.ledger import Ledger
from traceanalyzer.analyzers.memory.operators import is_operator, operator_of
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_activity import line_tree, own_line_tree
from traceanalyzer.structure.sums import count_by, group, sum_by
from traceanalyzer.trace.table import I32, I64, UNKNOWN, Bool, entries
from traceanalyzer.trace.tree import NO_PARENT

LARGEST = 32
"""Blocks that are listed one by one (own choice)."""


class MemoryBlock(msgspec.Struct, frozen=True):
    """A block that was alive at the peak."""

    size_bytes: int
    """Size of the block in bytes."""
    allocated_ns: int | None
    """When it was allocated, in ns since the first event; null if before the trace."""
    freed_ns: int | None
    """When it was released, in ns since the first event; null if not in the trace."""
    operator: str | None
    """The operator that allocated the block: the innermost one that is not `aten::empty`; null if unknown."""
    python_line: str | None
    """The innermost Python frame outside of torch (else the innermost one); null without stacks, or if unknown."""


class Holder(msgspec.Struct, frozen=True):
    """All blocks alive at the peak that the same operator allocated from the same line."""

    operator: str | None
    """The operator that allocated the blocks; null if unknown."""
    python_line: str | None
    """The Python line that allocated the blocks; null without stacks, or if unknown."""
    blocks: int
    """Number of blocks."""
    held_bytes: int
    """Bytes of these blocks together."""


class PeakContents(msgspec.Struct, frozen=True):
    """Blocks in the memory of a device at its peak."""

    time_ns: int
    """Time of the peak in ns since the first event."""
    known_bytes: int
    """Bytes of the blocks whose allocation or release is in the trace."""
    older_bytes: int | None
    """Rest of the level in bytes: allocated before the trace and not released in it, such as weights; null if the level
    is relative."""
    holders: tuple[Holder, ...]
    """The known blocks by operator and line, the most bytes first; blocks from before the trace have no names."""
    largest: tuple[MemoryBlock, ...]
    """The largest known blocks, the largest first."""


def at_peak(context: Context, ledger: Ledger, peak: int) -> PeakContents | None:
    """The contents after a record of the ledger; None where records have no addresses.

    Args:
        context: The trace.
        ledger: Records of one device.
        peak: The position in the ledger after which the level is highest.
    """
    begin, end = _lifetimes(context, ledger)
    if not len(begin):
        return None
    alive = (begin <= peak) & (peak < end)
    begin, end = begin[alive], end[alive]
    old = begin == UNKNOWN
    size = np.where(old, -ledger.change_bytes[np.minimum(end, len(ledger.rows) - 1)], ledger.change_bytes[begin])
    operator, line = _origins(context, ledger, begin)
    known = int(size.sum())
    return PeakContents(
        time_ns=int(ledger.time_ns[peak]),
        known_bytes=known,
        older_bytes=None if ledger.is_relative else int(ledger.level_bytes[peak]) - known,
        holders=_holders(context, size, operator, line),
        largest=_largest(context, ledger, begin, end, size, operator, line),
    )


def _lifetimes(context: Context, ledger: Ledger) -> tuple[I64, I64]:
    """Where in the ledger each block begins (-1: before it) and ends (its length: not in it).

    A block lasts until the next record of its address: its release, or, if that was not recorded, the next
    allocation there. A release without an allocation is a block from before the trace.
    """
    address = context.trace.memory.address[ledger.rows]
    records = np.flatnonzero((address != 0) & ~ledger.is_foreign & (ledger.change_bytes != 0))
    records = records[np.argsort(address[records], kind="stable")]
    same = np.diff(address[records]) == 0
    following = np.append(np.where(same, records[1:], len(ledger.rows)), len(ledger.rows))[: len(records)]
    taken = ledger.change_bytes[records] > 0
    unseen = ~taken & ~np.append(False, same)[: len(records)]
    begin = np.concatenate((records[taken], np.full(int(unseen.sum()), UNKNOWN)))
    end = np.concatenate((following[taken], records[unseen]))
    return begin, end


def _origins(context: Context, ledger: Ledger, begin: I64) -> tuple[I32, I32]:
    """Codes of the names of the operator and the line that made each allocation, -1 for none."""
    memory, rows = context.trace.memory, ledger.rows[begin]
    where = (memory.thread[rows], memory.start_ns[rows])
    own, any_ = (context.once(tree).names_at(*where) for tree in (own_line_tree, line_tree))
    lines = np.where(own >= 0, own, any_)
    node = _asking(context, entries(operator_of(context, ledger), begin, NO_PARENT))
    operator = entries(context.host.name, node, np.int32(-1))
    return operator, np.where(begin == UNKNOWN, np.int32(-1), lines)


def _asking(context: Context, node: I64) -> I64:
    """The innermost operator that is not `aten::empty`, else the innermost operator, else -1."""
    empty = context.trace.names.where(lambda name: name.startswith("aten::empty"))
    is_row = context.once(is_operator)
    innermost = _climb(context, node, is_row)
    asking = _climb(context, innermost, is_row & ~np.append(empty[context.host.name], False))
    return np.where(asking == NO_PARENT, innermost, asking)


def _climb(context: Context, node: I64, wanted: Bool) -> I64:
    """For each node, itself or its nearest ancestor that is wanted, -1 for none."""
    found: I64 = entries(context.host.tree.nearest(wanted[: len(context.host.tree)]), node, NO_PARENT)
    return found


def _holders(context: Context, size: I64, operator: I32, line: I32) -> tuple[Holder, ...]:
    names = context.trace.names
    first, groups = group(operator, line)
    rows = [
        Holder(names[o] if o >= 0 else None, names[p] if p >= 0 else None, blocks, held)
        for o, p, blocks, held in zip(
            operator[first].tolist(),
            line[first].tolist(),
            count_by(groups, len(first)).tolist(),
            sum_by(groups, size, len(first)).tolist(),
            strict=True,
        )
    ]
    return tuple(sorted(rows, key=lambda r: (-r.held_bytes, r.operator or "", r.python_line or "")))


def _largest(
    context: Context, ledger: Ledger, begin: I64, end: I64, size: I64, operator: I32, line: I32
) -> tuple[MemoryBlock, ...]:
    names = context.trace.names
    taken = np.where(begin == UNKNOWN, UNKNOWN, ledger.time_ns[begin])
    given = entries(ledger.time_ns, end, UNKNOWN)
    order = np.lexsort((end, begin, -size))[:LARGEST]
    return tuple(
        MemoryBlock(
            size_bytes,
            allocated if since >= 0 else None,
            freed if until < len(ledger.rows) else None,
            names[o] if o >= 0 else None,
            names[p] if p >= 0 else None,
        )
        for size_bytes, since, until, allocated, freed, o, p in np.column_stack(
            (size, begin, end, taken, given, operator, line)
        )[order].tolist()
    )
