"""To which Python line does the work of the backward pass belong?

Autograd launches it from threads without Python frames. It belongs to the line that called the operator of the forward
pass which made it necessary; flows and sequence numbers show that operator (`modules.backward`). An operator that
autograd itself called (a backward pass of a backward pass, a checkpoint that is run again) has no line of its own: it
belongs where the evaluation around it belongs.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.analyzers.context import Context
from traceanalyzer.analyzers.modules.backward import forward_nodes
from traceanalyzer.analyzers.modules.owners import owners
from traceanalyzer.trace.table import I64, entries
from traceanalyzer.trace.tree import NO_PARENT, Tree


class _Evaluations(msgspec.Struct, frozen=True):
    """What autograd evaluated, in the order of the host tree."""

    forward: I64
    """Position in the host tree of the operator of the forward pass of each; -1 where it is not known."""
    around_forward: I64
    """The evaluation in which that operator was called; -1 for none."""
    of_launch: I64
    """For each launch, the innermost evaluation around it; -1 for none."""


def frames_of_launches(context: Context, frames: Tree) -> I64:
    """For each launch within an evaluation of autograd, the frame whose forward pass made it necessary.

    Args:
        context: The trace.
        frames: Some of its Python frames.

    Returns:
        Positions in the tree of frames, -1 where there is none; shape (launches,).
    """
    found, tree = context.once(_evaluations), context.host.tree
    known = np.flatnonzero(found.forward != NO_PARENT)
    forward = found.forward[known]
    frame = np.full(len(found.forward), NO_PARENT, np.int64)
    frame[known] = frames.innermost(tree.thread[forward], tree.start_ns[forward])
    while True:  # as often as backward passes are nested
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
    inside = number[around]  # of each node from -1 on
    return _Evaluations(forward, inside[forward + 1], inside[modules.launch_node + 1])
