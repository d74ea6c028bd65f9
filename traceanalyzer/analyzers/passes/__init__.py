"""Which forward and backward passes does training make for each update of the parameters, and what are they for?

By the ranges of optimizers, by what autograd evaluates, and by the numbers of the functions that the forward pass
creates. Where optimizers take turns between two backward passes, nobody can tell whose gradients were thrown away,
and nothing is said of that.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.analyzers.context import Context
from traceanalyzer.analyzers.passes import accumulation, discarded, unused
from traceanalyzer.analyzers.passes.accumulation import Accumulation
from traceanalyzer.analyzers.passes.discarded import Discarded
from traceanalyzer.analyzers.passes.marks import backward, graph, optimizer_starts
from traceanalyzer.analyzers.passes.unused import UnusedForward
from traceanalyzer.analyzers.sums import group
from traceanalyzer.report.message import Message, Text

_NO_AUTOGRAD = Text(
    "skip-no-autograd",
    "the trace has no backward pass, and no operator has a number of autograd (no gradients, or old)",
)


class Passes(msgspec.Struct, frozen=True):
    """The answer."""

    backward_passes: int
    updates: int
    """Calls of `step` of an optimizer."""
    zero_grads: int
    """Calls of `zero_grad`."""
    graph_functions: int
    """Functions that forward passes added to the graph of autograd."""
    graph_passes: int
    """Most calls of one outermost module that did; steps that did where modules were not recorded."""
    graph_host_ns: int
    """Host time of the operators that added them."""
    graph_start_ns: int | None
    """Start of the first of these operators; null where there is none."""
    discarded: Discarded | None
    """Passes whose gradients `zero_grad` threw away; null where there are none, or nobody can tell."""
    unused: tuple[UnusedForward, ...]
    """Modules with forward passes that no backward pass belongs to, beside others that have one."""
    accumulation: Accumulation | None
    """Updates from several backward passes; null where there are none."""


def missing(context: Context) -> Message | None:
    """Why there is nothing to say of passes, or None."""
    return None if len(context.once(backward)) or len(context.once(graph).node) else _NO_AUTOGRAD()


def analyze(context: Context) -> Passes:
    """Count the passes, and find those that served nothing."""
    created, steps = context.once(graph), context.once(optimizer_starts)
    duration = context.host.tree.end_ns - context.host.tree.start_ns
    return Passes(
        backward_passes=len(context.once(backward)),
        updates=len(steps[0]),
        zero_grads=len(steps[1]),
        graph_functions=len(created.node),
        graph_passes=_graph_passes(context),
        graph_host_ns=int(duration[created.node].sum()),
        graph_start_ns=int(created.start_ns[0]) if len(created.node) else None,
        discarded=discarded.find(context),
        unused=unused.find(context),
        accumulation=accumulation.find(context),
    )


def _graph_passes(context: Context) -> int:
    """Outermost calls of modules, or else steps, that extended the graph."""
    created, roots = context.once(graph), context.once(unused.roots)
    if len(roots.start_ns):
        calls = np.unique(roots.of_graph[roots.of_graph >= 0])
        kind = group(roots.name[calls], roots.instance[calls])[1]
        return int(np.bincount(kind).max(initial=0))
    steps = context.steps
    step = np.searchsorted(steps.start_ns, created.start_ns, side="right") - 1
    return len(np.unique(step[step >= 0]))
