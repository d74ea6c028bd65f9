"""Does autograd check for anomalies, and how much time does this take?

In anomaly mode (`torch.autograd.set_detect_anomaly`, `detect_anomaly`, Lightning's `detect_anomaly=True`) autograd
formats the Python stack for each function that the forward pass adds to the graph (`Node` stores it when it is made,
torch/csrc/autograd/function.h), and looks for NaN in all that each function of the backward pass returns
(`validate_outputs` in torch/csrc/autograd/engine.cpp): `aten::isnan`, `aten::_is_any_true` or `aten::any`, and
`aten::item`, directly within the evaluation, after the function itself.

A stack is formatted before the operator calls any other, so its time is the time until then, less that of operators
that add no function. An operator that calls no other has no such moment: it gets the median of the others, at most its
duration.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.report.message import Text
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.autograd import graph
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.module_calls import is_accumulation, owners
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.trace.table import I64, Bool, entries
from traceanalyzer.trace.tree import NO_PARENT

_CHECK = "aten::isnan"


class NanChecks(msgspec.Struct, frozen=True):
    """What autograd does in anomaly mode; sums over the typical steps, times in ns of the host."""

    steps: int
    """Number of typical steps."""
    functions: int
    """Functions of the backward pass that were evaluated, without those that add to gradients of parameters."""
    checked: int
    """Number of these functions whose results autograd checked for NaN."""
    checks_ns: int
    """Time from the first such check of each function to the end of its evaluation."""
    stacks: int
    """Functions that the forward pass added to the graph."""
    stacks_ns: int
    """Time between the start and the work of operators that extend the graph, beyond the usual time of other
    operators."""
    start_ns: int
    """Start of the first check in ns since the first event."""


def analyze(context: Context) -> NanChecks:
    """Add up what checks and stacks take."""
    tree, steps = context.host.tree, program_steps(context).typical
    found = context.once(_checks)
    nodes = context.once(graph).node
    nodes = nodes[steps.at(tree.start_ns[nodes]) >= 0]
    return NanChecks(
        steps=len(steps),
        functions=found.functions,
        checked=len(found.evaluation),
        checks_ns=int((tree.end_ns[found.evaluation] - tree.start_ns[found.first]).sum()),
        stacks=len(nodes),
        stacks_ns=_stacks_ns(context, nodes),
        start_ns=int(tree.start_ns[found.first].min()),
    )


class _Checks(msgspec.Struct, frozen=True):
    """Evaluations in typical steps whose results were checked, and the first check of each, as nodes."""

    functions: int
    evaluation: I64
    first: I64


def _checks(context: Context) -> _Checks:
    host, steps = context.host, program_steps(context).typical
    tree, names = host.tree, context.trace.names
    evaluation = context.once(owners).is_evaluation & ~names.where(is_accumulation)[host.name]
    counted = np.flatnonzero(evaluation)
    counted = counted[steps.at(tree.start_ns[counted]) >= 0] if len(steps) else counted[:0]
    is_counted = np.zeros(len(tree), np.bool_)
    is_counted[counted] = True
    checks = np.flatnonzero((host.name == names.code(_CHECK)) & (tree.parent != NO_PARENT))
    checks = checks[is_counted[tree.parent[checks]] & _is_behind_work(context, checks)]
    checked, first = np.unique(tree.parent[checks], return_index=True)
    return _Checks(len(counted), checked.astype(np.int64), checks[first])


def _is_behind_work(context: Context, checks: I64) -> Bool:
    """Which checks are not the first operator of their evaluation: hooks come before the function, checks after it."""
    tree = context.host.tree
    found: Bool = checks > tree.parent[checks].astype(np.int64) + 1
    return found


def _stacks_ns(context: Context, nodes: I64) -> int:
    """Time before the work of operators that add functions to the graph, beyond that of operators that do not."""
    if not len(nodes):
        return 0
    before, calls = _time_before_work(context)
    is_evaluation, tree = context.once(owners).is_evaluation, context.host.tree
    inside = entries(is_evaluation, context.once(owners).evaluation, missing=False)
    operator = np.flatnonzero(inside & calls & ~is_evaluation & ~entries(is_evaluation, tree.parent, missing=False))
    usual = int(np.median(before[operator])) if len(operator) else 0
    outer = calls[nodes]
    own = np.maximum(0, before[nodes[outer]] - usual)
    if not len(own):
        return 0
    leaves = nodes[~outer]
    return int(own.sum()) + int(np.minimum(tree.end_ns[leaves] - tree.start_ns[leaves], int(np.median(own))).sum())


def _time_before_work(context: Context) -> tuple[I64, Bool]:
    """For each node the time until the first node within it starts, and whether there is one."""
    tree = context.host.tree
    position = np.arange(len(tree))
    calls = tree.after > position + 1
    first = np.minimum(position + 1, len(tree) - 1)
    return np.where(calls, tree.start_ns[first] - tree.start_ns, 0), calls


_CHECKS = Need(
    Text("skip-no-nan-checks", "the trace has no backward pass in its steps, or autograd looks for no NaN in it"),
    lambda context: len(context.once(_checks).evaluation),
)
ANALYSES = (Analysis(440, "nan_checks", NanChecks, analyze, needs=(_CHECKS,)),)
