"""Detects distribution-checks: see pages/distribution-checks.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.waits.distribution_checks import DistributionChecks
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _host_work
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("distribution-checks")
_LEAST, _MOST = 0.5, 2.0
"""Own choice: recording frames takes up to half of the time of code that consists of short functions."""


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = facts.need("distribution_checks", DistributionChecks)
    calls, time = found.checks / max(1, found.steps), found.time_ns / max(1, found.steps)
    where = tuple(CodePlace("python", row.name, value=row.checks, unit="count") for row in found.lines) or (
        CodePlace("operator", "aten::_is_all_true", value=found.checks, unit="count"),
    )
    params = {"calls": calls, "time": time, "step": facts.step_ns}
    if facts.resources.gpu_ns is not None:
        if calls >= limits["calls_per_step"]:
            evidence = Evidence(_PAGE.text("calls")(), calls, limits["calls_per_step"], "number", where)
            confidence = "A" if found.by_frames else "B"
            yield Draft(
                (evidence,), params=params, severity="low", confidence=confidence, summary=_PAGE.text("summary-gpu")
            )
        return
    if not found.by_frames:
        raise Missing(_PAGE.text("no-frames")())
    share = time / facts.step_ns
    if share <= limits["host_share"]:
        return
    _host_work.need_cpu_steps(facts)
    least = _LEAST * _host_work.without_recording(facts, time, found.operators / found.steps)
    interval = (least, min(_MOST * time, facts.step_ns))
    change = TimeSaved("host", interval, _PAGE.text("basis")(), interval)
    yield Draft(
        (Evidence(_PAGE.text("share")(), share, limits["host_share"], "share", where),),
        change,
        params,
        ceiling="medium",
    )


RULE = _PAGE.rule(trace=_trace)
