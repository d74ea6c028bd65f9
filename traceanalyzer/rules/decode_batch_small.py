"""Detects decode-batch-small: see pages/decode-batch-small.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.report.model import Evidence
from traceanalyzer.rules import _steps
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft
from traceanalyzer.structure.recording import Recording

_PAGE = page("decode-batch-small")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    recording, busy = facts.need("recording", Recording), facts.resources.gpu_ns
    steps = [step for step in recording.steps if step.phase == "decode" and step.tokens]
    if not steps or busy is None:
        raise Missing(_PAGE.text("no-marks")())
    tokens = sum(step.tokens or 0 for step in steps) / len(steps)
    if tokens >= limits["tokens"] or busy < limits["busy_share"] * facts.step_ns:
        return
    time = sum(step.duration_ns for step in steps) / len(steps)
    params = {"tokens": round(tokens), "time": time, "rate": round(tokens / time * 1e9)}
    evidence = Evidence(_PAGE.text("subject")(), tokens, limits["tokens"], "number", _steps.longest(steps))
    yield Draft((evidence,), params=params, severity="info")


RULE = _PAGE.rule(trace=_trace)
