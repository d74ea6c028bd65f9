"""Detects rows of printed tables that take most of the host's time: one operator, or one first call."""

from __future__ import annotations

import re
from collections.abc import Sequence

from traceanalyzer.analyzers.tables.kinds import RowKind
from traceanalyzer.knowledge import marks
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Facts, Limits, page
from traceanalyzer.trace.document import TableRow

_ONE = page("cpu-operator-dominates")
_FIRST = page("first-call-slow")

_PRODUCTS = _ONE.text("advice-products")
_KNOWN = (
    (
        re.compile(
            r"scatter|index_(?:add|reduce)|segment_reduce|embedding(?:_bag)?_(?:dense_)?backward|_index_put_impl_"
        ),
        _ONE.text("advice-scatter"),
    ),
    (
        re.compile(r"conv|addmm|bmm|\bmm\b|matmul|linear|gemm|lstm|gru\b|scaled_dot_product|flash_attention_for_cpu"),
        _PRODUCTS,
    ),
    (re.compile(r"\b_?(?:arg)?sort|topk|kthvalue|median|unique"), _ONE.text("advice-sort")),
    (re.compile(r"nonzero|masked_select|bincount"), _ONE.text("advice-nonzero")),
    (
        re.compile(
            r"gelu|silu|sigmoid|tanh|\berf\b|softplus|elu|mish|\bexp_?\b|\blog_?\b|\bpow|softmax|_norm|mul|add|div|sub"
        ),
        _ONE.text("advice-elementwise"),
    ),
)
"""What is known about operators on a CPU, by their names; the first that fits."""


def _dominates(facts: Facts, limits: Limits) -> Drafts:
    if facts.table is None or facts.table.is_of_single_calls or _has_device(facts):
        return
    row = max(facts.rows(RowKind.OPERATOR), key=_own, default=None)
    if row is None:
        return
    share = facts.step_share(facts.per_step(_own(row)))
    if share <= limits["host_share"]:
        return
    evidence = _ONE.evidence(limits, "host_share", share, (_place(row),))
    advice = next((advice for pattern, advice in _KNOWN if pattern.search(row.name.removeprefix("aten::"))), None)
    params = {"operator": row.name, "time": facts.per_step(_own(row)), "share": share}
    code = None if advice is _PRODUCTS else ""
    yield Draft((evidence,), None, params, severity="medium", advice=advice, code=code)


def _has_device(facts: Facts) -> bool:
    """Whether a device took part, so that the host may only wait for it."""
    rows = [row.name for kind in (RowKind.OPERATOR, RowKind.RUNTIME) for row in facts.rows(kind)]
    columns = facts.view is not None and any(table.device for table in facts.view.tables)
    return facts.resources.gpu_ns is not None or columns or any(map(_shows_device, rows))


def _shows_device(name: str) -> bool:
    return marks.is_of_accelerator(name) or re.match(r"(?:cuda|hip)[A-Z]", name) is not None


def _first_call(facts: Facts, limits: Limits) -> Drafts:
    if facts.table is None or facts.table.is_of_single_calls or facts.is_startup or not _has_device(facts):
        return
    slow = [row for row in facts.rows(RowKind.OPERATOR) if _mean(row) > limits["call_ns"]]
    row = max(slow, key=_own, default=None)
    if row is None or not _is_longer_than_device(row, facts.rows(RowKind.OPERATOR)):
        return
    share = facts.step_share(facts.per_step(_own(row)))
    if share <= limits["host_share"]:
        return
    evidence = (
        _FIRST.evidence(limits, "call_ns", _mean(row), (_place(row),)),
        _FIRST.evidence(limits, "host_share", share, (), subject=_FIRST.text("subject-share")()),
    )
    params = {"operator": row.name, "time": float(_own(row)), "calls": row.calls or 1, "share": share}
    yield Draft(evidence, None, params, severity="medium")


def _is_longer_than_device(row: TableRow, rows: Sequence[TableRow]) -> bool:
    """Whether an operator takes longer on the host than all of them work on the device, so that it is no wait."""
    return _own(row) > sum(other.self_device_ns or 0 for other in rows)


def _own(row: TableRow) -> int:
    return row.self_cpu_ns or 0


def _mean(row: TableRow) -> float:
    return _own(row) / (row.calls or 1)


def _place(row: TableRow) -> CodePlace:
    return CodePlace("row", row.name, value=_own(row), unit="ns")


RULES = (_ONE.rule(table=_dominates), _FIRST.rule(table=_first_call))
