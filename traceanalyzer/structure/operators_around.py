"""Which operators are around a wait of the host?

Steps and modules are left out, and an operator that calls itself counts once.
"""

from __future__ import annotations

import numpy as np

from traceanalyzer.structure import host_activity
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.sums import group
from traceanalyzer.trace.table import I64, entries
from traceanalyzer.trace.tree import NO_PARENT

OPERATORS = 32
"""Greatest number of operators around a wait that are compared and shown, the innermost ones (own choice: programs nest
about a dozen, recursion has no end)."""


def chains(context: Context, node: I64) -> I64:
    """A number for each node; two nodes have the same number if the same operators are around them.

    Args:
        context: Of the trace.
        node: Positions in the host tree; -1 for a call outside of every node.
    """
    above = context.once(_named_above)
    chain, around = np.zeros(len(node), np.int64), _first_named(context, node)
    for _ in range(OPERATORS):
        counted = np.flatnonzero(around != NO_PARENT)
        if not len(counted):
            break
        # Each level gives new numbers; those without a further name keep theirs, which count fewer names.
        longer = group(chain[counted], context.host.name[around[counted]])[1]
        chain[counted] = int(chain.max()) + 1 + longer
        around = above[around]
    return chain


def too_deep(context: Context) -> int:
    """Number of waits that lie in more than `OPERATORS` operators, so that the outermost are ignored."""
    above = context.once(_named_above)
    around = _first_named(context, context.links.node[context.once(host_activity.waits).row])
    for _ in range(OPERATORS):
        around = above[around]
    return int((around != NO_PARENT).sum())


def _first_named(context: Context, position: I64) -> I64:
    """For each node, itself or its nearest ancestor that is named; -1 for none."""
    return entries(context.once(_nearest_named), position, NO_PARENT)


def names(context: Context, node: int) -> tuple[str, ...]:
    """Names of a node and of the operators around it, outermost first; at most the innermost `OPERATORS`."""
    above = context.once(_named_above)
    found: list[str] = []
    around = int(_first_named(context, np.array([node]))[0])
    while around != NO_PARENT and len(found) < OPERATORS:
        found.append(context.trace.names[context.host.name[around]])
        around = int(above[around])
    return tuple(reversed(found))


def _named_above(context: Context) -> I64:
    """The nearest named ancestor of each node, -1 for none; one more -1 at the end answers for the position -1."""
    nearest = np.append(context.once(_nearest_named), NO_PARENT)
    return np.append(nearest[context.host.tree.parent], NO_PARENT)


def _nearest_named(context: Context) -> I64:
    """For each node, itself or its nearest ancestor that is named around a wait; -1 for none.

    Steps and modules are not named, nor is an operator that calls itself again.
    """
    host = context.host
    return host.tree.nearest((host.kind != NodeKind.MODULE) & (host.kind != NodeKind.STEP) & ~host.merged)
