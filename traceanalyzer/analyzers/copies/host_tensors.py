"""Which tensors are created on the CPU only to be copied to a device?

An operator that makes a tensor (`aten::zeros`, `aten::randn`, ...) or fills one, that launches nothing, followed among
the operators of the same parent by a move (`aten::to`, `aten::copy_`) of a tensor of the same shape and type, whose
copy goes from the host to a device.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
import numpy as np

from traceanalyzer.knowledge import op_models
from traceanalyzer.knowledge.inputs import Inputs
from traceanalyzer.report.message import Text
from traceanalyzer.structure import host_activity, typical
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import EventSet, Occurrences, event_set
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.recording.program_steps import count_steps
from traceanalyzer.structure.sums import count_by, group
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.table import I64, take_or
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT, Tree

_MAKING = re.compile(
    r"^aten::((zeros|ones|full|rand|randn|randint|empty)(_like)?|arange|linspace|logspace|eye|normal|bernoulli|randperm"
    r"|tril_indices|triu_indices|one_hot)$"
)
_FILLING = re.compile(r"^aten::(fill_|zero_|uniform_|normal_|random_|bernoulli_|exponential_|ones_|arange)$")
_MOVING = frozenset(
    {"aten::to", "aten::_to_copy", "aten::copy_", "aten::cuda", "aten::pin_memory", "aten::_pin_memory"}
)
_LOOK_BACK = 8
"""Number of examined operators before the move: programs create a few tensors at a time, then move them."""
_COPIES = 20_000
"""Number of examined copies, the first ones; later copies are repetitions."""
_SHOWN = 20


class HostOrigin(msgspec.Struct, frozen=True):
    """All tensors of one shape, made by one operator at one place, and moved."""

    operator: str
    """Name of the operator that made the tensors on the CPU."""
    shapes: str | None
    """Shape of the tensor as JSON; null where shapes were not recorded."""
    python_line: str | None
    """The Python line that made the tensors; null where stacks were not recorded."""
    calls: int
    """Number of tensors that were made and moved."""
    steps: int
    """Number of steps with such tensors."""
    bytes: int | None
    """Bytes that were copied; null where the trace does not have all sizes."""
    making_ns: int
    """Host time of making the tensors, in ns."""
    moving_ns: int
    """Host time of moving the tensors in ns, waits for the copies included."""
    copy_ns: int
    """Duration of the copies on the device in ns."""
    first_start_ns: int
    """Start of the first operator that made one, in ns since the first event."""

    @property
    def events(self) -> EventSet:
        """The calls of the operator as a set of events."""
        return EventSet.operator(self.operator)


class HostOrigins(msgspec.Struct, frozen=True):
    """Tensors, those that take the host longest first."""

    copies: int
    """Number of examined copies from the host to a device; the search stops after a limit."""
    rows: tuple[HostOrigin, ...]
    """Tensors by operator, shape and Python line, the most host time first."""


def analyze(context: Context) -> HostOrigins:
    """Copies that start in the chosen steps, or all."""
    copies, groups = context.cached(_groups)
    summed = [_row(context, key, tensors) for key, tensors in groups.items()]
    order = sorted(summed, key=lambda row: (-(row.making_ns + row.moving_ns), row.operator, row.first_start_ns))
    return HostOrigins(copies, tuple(order[:_SHOWN]))


@event_set
def tensors_at(context: Context, rows: tuple[HostOrigin, ...]) -> Iterator[Occurrences]:
    """When some tensors are made and moved."""
    steady = typical.part(context)
    groups = steady.cached(_groups)[1].values()
    starts = context.host.tree.start_ns
    wanted = {row.first_start_ns for row in rows}
    chosen = [moved for moved in groups if min(int(starts[each.maker]) for each in moved) in wanted]
    nodes = [node for moved in chosen for each in moved for node in (each.maker, each.move)]
    yield Occurrences.of_nodes(context, rows[0].operator, distinct(np.array(nodes, np.int64)))


def _groups(context: Context) -> tuple[int, dict[tuple[int, str, str | None], list[_Moved]]]:
    """Number of examined copies, and the tensors by operator, shapes and line."""
    rows = _copies(context)
    rows = rows[context.in_scope(context.trace.device.start_ns[rows])][:_COPIES]
    moved = list(filter(None, map(_Search(context).moved, rows.tolist())))
    lines = host_activity.lines_of_nodes(context, np.array([tensor.maker for tensor in moved], np.int64))
    groups: dict[tuple[int, str, str | None], list[_Moved]] = {}
    for tensor, line in zip(moved, lines, strict=True):
        groups.setdefault((int(context.host.name[tensor.maker]), tensor.shapes, line), []).append(tensor)
    return len(rows), groups


def _copies(context: Context) -> I64:
    """Device events that are copies from a host and have an operator."""
    names, device = context.trace.names, context.trace.device
    to_device = names.where(lambda name: host_activity.direction(name) == "HtoD")[device.name]
    return np.flatnonzero(to_device & (device.category == Category.MEMCPY) & (context.links.device_node() != NO_PARENT))


class _Moved(msgspec.Struct, frozen=True):
    """One tensor that was made on the CPU and copied to a device."""

    maker: int
    """Position in the host tree of the operator that made it."""
    move: int
    """Position in the host tree of the operator that moved it."""
    copy: int
    """Row of the copy in the device table."""
    shapes: str


class _Search:
    """Searches from a copy for its move, and from there for the operator that made the tensor."""

    def __init__(self, context: Context) -> None:
        self.context = context
        trace, host = context.trace, context.host
        self.tree, self.name, self.row = host.tree, host.name, host.row
        self.makes = trace.names.where(lambda name: bool(_MAKING.match(name) or _FILLING.match(name)))[self.name]
        self.fills = self._fills()
        self.node = context.links.device_node()
        self.launched = self.tree.sums(count_by(self.node[self.node != NO_PARENT], len(self.tree)))
        self.is_operator = np.isin(host.kind, (NodeKind.OPERATOR, NodeKind.PYTHON))
        moves = trace.names.where(_MOVING.__contains__)[self.name]
        self.outermost = self.tree.nearest(~take_or(moves, self.tree.parent, False))
        self.before = _siblings_before(self.tree)

    def moved(self, copy: int) -> _Moved | None:
        """The tensor of a copy; None if no operator before the move under the same parent made it."""
        copied = self._shape(int(self.node[copy]))
        move = int(self.outermost[self.node[copy]])
        maker = self._maker(move, copied)
        return None if maker is None else _Moved(maker, move, copy, copied[0])

    def _maker(self, move: int, copied: tuple[str, str]) -> int | None:
        """The nearest operator before a move, among its siblings, that makes such a tensor on the CPU.

        Without a recorded shape, only the operator directly before the move is considered.
        """
        sibling = move
        for distance in range(_LOOK_BACK):
            before = self._before(sibling)
            if before is None:
                return None
            sibling = before
            if self.makes[sibling] and not self.launched[sibling]:
                made = self._made(sibling)
                if made == copied if made and copied[0] else not distance:
                    return sibling
        return None

    def _before(self, node: int) -> int | None:
        """The sibling before a node if it is an operator, else None."""
        before = int(self.before[node])
        return before if before != NO_PARENT and self.is_operator[before] else None

    def _made(self, node: int) -> tuple[str, str] | None:
        """Shape and type of the tensor that an operator fills, from the first fill in it; None if not recorded."""
        first = int(np.searchsorted(self.fills, node))
        inside = first < len(self.fills) and self.fills[first] < self.tree.after[node]
        return self._shape(int(self.fills[first])) if inside else None

    def _fills(self) -> I64:
        """Nodes that fill a tensor whose shape was recorded, ascending."""
        host, table = self.context.host, self.context.trace.host
        fills = self.context.trace.names.where(lambda name: bool(_FILLING.match(name)))
        nodes = np.flatnonzero(fills[self.name] & (host.kind != NodeKind.MODULE))
        row = host.row[nodes]
        first, groups = group(table.shapes[row], table.types[row])
        told = np.array([bool(self._shape(node)[0]) for node in nodes[first].tolist()], np.bool_)
        return nodes[told[groups]]

    def _shape(self, node: int) -> tuple[str, str]:
        """Shape and type of an operator's first tensor; empty where they were not recorded."""
        trace = self.context.trace
        row = int(self.row[node])
        call = op_models.call_of("", Inputs.of(trace, row))
        first = call.tensor(0) if call is not None else None
        return ("", "") if first is None else (str(list(first.shape)), first.dtype or "")


def _siblings_before(tree: Tree) -> I64:
    """For each node, the previous node under the same parent, or -1."""
    order = np.argsort(tree.parent, kind="stable")
    same = tree.parent[order[1:]] == tree.parent[order[:-1]]
    before = np.full(len(tree), NO_PARENT, np.int64)
    before[order[1:][same]] = order[:-1][same]
    return before


def _row(context: Context, key: tuple[int, str, str | None], moved: list[_Moved]) -> HostOrigin:
    tree, device, (operator, shapes, line) = context.host.tree, context.trace.device, key
    makers, moves, copies = np.array([(one.maker, one.move, one.copy) for one in moved]).T
    start = tree.start_ns[makers]
    size = device.bytes[copies]
    return HostOrigin(
        operator=context.trace.names[operator],
        shapes=shapes or None,
        python_line=line,
        calls=len(moved),
        steps=count_steps(context, start),
        bytes=int(size.sum()) if (size >= 0).all() else None,
        making_ns=int((tree.end_ns[makers] - start).sum()),
        moving_ns=int((tree.end_ns[moves] - tree.start_ns[moves]).sum()),
        copy_ns=int(device.dur_ns[copies].sum()),
        first_start_ns=int(start.min()),
    )


_COPIES_NEEDED = Need(
    Text("skip-no-copies-to-device", "the trace has no copy from the CPU to a device"),
    lambda context: len(_copies(context)) > 0,
)
ANALYSES = (Analysis(240, "host_origins", HostOrigins, analyze, needs=(_COPIES_NEEDED,), is_of_steps=True),)
