"""Which recorded calls are repeated: those of a named operator, or those that a finding is about."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from traceanalyzer.analyzers.kernels import roofline
from traceanalyzer.analyzers.kernels.elementwise_chains import Chains
from traceanalyzer.config import Config
from traceanalyzer.errors import UsageError
from traceanalyzer.knowledge.inputs import Inputs
from traceanalyzer.pipeline import analyze
from traceanalyzer.report.model import Finding
from traceanalyzer.report.names import clipped, numbered
from traceanalyzer.reproduction import arguments
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.operator_times import node_times
from traceanalyzer.structure.sums import sum_by
from traceanalyzer.trace.table import I64, Bool

_OPERATOR = re.compile(r"aten::([A-Za-z_]\w*)")
_ARROW = "->"
_CHAIN = "elementwise-fusion-chain"
_ATTENTION = "attention-unfused"
_SCORES, _WEIGHTS = ("aten::bmm", "aten::baddbmm"), ("aten::_softmax", "aten::softmax", "aten::_safe_softmax")
_NEAR = 16
"""Operators between a product and the softmax of its result (own choice: scaling, masks and dropout are a few)."""


@dataclass(frozen=True)
class RecordedCall:
    """Calls of an operator with equal inputs."""

    name: str
    """Name as recorded, such as `aten::mm`."""
    inputs: Inputs
    count: int
    """Number of calls with these inputs."""
    others: int
    """Number of calls of the operator with other inputs."""
    host_ns: float
    """Median of the durations on the host."""
    device_ns: float | None
    """Median of the time of what a call launches on a device, with calls inside; None if nothing."""
    roof_ns: float | None
    """The least time that the peaks of the device allow; None if it is unknown."""

    @property
    def short(self) -> str:
        """The name as torch.ops.aten has it."""
        return self.name.removeprefix("aten::")


def named(context: Context, text: str) -> tuple[RecordedCall, ...]:
    """The calls of a named operator, or of several that follow each other.

    Raises:
        UsageError: The trace has no such operator, no such shapes, or no shapes at all.
    """
    found = []
    for part in text.split(_ARROW):
        name, bracket, shapes = part.strip().partition("[")
        found.append(_most(context, name.strip(), "".join(f"{bracket}{shapes}".split()) or None))
    return tuple(found)


def of_finding(
    context: Context, finding_id: str, config: Config | None, jobs: int
) -> tuple[str, tuple[RecordedCall, ...]]:
    """The rule of a finding, and the calls that it is about.

    Raises:
        UsageError: There is no such finding, or it is about nothing that can be repeated alone.
    """
    report = analyze(context.trace, None, config, jobs=jobs)
    ids = numbered(finding.rule for finding in report.findings)
    if finding_id not in ids:
        there = ", ".join(ids) or "none"
        raise UsageError(f"{context.trace.info.name}: has no finding {finding_id}; there are: {there}")
    finding = report.findings[ids.index(finding_id)]
    if finding.rule == _CHAIN:
        chains = report.result("chains", Chains)
        for chain in chains.rows if chains is not None else ():
            links = [link for link in chain.links if _OPERATOR.fullmatch(link.name) and _says(link.input_shapes)]
            if len(links) > 1:
                return finding.rule, tuple(_most(context, link.name, link.input_shapes) for link in links)
    if finding.rule == _ATTENTION and (pieces := _attention(context)):
        return finding.rule, pieces
    for name in _operators(context, finding):
        return finding.rule, (_most(context, name, None),)
    raise UsageError(
        f"{finding_id}: is about no operator of aten whose inputs were recorded (record_shapes=True), and only such an "
        "operator can be repeated alone; --op names one"
    )


def _operators(context: Context, finding: Finding) -> Iterable[str]:
    """Operators with recorded shapes that a finding names, or that launch what it names; the first is the best."""
    places = [place for evidence in finding.evidence for place in evidence.where]
    has_shapes = _with_shapes(context)
    yield from (place.name for place in places if place.kind == "operator" and place.name in has_shapes)
    selected = [selection.name for selection in finding.where]
    yield from _launching(context, {place.name for place in places if place.kind == "kernel"} or {*selected})
    yield from (name for name in selected if name in has_shapes)


def _launching(context: Context, kernels: set[str]) -> Iterable[str]:
    """The operators that launch some kernels, those with most of their time first."""
    names, device, has_shapes = context.trace.names, context.trace.device, _with_shapes(context)
    codes = [code for code, name in enumerate(names) if name in kernels]
    rows = np.flatnonzero(np.isin(device.name, codes))
    node = context.links.device_node()[rows]
    rows, node = rows[node >= 0], node[node >= 0]
    time = sum_by(context.host.name[node].astype(np.int64), device.dur_ns[rows], len(names))
    order = np.argsort(-time, kind="stable").tolist()
    return [names[code] for code in order if time[code] > 0 and names[code] in has_shapes]


def _with_shapes(context: Context) -> set[str]:
    """Operators of aten with recorded inputs."""
    host = context.trace.host
    names = {context.trace.names[code] for code in np.unique(host.name[_is_recorded(context)]).tolist()}
    return {name for name in names if _OPERATOR.fullmatch(name)}


def _is_recorded(context: Context) -> Bool:
    """Which rows of the host table have inputs: writers may leave shapes empty where they were not recorded."""
    trace, host = context.trace, context.trace.host
    recorded: Bool = trace.shapes.where(_says)[host.shapes] | trace.concrete.where(_says)[host.concrete]
    return recorded | trace.types.where(_has_tensor)[host.types]


def _says(shapes: str) -> bool:
    """Whether a text of shapes or values has a number."""
    return any(character.isdigit() for character in shapes)


def _has_tensor(types: str) -> bool:
    """Whether a text of types has that of a tensor, which may be one without axes."""
    return any(kind in arguments.TYPES for kind in Inputs(None, types).types or ())


def _attention(context: Context) -> tuple[RecordedCall, ...]:
    """The two products around a softmax and the softmax, from the dearest softmax; nothing if they are not there."""
    trace, host = context.trace, context.trace.host
    is_product = trace.names.where(_SCORES.__contains__)[host.name]
    softmax = np.flatnonzero(trace.names.where(_WEIGHTS.__contains__)[host.name] & _is_recorded(context))
    for row in softmax[np.argsort(-host.dur_ns[softmax], kind="stable")].tolist():
        mine = np.flatnonzero(host.thread == host.thread[row])
        at = int(np.searchsorted(mine, row))
        before = [r for r in mine[max(at - _NEAR, 0) : at].tolist() if is_product[r]]
        after = [r for r in mine[at + 1 : at + 1 + _NEAR].tolist() if is_product[r]]
        if before and after:
            rows = (before[-1], row, after[0])
            return tuple(_most(context, trace.names[host.name[r]], trace.shapes[host.shapes[r]]) for r in rows)
    return ()


def _most(context: Context, name: str, shapes: str | None) -> RecordedCall:
    """The calls of an operator with those inputs that take most time.

    Raises:
        UsageError: The trace has no such operator, no such shapes, or no shapes at all.
    """
    trace, host, tree = context.trace, context.trace.host, context.host
    file = trace.info.name
    if not _OPERATOR.fullmatch(name):
        raise UsageError(f"{clipped(name, 80) or 'nothing'}: is no operator of aten, such as aten::mm")
    code = trace.names.code(name)
    nodes = np.flatnonzero((tree.name == code) & (tree.kind == NodeKind.OPERATOR) & ~tree.merged)
    if not len(nodes):
        raise UsageError(f"{file}: has no calls of {name}{_similar(context, name)}")
    row = tree.row[nodes]
    is_recorded = _is_recorded(context)[row]
    if not is_recorded.any():
        raise UsageError(f"{file}: has no shapes of the inputs of {name}; record with record_shapes=True")
    groups = np.column_stack([host.shapes[row], host.types[row], host.strides[row], host.concrete[row]])
    distinct, group = np.unique(groups, axis=0, return_inverse=True)
    shown = [trace.shapes[number] for number in distinct[:, 0].tolist()]
    device_ns = context.cached(node_times).device_total_ns[nodes]
    cost = sum_by(group.ravel().astype(np.int64), device_ns if device_ns.any() else host.dur_ns[row], len(distinct))
    cost[np.bincount(group.ravel(), weights=is_recorded, minlength=len(distinct)) == 0] = -1
    cost[[not _is_wanted(text, shapes) for text in shown]] = -1
    if cost.max() < 0:
        known = ", ".join(sorted({f"{name}{text}" for text in shown if text})[:3])
        raise UsageError(f"{file}: has no calls of {name} with these shapes; there are: {clipped(known, 200)}")
    return _measured(context, name, row[group.ravel() == cost.argmax()], len(row))


def _measured(context: Context, name: str, rows: I64, every: int) -> RecordedCall:
    """The calls of some rows of the host table, which have equal inputs, among every call of the operator."""
    trace, host = context.trace, context.trace.host
    tree = context.host
    nodes = np.flatnonzero((tree.kind != NodeKind.MODULE) & np.isin(tree.row, rows) & ~tree.merged)
    device_ns = context.cached(node_times).device_total_ns[nodes]
    first = int(rows[0])
    return RecordedCall(
        name=name,
        inputs=Inputs.of(trace, first),
        count=len(rows),
        others=every - len(rows),
        host_ns=float(np.median(host.dur_ns[rows])),
        device_ns=float(np.median(device_ns)) if device_ns.any() else None,
        roof_ns=_roof_ns(context, name, trace.shapes[host.shapes[first]], trace.types[host.types[first]]),
    )


def _is_wanted(shapes: str, wanted: str | None) -> bool:
    return bool(shapes) and (wanted is None or "".join(shapes.split()) == wanted)


def _similar(context: Context, name: str) -> str:
    """The operators with similar names, as the end of a message."""
    near = difflib.get_close_matches(name, sorted(_with_shapes(context)), 3)
    return f"; did you mean {', '.join(near)}?" if near else ""


def _roof_ns(context: Context, name: str, shapes: str, types: str) -> float | None:
    if context.gpu is None:
        return None
    for row in context.cached(roofline.analyze).rows:
        if (row.name, row.input_shapes, row.input_types) == (name, shapes, types) and row.roofline_share is not None:
            return row.roofline_share * row.device_ns / row.calls
    return None
