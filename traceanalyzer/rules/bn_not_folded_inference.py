"""Detects bn-not-folded-inference: see pages/bn-not-folded-inference.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.report.model import Evidence
from traceanalyzer.rules._norms import norms
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("bn-not-folded-inference")


def _find(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = norms(facts)
    if found is None or not found.is_inference or not found.norm_ns or not facts.gpu_total_ns:
        return
    share = found.norm_ns / facts.gpu_total_ns
    if share <= limits["gpu_share"]:
        return
    norm, bias = facts.gpu_per_step(found.norm_ns), facts.gpu_per_step(found.bias_ns)
    has_bias = found.bias_ns > 0 and found.with_bias == found.calls
    direct = (norm, norm + bias) if has_bias else (0.0, norm + bias)
    claims = {key: facts.gpu_per_step(ns) for key, ns in (*found.norm_claims.items(), *found.bias_claims.items()) if ns}
    yield Draft(
        (Evidence(_PAGE.text("subject")(), share, limits["gpu_share"], "share", found.places),),
        TimeSaved(
            "gpu",
            direct,
            _PAGE.text("basis")() if has_bias else _PAGE.text("basis-no-bias")(),
            claims=claims,
            is_removed=True,
        ),
        {"time": norm, "share": share, "calls": round(found.calls / facts.steps)},
    )


RULE = _PAGE.rule(trace=_find, table=_find)
