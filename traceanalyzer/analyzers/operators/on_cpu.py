"""Which operators compute on the CPU for long, and does the device wait for them?

Calls of 200 us or longer on threads that launch, without any call of the device's runtime inside: what computes on a
device launches, copies or waits there. Of such calls inside each other the outermost counts, which the program called.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from traceanalyzer.report.message import Text
from traceanalyzer.structure import gaps, host_activity, typical
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import EventSet, Occurrences, event_set
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.recording.program_steps import count_steps
from traceanalyzer.structure.sums import members
from traceanalyzer.trace.distinct import is_among
from traceanalyzer.trace.table import I64, take_or
from traceanalyzer.trace.tree import NO_PARENT

_SHOWN = 20


class CpuOperator(msgspec.Struct, frozen=True):
    """Long calls of one operator on the CPU."""

    name: str
    """Name of the operator."""
    in_optimizer: bool
    """Whether an optimizer calls it."""
    calls: int
    """Number of such calls."""
    steps: int
    """Number of steps with such calls."""
    host_ns: int
    """Duration of the calls in ns."""
    idle_ns: int
    """Part of it in ns in which the busiest device does nothing."""
    start_ns: int
    """Start of the longest call in ns since the first event."""

    @property
    def events(self) -> EventSet:
        """All calls of the operator as a set of events."""
        return EventSet.operator(self.name)


class CpuOperators(msgspec.Struct, frozen=True):
    """Operators that compute on the CPU, those first for which the device waits longest."""

    rows: tuple[CpuOperator, ...]
    """By name, inside and outside of optimizers apart; at most twenty."""


def analyze(context: Context) -> CpuOperators:
    """Calls that start in the chosen steps, or all."""
    nodes = context.cached(_nodes)
    nodes = nodes[context.in_scope(context.host.tree.start_ns[nodes])]
    idle = _idle(context, nodes)
    key = 2 * context.host.name[nodes].astype(np.int64) + _in_optimizer(context, nodes)
    rows = [_row(context, int(kind), nodes[own], idle[own]) for kind, own in members(key)]
    return CpuOperators(tuple(sorted(rows, key=lambda row: (-row.idle_ns, -row.host_ns, row.name))[:_SHOWN]))


@event_set
def cpu_operators_at(context: Context, names: tuple[str, ...], *, in_optimizer: bool) -> Iterator[Occurrences]:
    """The long calls of some operators on the CPU.

    Args:
        context: The trace.
        names: Of the operators.
        in_optimizer: Whether those of optimizers, or all others.
    """
    nodes = context.cached(_nodes)
    named = context.trace.names.where(set(names).__contains__)[context.host.name[nodes]]
    chosen = nodes[named & (_in_optimizer(context, nodes) == in_optimizer)]
    yield Occurrences.of_nodes(context, names[0], chosen)


def _nodes(context: Context) -> I64:
    """The calls on threads that launch, outside of loaders; what other threads do holds no device up by itself."""
    nodes, host = host_activity.cpu_operators(context), context.host
    loader = take_or(host.tree.nearest(host.kind == NodeKind.DATALOADER), nodes, NO_PARENT)
    launches = is_among(host.tree.thread[nodes], host_activity.launching_threads(context))
    chosen: I64 = nodes[(loader == NO_PARENT) & launches]
    return chosen


def _in_optimizer(context: Context, nodes: I64) -> I64:
    """1 for nodes that an optimizer calls, 0 for others."""
    host = context.host
    around = take_or(host.tree.nearest(host.kind == NodeKind.OPTIMIZER), nodes, NO_PARENT)
    inside: I64 = (around != NO_PARENT).astype(np.int64)
    return inside


def _idle(context: Context, nodes: I64) -> I64:
    """Time of each node in ns in which the busiest device does nothing."""
    tree = context.host.tree
    device = typical.device(context)
    if device is None:
        return np.zeros(len(nodes), np.int64)
    return tree.dur_ns[nodes] - gaps.busy(context, device).within(tree.start_ns[nodes], tree.end_ns[nodes])


def _row(context: Context, kind: int, nodes: I64, idle: I64) -> CpuOperator:
    tree = context.host.tree
    start, duration = tree.start_ns[nodes], tree.dur_ns[nodes]
    return CpuOperator(
        name=context.trace.names[kind // 2],
        in_optimizer=bool(kind % 2),
        calls=len(nodes),
        steps=count_steps(context, start),
        host_ns=int(duration.sum()),
        idle_ns=int(idle.sum()),
        start_ns=int(start[duration.argmax()]),
    )


_LONG = Need(
    Text("skip-no-cpu-operators", "no operator computes on the CPU for long beside a device"),
    lambda context: len(context.cached(_nodes)) > 0,
)
ANALYSES = (Analysis(245, "cpu_operators", CpuOperators, analyze, needs=(_LONG,), is_of_steps=True),)
