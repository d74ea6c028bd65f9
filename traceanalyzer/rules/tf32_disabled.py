"""Detects tf32-disabled: see pages/tf32-disabled.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.knowledge.kernel_classes import KernelClass
from traceanalyzer.report.model import Evidence
from traceanalyzer.rules._precision import fp32_products, precision
from traceanalyzer.rules.engine import settings
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("tf32-disabled")


def _find(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    if not precision(facts).is_a_switch or not facts.gpu_total_ns or settings.matmul_tf32(facts):
        return
    products = fp32_products(facts, limits, tf32=True, only=frozenset({KernelClass.GEMM}))
    share = products.time_ns / facts.gpu_total_ns
    if share <= limits["product_share"]:
        return
    low, high = map(facts.gpu_per_step, products.saved_ns)
    yield Draft(
        (Evidence(_PAGE.text("subject")(), share, limits["product_share"], "share", products.places),),
        TimeSaved("gpu", (low, high), _PAGE.text("basis")(), claims=products.claims),
        {"time": facts.gpu_per_step(products.time_ns), "share": share},
    )


RULE = _PAGE.rule(trace=_find, table=_find)
