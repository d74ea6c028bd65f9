"""Calls of operators that the program makes itself, and where a sequence of them repeats without anything between.

What operators of PyTorch, its wrappers, optimizers and autograd repeat inside is theirs.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from traceanalyzer.knowledge import marks
from traceanalyzer.structure.autograd import has_closure
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.trace.table import I32, I64, Bool, take_or
from traceanalyzer.trace.tree import NO_PARENT

_PERIODS = 5
"""Periods that are looked at, of those after which operators come again (own choice)."""
LEAST = 10
"""A sequence counts if it comes this often in a row; PyTorch's own pattern matcher takes the same number."""


class Siblings(msgspec.Struct, frozen=True):
    """Operators that the program calls itself, by thread and parent, then by time."""

    node: I64
    """Position of each in the tree."""
    name: I32
    family: I64
    """A number that siblings share: of their parent, or of their thread where they have none."""
    head: I64
    """For each, the position here of the first from there on that may begin a turn; their number for none."""


def siblings(context: Context, may_begin: Callable[[str], bool]) -> Siblings:
    """The operators that the program calls itself.

    Args:
        context: The trace.
        may_begin: Whether a turn of what repeats may begin with an operator of some name.
    """
    host, tree = context.host, context.host.tree
    names = context.trace.names
    own = names.where(lambda n: not (marks.is_namespaced(n) or marks.is_backward(n) or marks.is_wrapper(n)))
    operator = np.isin(host.kind, (NodeKind.OPERATOR, NodeKind.PYTHON))
    allowed = np.isin(host.kind, (NodeKind.STEP, NodeKind.MODULE)) | (operator & own[host.name])
    optimizers = np.flatnonzero(host.kind == NodeKind.OPTIMIZER)
    allowed[optimizers] = has_closure(context, host.row[optimizers].astype(np.int64))  # which is the program's own
    parent = np.append(tree.parent, NO_PARENT)
    rows = np.flatnonzero(operator & take_or(allowed, parent[: len(tree)], True))
    rows = rows[context.in_scope(tree.start_ns[rows])]
    family = np.where(tree.parent == NO_PARENT, -2 - tree.thread, tree.parent)
    rows = rows[np.argsort(family[rows], kind="stable")]
    name = host.name[rows]
    heads = np.where(names.where(may_begin)[name], np.arange(len(rows)), len(rows))
    return Siblings(rows, name, family[rows], np.minimum.accumulate(heads[::-1])[::-1])


def stretches(holds: Bool) -> tuple[I64, I64]:
    """The first row of each stretch of rows for which something holds, and the row behind each."""
    bounds = np.flatnonzero(np.diff(holds, prepend=False, append=False))
    return bounds[::2], bounds[1::2]


def periods(siblings: Siblings, most: int) -> list[int]:
    """Numbers of siblings after which most of them come again, the commonest first; a few, none above the most."""
    name, family = siblings.name, siblings.family
    order = np.lexsort((np.arange(len(name)), name, family))
    same = (name[order][1:] == name[order][:-1]) & (family[order][1:] == family[order][:-1])
    apart = np.diff(order)[same]
    counts = np.bincount(apart[apart <= most], minlength=2)
    found: list[int] = np.argsort(-counts, kind="stable")[:_PERIODS].tolist()
    return [period for period in found if counts[period] >= LEAST]


def periodic(siblings: Siblings, period: int, covered: Bool) -> list[tuple[int, int]]:
    """The first sibling and the number of turns of each run; siblings that are covered belong to none."""
    name, family = siblings.name, siblings.family
    repeats = (name[period:] == name[:-period]) & (family[period:] == family[:-period])
    repeats &= ~(covered[period:] | covered[:-period])
    start, end = stretches(repeats)
    head = siblings.head[start]
    turns = (end + period - head) // period
    chosen = (end - start >= (LEAST - 1) * period) & (head < start + period) & (turns >= LEAST)
    return list(zip(head[chosen].tolist(), turns[chosen].tolist(), strict=True))
