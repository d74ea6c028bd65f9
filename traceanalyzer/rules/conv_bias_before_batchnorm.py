"""Detects conv-bias-before-batchnorm: see pages/conv-bias-before-batchnorm.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.report.model import Evidence
from traceanalyzer.rules._norms import norms
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("conv-bias-before-batchnorm")


def _find(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = norms(facts)
    if found is None or not found.with_bias or not facts.gpu_total_ns:
        return
    total = found.bias_ns + found.bias_gradient_ns
    share = total / facts.gpu_total_ns
    if share <= limits["gpu_share"]:
        return
    time = facts.gpu_per_step(total)
    claims = {key: facts.gpu_per_step(ns) for key, ns in found.bias_claims.items() if ns}
    yield Draft(
        (Evidence(_PAGE.text("subject")(), share, limits["gpu_share"], "share", found.places),),
        TimeSaved("gpu", (time, time), _PAGE.text("basis")(), claims=claims, is_removed=True),
        {"time": time, "share": share, "calls": round(found.with_bias / facts.steps)},
    )


RULE = _PAGE.rule(trace=_find, table=_find)
