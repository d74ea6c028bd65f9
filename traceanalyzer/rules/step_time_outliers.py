"""Detects step-time-outliers: see pages/step-time-outliers.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.report.model import Evidence
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.places import longest_steps
from traceanalyzer.rules.engine.rule import Draft
from traceanalyzer.structure.recording import RecordedStep, Recording

_PAGE = page("step-time-outliers")
_EDGES = ("earlier-work", "recording-end")
"""Reasons that have to do with the recording alone."""
_REASONS = {
    "loading": _PAGE.text("loading"),
    "allocation": _PAGE.text("allocation"),
    "loader": _PAGE.text("loader"),
    "other-phase": _PAGE.text("phase"),
}


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    recording = facts.need("recording", Recording)
    typical = recording.typical_step_ns
    if typical is None or recording.steps_from == "whole-trace" or len(recording.steps) < limits["steps"]:
        raise Missing(_PAGE.text("few")())
    long = [step for step in recording.steps if _is_long(step, limits["ratio"] * typical)]
    if not long:
        return
    longest = max(long, key=lambda step: (step.duration_ns, -step.start_ns))
    reason = _REASONS.get(longest.reason or "", _PAGE.text("unknown"))
    yield Draft(
        (
            Evidence(
                _PAGE.text("subject")(), longest.duration_ns / typical, limits["ratio"], "number", longest_steps(long)
            ),
        ),
        params={
            "long": len(long),
            "steps": len(recording.steps),
            "typical": typical,
            "name": longest.name,
            "longest": longest.duration_ns,
            "reason": reason(),
        },
        severity="info",
    )


def _is_long(step: RecordedStep, least_ns: float) -> bool:
    return step.reason not in _EDGES and step.duration_ns > least_ns


RULE = _PAGE.rule(trace=_trace)
