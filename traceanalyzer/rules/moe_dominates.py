"""Detects moe-dominates: see pages/moe-dominates.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.knowledge.kernel_classes import KernelClass, kernel_class
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine import program
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("moe-dominates")
_EXPERTS = (KernelClass.MOE, KernelClass.ROUTING)


def _find(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    rows = [row for row in facts.kernels if kernel_class(row.name) in _EXPERTS]
    rows.sort(key=lambda row: (-row.total_ns, row.name))
    total = sum(row.total_ns for row in rows)
    share = total / facts.gpu_total_ns if facts.gpu_total_ns else 0.0
    if share <= limits["gpu_share"]:
        return
    kind = "row" if facts.table is not None else "kernel"
    where = tuple(CodePlace(kind, row.name, value=row.total_ns, unit="ns") for row in rows[:5])
    params = {"time": facts.gpu_per_step(total), "share": share, "kernel": rows[0].name}
    advice = None if program.serves(facts) or not program.may_train(facts) else _PAGE.text("advice-training")
    yield Draft(
        (Evidence(_PAGE.text("subject")(), share, limits["gpu_share"], "share", where),),
        params=params,
        severity="low",
        advice=advice,
    )


RULE = _PAGE.rule(trace=_find, table=_find)
