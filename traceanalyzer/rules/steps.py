"""Detects steps unlike the others: step-time-outliers."""

from __future__ import annotations

from traceanalyzer.rules.engine.places import longest_steps
from traceanalyzer.rules.engine.rule import Draft, Drafts, Facts, Limits, Missing, page
from traceanalyzer.structure.recording import Recording

_OUTLIERS = page("step-time-outliers")
_EDGES = ("earlier-work", "recording-end")
"""Reasons that have to do with the recording alone."""
_REASONS = {
    "loading": _OUTLIERS.text("loading"),
    "allocation": _OUTLIERS.text("allocation"),
    "loader": _OUTLIERS.text("loader"),
    "other-phase": _OUTLIERS.text("phase"),
    "communication": _OUTLIERS.text("communication"),
}


def _outliers(facts: Facts, limits: Limits) -> Drafts:
    recording = facts.need("recording", Recording)
    typical = recording.typical_step_ns
    if typical is None or recording.steps_from == "whole-trace" or len(recording.steps) < limits["steps"]:
        raise Missing(_OUTLIERS.text("few")())
    inner = [step for step in recording.steps if step.reason not in _EDGES]
    long = [step for step in inner if typical and step.duration_ns / typical > limits["ratio"]]
    if not long:
        return
    longest = max(long, key=lambda step: (step.duration_ns, -step.start_ns))
    reason = _REASONS.get(longest.reason or "", _OUTLIERS.text("unknown"))
    ratio = longest.duration_ns / typical
    evidence = _OUTLIERS.evidence(limits, "ratio", ratio, longest_steps(long))
    params = {
        "long": len(long),
        "steps": len(inner),
        "typical": typical,
        "name": longest.name,
        "longest": longest.duration_ns,
        "reason": reason(),
    }
    yield Draft((evidence,), params=params, severity="info")


RULES = (_OUTLIERS.rule(trace=_outliers),)
