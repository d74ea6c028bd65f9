"""To which call of a module does every host node and every launch belong?

A node belongs to the innermost module call or evaluation of autograd around it. What autograd evaluates belongs
to the module whose forward pass made it necessary, which flows or sequence numbers show (`backward`).
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.sums import sum_by
from traceanalyzer.trace.table import I64, UNKNOWN, Bool, entries
from traceanalyzer.trace.tree import NO_PARENT

_EVALUATION = "autograd::engine::evaluate_function: "
_ACCUMULATION = "torch::autograd::AccumulateGrad"


class ModuleOwners(msgspec.Struct, frozen=True):
    """Owners of host nodes and launches, as positions in the host tree."""

    is_module: Bool
    is_evaluation: Bool
    """The outermost node of each function that autograd evaluated."""
    evaluation: I64
    """For each node, the evaluation around it, itself included, or -1."""
    module: I64
    """For each node, the innermost module call around it, itself included, or -1."""
    owner: I64
    """For each node, the innermost module call or evaluation around it, itself included, or -1."""
    launch_node: I64
    """For each launch, the innermost node around it, modules included, or -1."""


def owners(context: Context) -> ModuleOwners:
    """The owners of all nodes and launches."""
    host = context.host
    is_module: Bool = host.kind == NodeKind.MODULE
    is_evaluation = context.once(evaluations)
    evaluation = host.tree.nearest(is_evaluation)
    links = context.links
    return ModuleOwners(
        is_module=is_module,
        is_evaluation=is_evaluation,
        evaluation=evaluation,
        module=host.tree.nearest(is_module),
        owner=host.tree.nearest(is_module | is_evaluation) if is_module.any() else evaluation,
        launch_node=np.where(links.innermost == NO_PARENT, links.node, links.innermost),
    )


def evaluations(context: Context) -> Bool:
    """Nodes that are the evaluation of one function by autograd, without the nodes inside that are part of it.

    Since torch 1.9 `autograd::engine::evaluate_function` surrounds each; before, the function itself is all.
    """
    host, trace = context.host, context.trace
    surrounds = trace.names.where(lambda name: name.startswith(_EVALUATION))[host.name]
    part = surrounds | trace.names.where(is_accumulation)[host.name]
    nodes = np.flatnonzero(host.kind != NodeKind.MODULE)
    row = host.row[nodes]
    part[nodes] |= (trace.host.forward_thread[row] > 0) & (trace.host.sequence[row] != UNKNOWN)
    nested = entries(part, host.tree.parent, False)
    outermost: Bool = surrounds | (part & ~nested)
    return outermost


def is_accumulation(name: str) -> bool:
    """Whether a function adds to a parameter's gradient; it has no counterpart in the forward pass."""
    return name.removeprefix(_EVALUATION) == _ACCUMULATION


def device_time(context: Context) -> I64:
    """For each launch, the sum of the durations in ns of what it started on devices."""
    launch = context.links.launch
    linked = launch != NO_PARENT
    return sum_by(launch[linked], context.trace.device.dur_ns[linked], len(context.trace.launches))
