"""Parts of a trace that people or rules select: device events, calls and host time."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from traceanalyzer.simulation.graph import shifted
from traceanalyzer.structure.context import Context
from traceanalyzer.trace.distinct import stable_order
from traceanalyzer.trace.table import I64


def _nothing() -> I64:
    return np.empty(0, np.int64)


@dataclass(frozen=True)
class Selected:
    """The parts of a trace that were selected."""

    kind: str
    """`loader`, `gpu`, `host`, `communication`, `operator`, `kernel`, `class`, `owner` or `synchronization`."""
    name: str
    """The name without its kind, as requested."""
    device: I64 = field(default_factory=_nothing)
    """Rows of the device table."""
    calls: I64 = field(default_factory=_nothing)
    """Rows of the launch table."""
    thread: I64 = field(default_factory=_nothing)
    """Threads of the intervals of host time; intervals of one thread do not overlap."""
    start_ns: I64 = field(default_factory=_nothing)
    end_ns: I64 = field(default_factory=_nothing)


def of_nodes(context: Context, name: str, nodes: I64) -> Selected | None:
    """The work of some nodes of the host tree and all nodes inside them; None without nodes.

    Args:
        context: The trace.
        name: What people call the nodes.
        nodes: Their positions in the tree, ascending.
    """
    tree = context.host.tree
    if not len(nodes):
        return None
    outer = nodes[nodes >= shifted(np.maximum.accumulate(tree.after[nodes]), 0)]
    calls = context.once(_calls_by_node).of(outer, tree.after[outer].astype(np.int64))
    return Selected(
        "operator",
        name,
        device=context.once(_events_by_call).at(calls),
        calls=calls,
        thread=tree.thread[outer].astype(np.int64),
        start_ns=tree.start_ns[outer],
        end_ns=tree.end_ns[outer],
    )


@dataclass(frozen=True)
class _Ordered:
    """Rows of a table, by an integer that each has."""

    row: I64
    number: I64
    """Of each row, ascending."""

    @classmethod
    def by(cls, numbers: I64) -> _Ordered:
        """Order the rows of a table."""
        order = stable_order(numbers)
        return cls(order, numbers[order])

    def at(self, numbers: I64) -> I64:
        """The rows with one of some numbers, ascending."""
        return self.of(numbers, numbers + 1)

    def of(self, first: I64, after: I64) -> I64:
        """The rows whose numbers lie in one of some ranges that do not overlap, ascending."""
        opens, closes = np.searchsorted(self.number, first), np.searchsorted(self.number, after)
        sizes = closes - opens
        inside = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes - opens, sizes)
        return np.sort(self.row[inside])


def _calls_by_node(context: Context) -> _Ordered:
    """Rows of the launch table by the node of the host tree in which each is."""
    return _Ordered.by(context.links.node)


def _events_by_call(context: Context) -> _Ordered:
    """Rows of the device table by their launch."""
    return _Ordered.by(context.links.launch)
