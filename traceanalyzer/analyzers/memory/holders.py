"""Which operators take and give back memory, and which blocks are in memory at the peak?

The six figures of the TensorBoard plugin's memory view: bytes taken less bytes given back, allocations, and bytes
taken, each for the operator alone and with the operators that it calls.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from traceanalyzer.analyzers.memory.levels import Ledger, ledgers
from traceanalyzer.analyzers.memory.trace_blocks import asking, lifetimes
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_activity import line_tree, own_line_tree
from traceanalyzer.structure.sums import count_by, group, sum_by
from traceanalyzer.trace.table import I32, I64, UNKNOWN, Bool, take_or
from traceanalyzer.trace.tree import NO_PARENT

LARGEST = 32
"""Blocks that are listed one by one (own choice)."""


class OperatorMemory(msgspec.Struct, frozen=True):
    """What all calls of one operator did to the memory of one device."""

    device: str
    """Which memory it is: `CPU`, or `GPU` and the id of the device."""
    name: str
    """Name of the operator as recorded."""
    calls: int
    """Number of all calls of the operator, including those that allocated nothing."""
    increase_bytes: int
    """Bytes allocated minus bytes freed, with the operators that it calls; bytes of recursive calls count twice."""
    self_increase_bytes: int
    """Bytes taken less bytes given back, without the operators that it calls."""
    allocations: int
    """Number of allocations, with those of the operators that it calls."""
    self_allocations: int
    """Number of allocations, without those of the operators that it calls."""
    allocated_bytes: int
    """Bytes taken, whether given back or not, with the operators that it calls."""
    self_allocated_bytes: int
    """Bytes taken, whether given back or not, without the operators that it calls."""


def by_operator(context: Context) -> tuple[OperatorMemory, ...]:
    """One row per device and operator that took or gave back memory, by device and bytes taken by itself."""
    rows = [row for ledger in context.cached(ledgers) for row in _operator_rows(context, ledger)]
    position = {ledger.device: number for number, ledger in enumerate(context.cached(ledgers))}
    return tuple(sorted(rows, key=lambda r: (position[r.device], -r.self_allocated_bytes, -r.allocated_bytes, r.name)))


def operator_of(context: Context, ledger: Ledger) -> I64:
    """Position in the host tree of the innermost node around each record, -1 for none."""
    return context.cached(nodes_of_records)[ledger.rows]


def nodes_of_records(context: Context) -> I64:
    """Position of the innermost node around every row of the table of memory events, -1 for none."""
    memory, host = context.trace.memory, context.host
    position = host.tree.innermost(memory.thread, memory.start_ns)
    return take_or(host.top, position, NO_PARENT)


def is_operator(context: Context) -> Bool:
    """Nodes that are rows of operator tables; a last False stands for "no node"."""
    return np.append(context.host.is_row, False)


def _calls(context: Context) -> I64:
    """Calls of each operator name within the chosen steps."""
    host = context.host
    nodes = context.cached(is_operator)[:-1] & context.in_scope(host.tree.start_ns)
    return count_by(host.name[nodes], len(context.trace.names))


def _operator_rows(context: Context, ledger: Ledger) -> Iterator[OperatorMemory]:
    own, nested = _sums(context, ledger)
    calls = context.cached(_calls)
    used = np.flatnonzero((own != 0).any(axis=0) | (nested != 0).any(axis=0))
    for name in used.tolist():
        figures = np.column_stack((nested[:, name], own[:, name])).ravel().tolist()
        yield OperatorMemory(ledger.device, context.trace.names[name], int(calls[name]), *figures)


def _sums(context: Context, ledger: Ledger) -> tuple[I64, I64]:
    """The three figures of each name: for the operator alone, and with the operators that it calls."""
    host = context.host
    is_row = context.cached(is_operator)
    counted = context.in_scope(ledger.time_ns)
    node = operator_of(context, ledger)[counted]
    change = ledger.change_bytes[counted]
    values = np.stack((change, change > 0, np.where(change > 0, change, 0)))
    name = np.append(host.name, np.int32(-1))
    parent = np.append(host.tree.parent, NO_PARENT).astype(np.int64)
    size = len(context.trace.names)
    own = _by_name(name, node, values, is_row, size)
    nested = own.copy()
    while True:  # up the ancestors of all records at once
        node = parent[node]
        open_ = node != NO_PARENT
        if not open_.any():
            return own, nested
        node = node[open_]
        values = values[:, open_]
        nested += _by_name(name, node, values, is_row, size)


def _by_name(name: I32, node: I64, values: I64, is_row: Bool, size: int) -> I64:
    rows = is_row[node]
    return np.stack([sum_by(name[node[rows]], value[rows], size) for value in values])


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
    blocks = lifetimes(context, ledger)
    if not len(blocks):
        return None
    alive = blocks.alive_at(peak)
    begin, end, size = blocks.born[alive], blocks.died[alive], blocks.requested[alive]
    operator, line = _origins(context, ledger, begin)
    known = int(size.sum())
    return PeakContents(
        time_ns=int(ledger.time_ns[peak]),
        known_bytes=known,
        older_bytes=None if ledger.is_relative else int(ledger.level_bytes[peak]) - known,
        holders=_holders(context, size, operator, line),
        largest=_largest(context, ledger, begin, end, size, operator, line),
    )


def _origins(context: Context, ledger: Ledger, begin: I64) -> tuple[I32, I32]:
    """Codes of the names of the operator and the line that made each allocation, -1 for none."""
    memory = context.trace.memory
    rows = ledger.rows[begin]
    where = (memory.thread[rows], memory.start_ns[rows])
    own, any_ = (context.cached(tree).names_at(*where) for tree in (own_line_tree, line_tree))
    lines = np.where(own >= 0, own, any_)
    node = asking(context, take_or(operator_of(context, ledger), begin, NO_PARENT))
    operator = take_or(context.host.name, node, np.int32(-1))
    return operator, np.where(begin == UNKNOWN, np.int32(-1), lines)


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
    given = take_or(ledger.time_ns, end, UNKNOWN)
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
