"""Which operators take and give back memory?

The six figures of the TensorBoard plugin's memory view: bytes taken less bytes given back, allocations, and bytes
taken, each for the operator alone and with the operators that it calls.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from traceanalyzer.analyzers.memory.ledger import Ledger, ledgers
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.sums import count_by, sum_by
from traceanalyzer.trace.table import I32, I64, Bool, entries
from traceanalyzer.trace.tree import NO_PARENT


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
    rows = [row for ledger in context.once(ledgers) for row in _rows(context, ledger)]
    position = {ledger.device: number for number, ledger in enumerate(context.once(ledgers))}
    return tuple(sorted(rows, key=lambda r: (position[r.device], -r.self_allocated_bytes, -r.allocated_bytes, r.name)))


def operator_of(context: Context, ledger: Ledger) -> I64:
    """Position in the host tree of the innermost node around each record, -1 for none."""
    return context.once(nodes_of_records)[ledger.rows]


def nodes_of_records(context: Context) -> I64:
    """Position of the innermost node around every row of the table of memory events, -1 for none."""
    memory, host = context.trace.memory, context.host
    position = host.tree.innermost(memory.thread, memory.start_ns)
    return entries(host.top, position, NO_PARENT)


def is_operator(context: Context) -> Bool:
    """Nodes that are rows of operator tables; a last False stands for "no node"."""
    return np.append(context.host.is_row, False)


def _calls(context: Context) -> I64:
    """Calls of each operator name within the chosen steps."""
    host = context.host
    nodes = context.once(is_operator)[:-1] & context.in_scope(host.tree.start_ns)
    return count_by(host.name[nodes], len(context.trace.names))


def _rows(context: Context, ledger: Ledger) -> Iterator[OperatorMemory]:
    own, nested = _sums(context, ledger)
    calls = context.once(_calls)
    used = np.flatnonzero((own != 0).any(axis=0) | (nested != 0).any(axis=0))
    for name in used.tolist():
        figures = np.column_stack((nested[:, name], own[:, name])).ravel().tolist()
        yield OperatorMemory(ledger.device, context.trace.names[name], int(calls[name]), *figures)


def _sums(context: Context, ledger: Ledger) -> tuple[I64, I64]:
    """The three figures of each name: for the operator alone, and with the operators that it calls."""
    host, is_row = context.host, context.once(is_operator)
    counted = context.in_scope(ledger.time_ns)
    node = operator_of(context, ledger)[counted]
    change = ledger.change_bytes[counted]
    values = np.stack((change, change > 0, np.where(change > 0, change, 0)))
    name, parent = np.append(host.name, np.int32(-1)), np.append(host.tree.parent, NO_PARENT).astype(np.int64)
    size = len(context.trace.names)
    own = _by_name(name, node, values, is_row, size)
    nested = own.copy()
    while True:  # up the ancestors of all records at once
        node = parent[node]
        open_ = node != NO_PARENT
        if not open_.any():
            return own, nested
        node, values = node[open_], values[:, open_]
        nested += _by_name(name, node, values, is_row, size)


def _by_name(name: I32, node: I64, values: I64, is_row: Bool, size: int) -> I64:
    rows = is_row[node]
    return np.stack([sum_by(name[node[rows]], value[rows], size) for value in values])
