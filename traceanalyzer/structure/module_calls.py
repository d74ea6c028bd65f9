"""To which call of a module does every host node and every launch belong?

A node belongs to the innermost module call or evaluation of autograd around it. What autograd evaluates belongs to the
module whose forward pass made it necessary. Forward-backward flows show it exactly. Without a flow, the sequence number
of the evaluated function identifies the operator of the forward pass that created it: of the operators with this
number, the last one that started before. Adding gradients to parameters directly follows the function that computed
them, and belongs to the same module.
"""

from __future__ import annotations

import re
from functools import cached_property

import msgspec
import numpy as np

from traceanalyzer.knowledge import marks
from traceanalyzer.structure.context import Context, cached
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.sums import first_rows, sum_by
from traceanalyzer.trace.distinct import ranked
from traceanalyzer.trace.table import I32, I64, UNKNOWN, Bool, take_or
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

_EVALUATION = "autograd::engine::evaluate_function: "
_ACCUMULATION = "torch::autograd::AccumulateGrad"
_MODULE = "nn.Module: "
_NUMBER = re.compile(r"_\d+$")


class ModuleOwners(msgspec.Struct, frozen=True, dict=True):
    """Owners of host nodes and launches, as positions in the host tree."""

    is_module: Bool
    is_evaluation: Bool
    """The outermost node of each function that autograd evaluated."""
    evaluation: I32
    """For each node, the evaluation around it, itself included, or -1."""
    module: I32
    """For each node, the innermost module call around it, itself included, or -1."""
    launch_node: I64
    """For each launch, the innermost node around it, modules included, or -1."""

    @cached_property
    def owner(self) -> I32:
        """For each node, the innermost module call or evaluation around it, itself included, or -1."""
        return np.maximum(self.module, self.evaluation)  # of two nodes around another, the inner one follows the outer


def owners(context: Context) -> ModuleOwners:
    """The owners of all nodes and launches."""
    host, links = context.host, context.links
    is_evaluation = context.cached(evaluations)
    return ModuleOwners(
        is_module=host.kind == NodeKind.MODULE,
        is_evaluation=is_evaluation,
        evaluation=host.tree.nearest(is_evaluation),
        module=host.module,
        launch_node=np.where(links.innermost == NO_PARENT, links.node, links.innermost),
    )


def evaluations(context: Context) -> Bool:
    """Nodes that are the evaluation of one function by autograd, without the nodes inside that are part of it.

    Since torch 1.9 `autograd::engine::evaluate_function` surrounds each; before, the function itself is all. It has the
    number of the forward pass's; without any numbers, as in lists of the legacy profiler, its name tells.
    """
    host, trace = context.host, context.trace
    surrounds = trace.names.where(lambda name: name.startswith(_EVALUATION))[host.name]
    part = surrounds | trace.names.where(is_accumulation)[host.name]
    numbered = (trace.host.sequence != UNKNOWN) & (context.kind != NodeKind.NONE)
    if numbered.any():
        evaluates = numbered & (trace.host.forward_thread > 0)
        part |= evaluates.take(host.row, mode="clip") & (host.kind != NodeKind.MODULE)  # whose rows are of frames
    else:
        part |= trace.names.where(marks.is_backward)[host.name] & (host.category == Category.OPERATOR)
    nested = take_or(part, host.tree.parent, False)
    return surrounds | (part & ~nested)


def is_accumulation(name: str) -> bool:
    """Whether a function adds to a parameter's gradient; it has no counterpart in the forward pass."""
    return name.removeprefix(_EVALUATION) == _ACCUMULATION


def device_time(context: Context) -> I64:
    """For each launch, the sum of the durations in ns of what it started on devices."""
    launch = context.links.launch
    linked = launch != NO_PARENT
    return sum_by(launch[linked], context.trace.device.dur_ns[linked], len(context.trace.launches))


@cached
def forward_nodes(context: Context) -> tuple[I64, I64]:
    """The evaluations of autograd, each with its operator of the forward pass.

    Returns:
        Positions of the evaluations in the host tree, ascending, and the positions of the operators of the
        forward pass, -1 if none is known.
    """
    found = context.cached(owners)
    evaluations = np.flatnonzero(found.is_evaluation)
    source = np.full(len(context.host.tree), NO_PARENT, np.int64)
    _by_sequence(context, evaluations, source)
    _by_flow(context, found.evaluation, source)
    return evaluations, _accumulations_follow(context, evaluations, source[evaluations])


def _by_flow(context: Context, evaluation: I32, source: I64) -> None:
    """Fill in the forward end of each flow whose backward end lies in an evaluation."""
    flows, tree = context.trace.flows, context.host.tree
    node = tree.innermost(flows.thread, flows.start_ns)
    begins = np.flatnonzero((flows.is_start == 1) & (flows.flow != UNKNOWN) & (node != NO_PARENT))
    ends = np.flatnonzero((flows.is_start == 0) & (flows.flow != UNKNOWN) & (node != NO_PARENT))
    if not len(begins):
        return
    begins = begins[np.argsort(flows.flow[begins], kind="stable")]
    ids = flows.flow[begins]
    first = np.searchsorted(ids, flows.flow[ends], side="left")
    is_unique = np.searchsorted(ids, flows.flow[ends], side="right") - first == 1  # several: merged processes
    target = evaluation[node[ends[is_unique]]]
    operator = node[begins[first[is_unique]]]
    is_known = target != NO_PARENT
    source[target[is_known]] = operator[is_known]


def _by_sequence(context: Context, evaluations: I64, source: I64) -> None:
    """Fill in the last operator with the number of an evaluation that started before it.

    Numbers count per thread. A number that operators of several threads have is not used.
    """
    host, table = context.host, context.trace.host
    sequence = take_or(table.sequence, host.row, UNKNOWN)
    sequence[host.kind == NodeKind.MODULE] = UNKNOWN  # whose rows are of frames
    nodes = np.flatnonzero(sequence != UNKNOWN)
    forward = nodes[table.forward_thread[host.row[nodes]] <= 0]
    asking = evaluations[sequence[evaluations] != UNKNOWN]
    if not len(forward) or not len(asking):
        return
    evaluation, operator = _last_before(forward, asking, sequence, host.tree.start_ns)
    numbers, is_unique = _of_one_thread(sequence[forward], table.thread[host.row[forward]])
    is_known = is_unique[np.searchsorted(numbers, sequence[evaluation])]
    source[evaluation[is_known]] = operator[is_known]


def _last_before(forward: I64, asking: I64, sequence: I64, start_ns: I64) -> tuple[I64, I64]:
    """The evaluations before which an operator with their number started, and the last such operator of each.

    Args:
        forward: Nodes that are operators of the forward pass.
        asking: Nodes that are evaluations.
        sequence: The number of each node.
        start_ns: The start of each node.
    """
    both = np.concatenate((forward, asking))
    asks = np.repeat([False, True], [len(forward), len(asking)])
    order = np.lexsort((~asks, start_ns[both], sequence[both]))  # an asking one before equal starts
    both, asks = both[order], asks[order]
    last = np.maximum.accumulate(np.where(asks, -1, np.arange(len(both))))
    some_before = asks & (last >= 0)
    evaluation, operator = both[some_before], both[last[some_before]]
    is_same = sequence[operator] == sequence[evaluation]
    return evaluation[is_same], operator[is_same]


def _of_one_thread(sequence: I64, thread: I32) -> tuple[I64, Bool]:
    """The distinct numbers, ascending, and which of them operators of only one thread have."""
    numbers, number = ranked(sequence)
    is_unique = np.ones(len(numbers), np.bool_)
    first = thread[first_rows(number, len(numbers))]
    is_unique[number[thread != first[number]]] = False
    return numbers, is_unique


def _accumulations_follow(context: Context, evaluations: I64, source: I64) -> I64:
    """Give accumulations of gradients the source of the evaluation before them, among the same siblings."""
    host = context.host
    accumulates = context.trace.names.where(is_accumulation)[host.name[evaluations]]
    order = np.lexsort((evaluations, host.tree.parent[evaluations], _thread(context, evaluations)))
    accumulates = accumulates[order]
    last = np.maximum.accumulate(np.where(accumulates, -1, np.arange(len(order))))
    is_follower = accumulates & (last >= 0)
    follower, before = order[is_follower], order[last[is_follower]]
    node, node_before = evaluations[follower], evaluations[before]
    are_siblings = host.tree.parent[node_before] == host.tree.parent[node]
    are_siblings &= _thread(context, node_before) == _thread(context, node)
    with_followers = source.copy()
    with_followers[follower[are_siblings]] = source[before[are_siblings]]
    return with_followers


def _thread(context: Context, nodes: I64) -> I64:
    return context.host.tree.thread[nodes].astype(np.int64)


def class_name(name: str) -> str:
    """`Linear` of `nn.Module: Linear_3`; other names as they are."""
    return _NUMBER.sub("", name.removeprefix(_MODULE)) if name.startswith(_MODULE) else name


def class_codes(context: Context) -> I64:
    """For each name of the trace, the code of the first name with the same class."""
    first: dict[str, int] = {}
    return np.array(
        [first.setdefault(class_name(name), code) for code, name in enumerate(context.trace.names)], np.int64
    )
