"""Detects sdpa-math: see pages/sdpa-math.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("sdpa-math")
_MATH = "aten::_scaled_dot_product_attention_math"
_LEAST_LEFT = 0.2
"""Part that a fused kernel needs at least (own choice: its two products remain)."""


def _find(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    rows = [row for row in facts.operators if row.name == _MATH and row.device_total_ns]
    total = sum(row.device_total_ns for row in rows)
    share = total / facts.gpu_total_ns if facts.gpu_total_ns else 0.0
    if share <= limits["gpu_share"]:
        return
    kind = "operator" if facts.table is None else "row"
    where = tuple(CodePlace(kind, row.name, value=row.device_total_ns, unit="ns") for row in rows[:5])
    time, calls = facts.gpu_per_step(total), sum(row.calls for row in rows) / facts.steps
    high = (1 - _LEAST_LEFT) * time
    yield Draft(
        (Evidence(_PAGE.text("subject")(), share, limits["gpu_share"], "share", where),),
        TimeSaved("gpu", (0.0, high), _PAGE.text("basis")(left=_LEAST_LEFT), claims={f"operator:{_MATH}": high}),
        {"calls": max(1, round(calls)), "time": time, "share": share},
        ceiling="high",
    )


RULE = _PAGE.rule(trace=_find, table=_find)
