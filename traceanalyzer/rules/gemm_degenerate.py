"""Detects gemm-degenerate: see pages/gemm-degenerate.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules._products import bandwidths, moved, sides
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing, OperatorFact
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("gemm-degenerate")


def _find(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    rows = [row for row in facts.shaped if _is_degenerate(row, limits)]
    if not rows or not facts.gpu_total_ns:
        return
    known = bandwidths(facts)
    if known is None:
        raise Missing(_PAGE.text("no-bandwidth")())
    slow, fast = known
    rows = [row for row in rows if row.device_self_ns > limits["excess"] * _floor(row, fast)]
    time = sum(row.device_self_ns for row in rows)
    share = time / facts.gpu_total_ns
    if share <= limits["gpu_share"]:
        return
    rows.sort(key=lambda row: (-row.device_self_ns, row.name, row.shapes or ""))
    saved = [row.device_self_ns - _floor(row, fast) for row in rows]
    low = sum(max(0.0, row.device_self_ns - _floor(row, slow)) for row in rows)
    where = tuple(CodePlace("operator", r.name, shapes=r.shapes, value=r.device_self_ns, unit="ns") for r in rows[:5])
    yield Draft(
        (Evidence(_PAGE.text("subject")(), share, limits["gpu_share"], "share", where),),
        TimeSaved(
            "gpu",
            (facts.gpu_per_step(low), facts.gpu_per_step(sum(saved))),
            _PAGE.text("basis")(slow=slow, fast=fast),
            claims={
                f"operator:{row.name}|{row.shapes}": facts.gpu_per_step(part)
                for row, part in zip(rows, saved, strict=True)
            },
        ),
        {"time": facts.gpu_per_step(time), "share": share, "operator": rows[0].name, "shapes": rows[0].shapes},
    )


def _is_degenerate(row: OperatorFact, limits: Mapping[str, float]) -> bool:
    """Whether a side is 1; one row (m is 1) is decoding, which must read the weights and cannot be faster."""
    if not row.calls or row.device_self_ns < limits["call_ns"] * row.calls:
        return False
    found = sides(row.name, row.shapes)
    if found is None or found.m == 1:
        return False
    return 1 in (found.n, found.k) and max(found.m, found.n, found.k) >= limits["side"]


def _floor(row: OperatorFact, bandwidth: float) -> float:
    """Time to move the bytes of all calls once, in ns."""
    return (moved(row) or 0) * row.calls / bandwidth


RULE = _PAGE.rule(trace=_find, table=_find)
