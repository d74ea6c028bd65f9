"""Which Python line does the work of the backward pass belong to?

Autograd launches the backward pass from threads without Python frames. The work belongs to the line that called the
corresponding operator of the forward pass; flows and sequence numbers show that operator (`modules.backward`). If
autograd itself called that operator (in a second derivative, or in a checkpoint that is run again), the work belongs to
the line of the evaluation around it.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.structure.context import Context
from traceanalyzer.structure.module_calls import forward_nodes, owners
from traceanalyzer.trace.table import I64, entries
from traceanalyzer.trace.tree import NO_PARENT, Tree


class _Evaluations(msgspec.Struct, frozen=True):
    """Autograd's evaluations, in the order of the host tree."""

    forward: I64
    """For each evaluation, the position in the host tree of its operator in the forward pass; -1 if unknown."""
    around_forward: I64
    """For each evaluation, the evaluation in which that operator was called; -1 for none."""
    of_launch: I64
    """For each launch, the innermost evaluation around it; -1 for none."""


def frames_of_launches(context: Context, frames: Tree) -> I64:
    """For each launch within an evaluation of autograd, the Python frame of the corresponding forward pass.

    Args:
        context: The trace.
        frames: Some of its Python frames.

    Returns:
        Positions in the tree of frames, -1 if there is none; shape (launches,).
    """
    found, tree = context.once(_evaluations), context.host.tree
    known = np.flatnonzero(found.forward != NO_PARENT)
    forward = found.forward[known]
    frame = np.full(len(found.forward), NO_PARENT, np.int64)
    frame[known] = frames.innermost(tree.thread[forward], tree.start_ns[forward])
    while True:  # one round for each level of nested backward passes
        homeless = np.flatnonzero((frame == NO_PARENT) & (found.around_forward != NO_PARENT))
        further = frame[found.around_forward[homeless]]
        if not (further != NO_PARENT).any():
            return entries(frame, found.of_launch, NO_PARENT)
        frame[homeless] = further


def _evaluations(context: Context) -> _Evaluations:
    modules, tree = context.once(owners), context.host.tree
    evaluations, forward = forward_nodes(context)
    number = np.full(len(tree) + 1, NO_PARENT, np.int64)
    number[evaluations] = np.arange(len(evaluations))
    around = entries(modules.evaluation, np.arange(-1, len(tree)), NO_PARENT)
    inside = number[around]  # for each node, from -1 on
    return _Evaluations(forward, inside[forward + 1], inside[modules.launch_node + 1])
