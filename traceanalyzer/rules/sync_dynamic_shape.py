"""Detects sync-dynamic-shape: see pages/sync-dynamic-shape.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.waits import Synchronization, Synchronizations
from traceanalyzer.report.model import Evidence
from traceanalyzer.rules import _waits
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("sync-dynamic-shape")
_SIZED = frozenset(
    {
        "aten::nonzero",
        "aten::nonzero_numpy",
        "aten::argwhere",
        "aten::masked_select",
        "aten::_unique",
        "aten::_unique2",
        "aten::unique_dim",
        "aten::unique_consecutive",
        "aten::unique_dim_consecutive",
        "aten::repeat_interleave",
        "aten::bincount",
    }
)
"""Operators that wait for the size of their result. A boolean index is an `aten::index` with `aten::nonzero` inside."""


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    waits = facts.need("synchronizations", Synchronizations)
    if waits.avoidable_ns is None:
        raise Missing(_waits.NO_DEVICE())
    rows = [row for row in waits.rows if _SIZED & set(row.operators)]
    gain = _waits.avoidable_per_step(facts, sum(row.avoidable_ns or 0 for row in rows))
    share = gain / facts.step_ns if facts.step_ns else 0.0
    if not rows or share <= limits["gain_share"]:
        return
    evidence = Evidence(_waits.SUBJECT(), share, limits["gain_share"], "share", tuple(map(_waits.place, rows)))
    operator = _operator(rows[0])
    change = _waits.change(gain, {f"operator:{operator}": gain, "idle:synchronization": gain})
    calls = sum(row.calls_per_step or 0.0 for row in rows)
    params = {"calls": calls, "gain": gain, "step": facts.step_ns, "operator": operator}
    yield Draft((evidence,), change, params, ceiling="medium")


def _operator(row: Synchronization) -> str:
    """The outermost of the operators that wait for a size."""
    return next(name for name in row.operators if name in _SIZED)


RULE = _PAGE.rule(trace=_trace)
