"""Which module's forward pass does each evaluation of autograd belong to?

Forward-backward flows show it exactly. Without a flow, the sequence number of the evaluated function identifies the
operator of the forward pass that created it: of the operators with this number, the last one that started before.
Adding gradients to parameters directly follows the function that computed them, and belongs to the same module.
"""

from __future__ import annotations

import numpy as np

from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.module_calls import is_accumulation, owners
from traceanalyzer.trace.distinct import ranked
from traceanalyzer.trace.table import I64, UNKNOWN
from traceanalyzer.trace.tree import NO_PARENT


def forward_nodes(context: Context) -> tuple[I64, I64]:
    """The evaluations of autograd, each with its operator of the forward pass.

    Returns:
        Positions of the evaluations in the host tree, ascending, and the positions of the operators of the
        forward pass, -1 if none is known.
    """
    return context.once(_forward_nodes)


def _forward_nodes(context: Context) -> tuple[I64, I64]:
    found = context.once(owners)
    evaluations = np.flatnonzero(found.is_evaluation)
    source = np.full(len(context.host.tree), NO_PARENT, np.int64)
    _by_sequence(context, evaluations, source)
    _by_flow(context, found.evaluation, source)
    return evaluations, _accumulations_follow(context, evaluations, source[evaluations])


def _by_flow(context: Context, evaluation: I64, source: I64) -> None:
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
    unique = np.searchsorted(ids, flows.flow[ends], side="right") - first == 1  # several: merged processes
    ends, first = ends[unique], first[unique]
    target = evaluation[node[ends]]
    known = target != NO_PARENT
    source[target[known]] = node[begins[first[known]]]


def _by_sequence(context: Context, evaluations: I64, source: I64) -> None:
    """Fill in the last operator with the number of an evaluation that started before it.

    Numbers count per thread. A number that operators of several threads have is not used.
    """
    host, table = context.host, context.trace.host
    nodes = np.flatnonzero(host.kind != NodeKind.MODULE)
    sequence = np.full(len(host.tree), UNKNOWN, np.int64)
    sequence[nodes] = table.sequence[host.row[nodes]]
    forward = nodes[(sequence[nodes] != UNKNOWN) & (table.forward_thread[host.row[nodes]] <= 0)]
    asking = evaluations[sequence[evaluations] != UNKNOWN]
    if not len(forward) or not len(asking):
        return
    both = np.concatenate((forward, asking))
    asks = np.repeat([False, True], [len(forward), len(asking)])
    order = np.lexsort((~asks, host.tree.start_ns[both], sequence[both]))  # an asking one before equal starts
    both, asks = both[order], asks[order]
    last = np.maximum.accumulate(np.where(asks, -1, np.arange(len(both))))
    found = np.flatnonzero(asks & (last >= 0))
    found = found[sequence[both[last[found]]] == sequence[both[found]]]
    thread = table.thread[host.row[forward]]
    numbers, group = ranked(sequence[forward])
    least, most = np.full(len(numbers), np.iinfo(np.int32).max), np.full(len(numbers), -1)
    np.minimum.at(least, group, thread)
    np.maximum.at(most, group, thread)
    number = np.searchsorted(numbers, sequence[both[found]])
    found = found[least[number] == most[number]]
    source[both[found]] = both[last[found]]


def _accumulations_follow(context: Context, evaluations: I64, source: I64) -> I64:
    """Give accumulations of gradients the source of the evaluation before them, among the same siblings."""
    host = context.host
    accumulates = context.trace.names.where(is_accumulation)[host.name[evaluations]]
    order = np.lexsort((evaluations, host.tree.parent[evaluations], _thread(context, evaluations)))
    sorted_, accumulates = evaluations[order], accumulates[order]
    last = np.maximum.accumulate(np.where(accumulates, -1, np.arange(len(order))))
    followers = np.flatnonzero(accumulates & (last >= 0))
    before = last[followers]
    siblings = host.tree.parent[sorted_[before]] == host.tree.parent[sorted_[followers]]
    siblings &= _thread(context, sorted_[before]) == _thread(context, sorted_[followers])
    result = source.copy()
    result[order[followers[siblings]]] = source[order[before[siblings]]]
    return result


def _thread(context: Context, nodes: I64) -> I64:
    return context.host.tree.thread[nodes].astype(np.int64)
