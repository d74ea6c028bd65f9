"""Loops of the program over tensors: the same few elementwise operators, in place, on one tensor after the other.

Averages of a model's weights (EMA), clipping of gradients, and updates by hand do so with each parameter. The shapes
differ from turn to turn, which tells them from a chain of operators on one tensor. What optimizers of torch do in
`step` is theirs.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from traceanalyzer.structure import repeated_calls
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.repeated_calls import Siblings
from traceanalyzer.structure.sums import members
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.table import I64, Bool
from traceanalyzer.trace.tree import NO_PARENT

_LONGEST = 8
"""Operators of a turn at most (own choice: Adam by hand needs as many)."""
_IN_PLACE = frozenset(
    f"aten::{name}_" for name in ("add", "mul", "sub", "div", "lerp", "copy", "addcmul", "addcdiv", "clamp", "neg")
)
_AROUND = frozenset(
    f"aten::{name}"
    for name in ("add", "mul", "sub", "rsub", "div", "neg", "sqrt", "pow", "square", "to", "detach", "lerp", "zero_")
)
"""Elementwise operators that make what the others put into a tensor."""


class TensorRuns(msgspec.Struct, frozen=True):
    """Runs of turns, in the order of thread and time."""

    first: I64
    """The first operator of each run, a node of the host tree."""
    last: I64
    """The last operator of each run."""
    turns: I64
    """Number of tensors of each run."""
    period: I64
    """Operators of a turn."""
    nodes: I64
    """All operators of all runs, ascending."""


def tensor_loops(context: Context) -> TensorRuns:
    """Find the runs; none where shapes were not recorded."""
    found = repeated_calls.siblings(context, _is_elementwise)
    runs: I64 = np.array(sorted(_runs(context, found)), np.int64).reshape(-1, 3)
    begin, count, length = runs[:, 0], runs[:, 1], runs[:, 2]
    end = begin + count * length
    nodes = found.node[_within(len(found.node), begin, end)]
    return TensorRuns(found.node[begin], found.node[end - 1], count, length, nodes)


def _is_elementwise(name: str) -> bool:
    return name in _IN_PLACE or name in _AROUND


def _runs(context: Context, found: Siblings) -> Iterator[tuple[int, int, int]]:
    """First sibling, turns and period of each run, those with short turns first."""
    names = context.trace.names
    in_place = names.where(_IN_PLACE.__contains__)[found.name]
    shapes = context.trace.host.shapes[context.host.row[found.node]].astype(np.int64)
    covered = ~names.where(_is_elementwise)[found.name]
    for period in range(1, min(_LONGEST, len(found.node) // repeated_calls.LEAST) + 1):
        for first, turns in repeated_calls.periodic(found, period, covered):
            whole = slice(first, first + turns * period)
            if in_place[first : first + period].any() and _are_different(shapes[whole], period):
                covered[whole] = True
                yield first, turns, period


def _are_different(shapes: I64, period: int) -> bool:
    """Whether the inputs of each operator of a turn have several shapes."""
    return all(len(distinct(column)) > 1 for column in shapes.reshape(-1, period).T)


def _within(count: int, first: I64, end: I64) -> Bool:
    """Which positions lie in some ranges that do not overlap."""
    changes = np.zeros(count + 1, np.int64)
    changes[first] += 1
    changes[end] -= 1
    inside: Bool = np.cumsum(changes)[:count] > 0
    return inside


def by_place(context: Context, loops: TensorRuns) -> list[I64]:
    """The runs of each place: below one parent name, with one sequence of operators."""
    name, parent = context.host.name, context.host.tree.parent[loops.first]
    is_within = (parent != NO_PARENT) & (context.host.kind[parent] != NodeKind.STEP)
    keys = np.column_stack((np.where(is_within, name[parent], -1), name[loops.first], loops.period))
    _, number = np.unique(keys, axis=0, return_inverse=True)
    return [rows for _, rows in members(number.astype(np.int64).reshape(-1))]
