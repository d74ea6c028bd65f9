"""Detects sm-underfilled: see pages/sm-underfilled.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.kernels import SmFill, UnfilledKernel
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine import program
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("sm-underfilled")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    rows = [row for row in facts.need("sm_fill", SmFill).rows if row.total_ns >= limits["kernel_ns"] * row.calls]
    lost = sum(_lost(row) for row in rows)
    share = lost / facts.gpu_total_ns if facts.gpu_total_ns else 0.0
    if share <= limits["lost_share"]:
        return
    rows.sort(key=lambda row: (-_lost(row), row.kernel, row.operator or "", row.grid))
    time = sum(row.total_ns for row in rows)
    per_kernel: dict[str, float] = {}
    for row in rows:
        key = f"kernel:{row.kernel}"
        per_kernel[key] = per_kernel.get(key, 0.0) + facts.gpu_per_step(_lost(row))
    where = tuple(CodePlace("kernel", row.kernel, value=row.blocks_per_sm, unit="number") for row in rows[:5])
    yield Draft(
        (Evidence(_PAGE.text("subject")(), share, limits["lost_share"], "share", where),),
        TimeSaved("gpu", (0.0, facts.gpu_per_step(lost)), _PAGE.text("basis")(), claims=per_kernel),
        {
            "time": facts.gpu_per_step(time),
            "share": time / facts.gpu_total_ns,
            "fill": sum(row.fill * row.total_ns for row in rows) / time,
        },
        ceiling="high",
        advice=_PAGE.text("advice-serving") if program.serves(facts) else None,
    )


def _lost(row: UnfilledKernel) -> float:
    """Time lost in multiprocessors without a block, converted to time of the whole GPU, in ns."""
    return row.total_ns * (1 - row.fill)


RULE = _PAGE.rule(trace=_trace)
