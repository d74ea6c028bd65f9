"""Times of the nodes of the host tree, the work that their inputs ask for, and cheaper calls of equal size."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import msgspec
import numpy as np

from traceanalyzer.knowledge import op_models
from traceanalyzer.knowledge.inputs import Inputs
from traceanalyzer.knowledge.op_models import Family, Work
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import HostTree
from traceanalyzer.structure.sums import group, sum_by
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.table import I64, Bool
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

PRODUCTS = frozenset({Family.GEMM, Family.CONVOLUTION, Family.ATTENTION})
"""Families whose operations matrix units can do: nearly all operations of a network."""


class NodeTimes(msgspec.Struct, frozen=True, eq=False):
    """Times of every node of the host tree, in ns, after duplicates were merged into their parents."""

    device_self_ns: I64
    device_total_ns: I64
    host_self_ns: I64


def node_times(context: Context) -> NodeTimes:
    """Self and total times of every node, by the plugin's rules (METRICS: P1, 5 and 6)."""
    host, links = context.host, context.links
    tree = host.tree
    launches = np.flatnonzero(_counted_launches(host, links.node))
    owner = host.top[links.node[launches]]
    launched_ns = _device_time_of_launches(context.trace, links.launch)[launches]
    device_self = sum_by(owner, launched_ns, len(tree))
    # A call inside a module inside the operator is part of the module's duration already.
    own_calls_ns = np.where(links.in_module[launches], 0, context.trace.launches.dur_ns[launches])
    runtime = sum_by(owner, own_calls_ns, len(tree))
    children = np.flatnonzero((tree.parent != NO_PARENT) & ~host.merged)
    nested = sum_by(host.top[tree.parent[children]], tree.dur_ns[children], len(tree))
    return NodeTimes(device_self, tree.sums(device_self), tree.dur_ns - nested - runtime)


def _device_time_of_launches(trace: Trace, launch: I64) -> I64:
    linked = launch != NO_PARENT
    return sum_by(launch[linked], trace.device.dur_ns[linked], len(trace.launches))


def _counted_launches(host: HostTree, node: I64) -> Bool:
    """Which launches have a node; those of a node that was replaced by its only child count for none."""
    replaced = np.zeros(len(host.tree) + 1, np.bool_)
    replaced[host.tree.parent[host.merged]] = True
    replaced[NO_PARENT] = True
    return ~replaced[node]


def works_of(context: Context, nodes: I64) -> tuple[list[Work | None], I64, I64]:
    """The work of one call of each node, computed once for calls with equal inputs.

    Returns:
        The work of each group of equal calls (None without a model), the first node of each group by its place among
        the nodes, and the group of each node.
    """
    table = context.trace.host
    name, row = context.host.name[nodes], context.host.row[nodes]
    inputs = (table.shapes[row], table.types[row], table.strides[row], table.concrete[row])
    first, groups = group(name, *inputs)
    codes = np.column_stack([column[first] for column in (name, *inputs)]).tolist()
    return [_work_of(context.trace, *call) for call in codes], first, groups


def _work_of(trace: Trace, name: int, shapes: int, types: int, strides: int, concrete: int) -> Work | None:
    """The work of a call, by the codes of its name and its inputs; None without a model."""
    inputs = Inputs(trace.shapes[shapes], trace.types[types], trace.strides[strides], trace.concrete[concrete])
    call = op_models.call_of(trace.names[name], inputs)
    return op_models.work(call) if call is not None else None


def leaves(context: Context) -> Bool:
    """Which operators have a model and launched something and contain no such operator of their family."""
    trace, host = context.trace, context.host
    order = {family: number for number, family in enumerate(Family)}
    by_name = np.array([order.get(op_models.family(name), -1) for name in trace.names], np.int8)  # type: ignore[arg-type]
    launched = (context.cached(node_times).device_self_ns > 0) & ~_crossing(context)
    counted = host.is_row & launched & context.called_in_scope(host.tree.start_ns)
    families = np.where(counted, by_name[host.name], -1)
    found = np.zeros(len(host.tree), np.bool_)
    for number in order.values():
        members = families == number
        if members.any():
            found |= members & (host.tree.sums(members.astype(np.int64)) == 1)
    return found


def launched_by(context: Context, rows: I64) -> tuple[I64, I64]:
    """Those among some rows of the device table whose launch is known, and for each the node that launched it."""
    node = context.links.device_node()[rows]
    known = node != NO_PARENT
    return rows[known], context.host.top[node[known]]


def _crossing(context: Context) -> Bool:
    """Which nodes copy between memories: host to device, back, or device to device over a link."""
    device, names = context.trace.device, context.trace.names
    copies = device.category == Category.MEMCPY
    copies &= names.where(lambda name: "HtoD" in name or "DtoH" in name or "PtoP" in name)[device.name]
    crossing = np.zeros(len(context.host.tree), np.bool_)
    crossing[launched_by(context, np.flatnonzero(copies))[1]] = True
    return crossing


class Peer(msgspec.Struct, frozen=True):
    """A cheaper call of the same operator and size, in the same measurement."""

    input_shapes: str
    """Input shapes of the cheaper call, as recorded."""
    device_ns_per_call: float
    """Device time of one cheaper call in ns."""
    saving_ns: float
    """What all calls of the dearer shape together would save at the price of the cheaper one, in ns."""


class Priced(msgspec.Struct, frozen=True):
    """All calls of one operator with the same inputs."""

    size: Hashable | None
    """Calls of equal size should cost the same; None: the size is not known."""
    input_shapes: str
    calls: int
    """Number of calls, at least 1."""
    device_ns: int

    @property
    def price(self) -> float:
        """Device time of one call, in ns."""
        return self.device_ns / self.calls


def peers(rows: Sequence[Priced]) -> list[Peer | None]:
    """For each row the cheapest row of its size; None for the cheapest itself and for unknown sizes."""
    best: dict[Hashable, Priced] = {}
    for row in rows:
        if row.size is not None and row.device_ns:
            cheapest = best.get(row.size)
            if cheapest is None or row.price < cheapest.price:
                best[row.size] = row
    return [_peer(row, best.get(row.size)) for row in rows]


def _peer(row: Priced, best: Priced | None) -> Peer | None:
    if best is None or best.price >= row.price:
        return None
    return Peer(best.input_shapes, best.price, row.device_ns - best.price * row.calls)
