"""Detects anomaly-mode: see pages/anomaly-mode.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.optimizer.backward_pass import NanChecks
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("anomaly-mode")
_MORE = 1.5
"""Greatest ratio of the saving to the time that can be attributed to anomaly mode (own choice; the lab measured
1.2)."""


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = facts.find("nan_checks", NanChecks)
    if found is None or not found.functions or not found.steps:
        facts.need("operators", object)
        return
    share = found.checked / found.functions
    if share < limits["checked_share"] or found.checked < limits["functions"]:
        return
    time = (found.checks_ns + found.stacks_ns) / found.steps
    interval = (min(time, facts.step_ns), min(_MORE * time, facts.step_ns))
    where = CodePlace("operator", "aten::isnan", None, found.checks_ns / found.steps, "ns", found.start_ns)
    evidence = Evidence(_PAGE.text("subject")(), share, limits["checked_share"], "share", (where,))
    change = TimeSaved("host", interval, _PAGE.text("basis")())
    params = {
        "checks": found.checked / found.steps,
        "time": time,
        "step": facts.step_ns,
        "stacks": found.stacks_ns / found.steps,
    }
    yield Draft((evidence,), change, params, severity="medium")


RULE = _PAGE.rule(trace=_trace)
