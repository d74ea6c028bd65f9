"""The waits of the program for batches of its loaders."""

from __future__ import annotations

import numpy as np

from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.trace.table import I64, entries
from traceanalyzer.trace.tree import NO_PARENT

LOADERS = 200
"""Greatest number of loaders in the result, those with the longest waits (own choice: each epoch may create one)."""


def is_in_process(name: str) -> bool | None:
    """Whether the iterator of this name prepares batches in the process that waits for them."""
    if "_SingleProcess" in name:
        return True
    return False if "_MultiProcessing" in name else None


def outermost(context: Context) -> I64:
    """Positions of waits that do not lie within another wait."""
    is_wait, tree = context.host.kind == NodeKind.DATALOADER, context.host.tree
    rows = np.flatnonzero(is_wait)
    around = entries(tree.nearest(is_wait), tree.parent[rows], NO_PARENT)
    found: I64 = rows[around == NO_PARENT]
    return found
