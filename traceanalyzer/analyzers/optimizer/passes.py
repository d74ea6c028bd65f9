"""Which forward and backward passes does training make for each update of the parameters, and what are they for?

By the ranges of optimizers, by what autograd evaluates, and by the numbers of the functions that the forward pass
creates. Where optimizers take turns between two backward passes, it is unknown whose gradients were thrown away,
so this is left out. Everything counts that starts in the chosen steps.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.analyzers.optimizer import accumulation, discarded, pipeline, repeated_passes, unused
from traceanalyzer.analyzers.optimizer.accumulation import Accumulation
from traceanalyzer.analyzers.optimizer.discarded import Discarded
from traceanalyzer.analyzers.optimizer.pipeline import Pipeline
from traceanalyzer.analyzers.optimizer.repeated_passes import RepeatedForward
from traceanalyzer.analyzers.optimizer.unused import UnusedForward
from traceanalyzer.report.message import Text
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.autograd import backward, graph, optimizer_starts
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.module_calls import is_accumulation, owners
from traceanalyzer.structure.sums import group
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.table import I64
from traceanalyzer.trace.tree import NO_PARENT


class Passes(msgspec.Struct, frozen=True):
    """Forward and backward passes of a training, and how their results are used."""

    backward_passes: int
    """Number of backward passes."""
    updates: int
    """Number of calls of `step` of an optimizer."""
    zero_grads: int
    """Number of calls of `zero_grad`."""
    graph_functions: int
    """Number of functions that forward passes added to the graph of autograd."""
    graph_passes: int
    """Most calls of one outermost module that added functions to the graph; steps that did where modules were not
    recorded."""
    graph_host_ns: int
    """Host time in ns of the operators that added them."""
    graph_start_ns: int | None
    """Start of the first of these operators in ns since the first event; null if there is none."""
    discarded: Discarded | None
    """Passes whose gradients `zero_grad` discarded; null if there are none, or if it is unknown."""
    unused: tuple[UnusedForward, ...]
    """Modules with forward passes that no backward pass belongs to, beside others that have one."""
    accumulation: Accumulation | None
    """Updates from several backward passes; null if there are none."""
    added_ns: int = 0
    """Host time in ns in which autograd added gradients to existing gradients of parameters."""
    repeated: RepeatedForward | None = None
    """Forward passes that run once more without autograd; null if there are none."""
    pipeline: Pipeline | None = None
    """Waiting of a stage of a pipeline; null if the program has no pipeline, or it is unknown."""


def analyze(context: Context) -> Passes:
    """Count the passes, and find those whose results are not used."""
    updates, zeroed = context.once(optimizer_starts)
    tree, created = context.host.tree, np.flatnonzero(context.in_scope(context.once(graph).start_ns))
    nodes = context.once(graph).node[created]
    return Passes(
        backward_passes=_count(context, context.once(backward).start_ns),
        updates=_count(context, updates),
        zero_grads=_count(context, zeroed),
        graph_functions=len(nodes),
        graph_passes=_graph_passes(context, created),
        graph_host_ns=int((tree.end_ns - tree.start_ns)[nodes].sum()),
        graph_start_ns=int(tree.start_ns[nodes[0]]) if len(nodes) else None,
        discarded=discarded.find(context),
        unused=unused.find(context),
        accumulation=accumulation.find(context),
        added_ns=_added_ns(context),
        repeated=repeated_passes.find(context),
        pipeline=pipeline.find(context),
    )


def _added_ns(context: Context) -> int:
    """Host time of additions in place within evaluations that accumulate gradients."""
    host, tree, names = context.host, context.host.tree, context.trace.names
    accumulates = context.once(owners).is_evaluation & names.where(is_accumulation)[host.name]
    adds = names.where(lambda name: name == "aten::add_")[host.name] & ~host.merged & context.in_scope(tree.start_ns)
    nodes = np.flatnonzero(adds & (tree.nearest(accumulates) != NO_PARENT))
    return int((tree.end_ns - tree.start_ns)[nodes].sum())


def _count(context: Context, start_ns: I64) -> int:
    """Number of times that lie in the chosen steps."""
    return int(context.in_scope(start_ns).sum())


def _graph_passes(context: Context, created: I64) -> int:
    """Most calls of one outermost module, or else steps, that created some of these functions of the graph."""
    roots, start = context.once(unused.roots), context.once(graph).start_ns[created]
    if len(roots.start_ns):
        calls = distinct(roots.of_graph[created][roots.of_graph[created] >= 0])
        kind = group(roots.name[calls], roots.instance[calls])[1]
        return int(np.bincount(kind).max(initial=0))
    steps = context.steps
    step = np.searchsorted(steps.start_ns, start, side="right") - 1
    return len(distinct(step[step >= 0]))


_AUTOGRAD = Need(
    Text(
        "skip-no-autograd",
        "the trace has no backward pass, and its operators have no sequence numbers of autograd (no gradients, or an "
        "old torch)",
    ),
    lambda context: bool(len(context.once(backward)) or len(context.once(graph).node)),
)
ANALYSES = (Analysis(430, "passes", Passes, analyze, needs=(_AUTOGRAD,)),)
