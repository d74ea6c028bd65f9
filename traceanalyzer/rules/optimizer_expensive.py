"""Detects optimizer-expensive: see pages/optimizer-expensive.md."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.optimizer import Optimizer, Optimizers
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _fused_optimizers, optimizer_not_fused
from traceanalyzer.rules._processor import Processor
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.idle_claims import claims
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("optimizer-expensive")
_SECOND_ORDER = re.compile("shampoo|soap|kfac|k_fac|muon", re.IGNORECASE)
_HIDDEN = 0.25
"""Least part of its time that must leave the device without work (own choice)."""


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    for row in facts.need("optimizers", Optimizers).rows:
        host = facts.host_per_step(row.host_ns)
        share = host / facts.step_ns
        if row.kind != "step" or row.closures or share <= limits["host_share"]:
            continue
        if _is_loop(facts, row) or _is_hidden(facts, row):
            continue
        place = CodePlace("operator", row.name, value=row.host_ns, unit="ns", start_ns=row.start_ns)
        advice = _PAGE.text("advice-second-order") if _SECOND_ORDER.search(row.name) else None
        yield Draft(
            (Evidence(_PAGE.text("subject")(), share, limits["host_share"], "share", (place,)),),
            params={"optimizer": row.name, "host": host, "share": share},
            severity="low",
            advice=advice,
            code="" if advice is not None or _is_fused(row) else optimizer_not_fused.fused_code(row.name),
        )


def _is_loop(facts: Facts, row: Optimizer) -> bool:
    """Whether it is a loop over single parameters, which optimizer-not-fused reports."""
    if Processor.of(facts).is_cpu:
        return _fused_optimizers.saved_on_cpu(facts, row) is not None
    return row.launches >= _fused_optimizers.FEWEST_CALLS * row.calls and optimizer_not_fused.is_loop(row)


def _is_fused(row: Optimizer) -> bool:
    return any("_fused_" in operator.name for operator in row.operators)


def _is_hidden(facts: Facts, row: Optimizer) -> bool:
    """Whether the device works meanwhile; unknown if events are missing."""
    if facts.resources.gpu_ns is None or facts.resources.host_ns is None:
        return False
    return sum(claims(facts, row.exposed).values()) < _HIDDEN * facts.host_per_step(row.host_ns)


RULE = _PAGE.rule(trace=_trace)
