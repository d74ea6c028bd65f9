"""Do backward passes evaluate functions that forward passes of earlier steps made, more of them in each step?

Each function of the graph has a number, which grows with time. A function whose number is below the first one that the
forward pass of a step made comes from an earlier step.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from traceanalyzer.report.message import Text
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.autograd import graph
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import Occurrences, event_set
from traceanalyzer.structure.module_calls import owners
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.trace.table import I64, UNKNOWN
from traceanalyzer.trace.tree import NO_PARENT


class KeptGraphs(msgspec.Struct, frozen=True):
    """Functions of earlier steps that backward passes evaluate."""

    steps: int
    """Number of typical steps."""
    growing_steps: int
    """Recorded steps in a row, up to the last one, each of which evaluates more such functions than the one before."""
    first: int
    """Number of such functions in the first of these steps."""
    last: int
    """Number of such functions in the last."""
    host_ns: int
    """Time in ns of evaluating them, summed over the typical steps."""
    start_ns: int | None
    """Start of the longest of these evaluations in ns since the first event; null if there are none."""


def analyze(context: Context) -> KeptGraphs:
    """Count functions of earlier steps, and add up their time."""
    steps = program_steps(context)
    nodes = context.cached(_stale)
    tree = context.host.tree
    at = steps.every.at(tree.start_ns[nodes])
    counts = np.bincount(at[at >= 0], minlength=len(steps.every)).tolist()
    growing = 1
    while growing < len(counts) and counts[-growing] > counts[-growing - 1]:
        growing += 1
    is_typical = steps.typical.at(tree.start_ns[nodes]) >= 0
    longest = nodes[tree.dur_ns[nodes].argmax()] if len(nodes) else None
    return KeptGraphs(
        steps=len(steps.typical),
        growing_steps=growing if counts and counts[-1] else 0,
        first=counts[-growing] if counts else 0,
        last=counts[-1] if counts else 0,
        host_ns=int(tree.dur_ns[nodes[is_typical]].sum()),
        start_ns=None if longest is None else int(tree.start_ns[longest]),
    )


@event_set
def stale_at(context: Context) -> Iterator[Occurrences]:
    """When autograd evaluates functions of earlier steps."""
    yield Occurrences.of_nodes(context, "earlier steps", context.cached(_stale))


def _stale(context: Context) -> I64:
    """Evaluations of functions that were made before the step, as nodes."""
    steps, made, tree = program_steps(context).every, context.cached(graph), context.host.tree
    of_made = steps.at(made.start_ns)
    least = np.full(len(steps) + 1, np.iinfo(np.int64).min)
    for step in range(len(steps)):
        own = made.sequence[of_made == step]
        if len(own):
            least[step] = own.min()
    nodes = np.flatnonzero(context.cached(owners).is_evaluation)
    row = context.host.row[nodes]
    sequence = context.trace.host.sequence[row]
    at = steps.at(tree.start_ns[nodes])
    stale: I64 = nodes[(at != NO_PARENT) & (sequence != UNKNOWN) & (sequence < least[at])]
    return stale


_NUMBERS = Need(
    Text("skip-kept-graphs", "the trace has no steps, or no functions with numbers of autograd"),
    lambda context: bool(len(program_steps(context).every) and len(context.cached(graph).node)),
)
ANALYSES = (Analysis(437, "kept_graphs", KeptGraphs, analyze, needs=(_NUMBERS,)),)
