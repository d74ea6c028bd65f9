"""Detects prefill-with-decode: see pages/prefill-with-decode.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median

from traceanalyzer.analyzers.phases import Phases
from traceanalyzer.analyzers.phases.kinds import StepKind
from traceanalyzer.report.model import Evidence
from traceanalyzer.rules import _steps
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft
from traceanalyzer.structure.recording import Recording
from traceanalyzer.structure.recording.left_out import OTHER_PHASE, UNKNOWN

_PAGE = page("prefill-with-decode")
_COUNTS = frozenset({None, OTHER_PHASE, UNKNOWN})
"""Reasons for being unlike other steps that leave a step to its phase: no edge of the recording, no one-time event."""


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    recording = facts.need("recording", Recording)
    counted = [step for step in recording.steps if step.reason in _COUNTS]
    mixed, decode = ([step for step in counted if step.phase == phase] for phase in ("mixed", "decode"))
    if not mixed or not decode:
        raise Missing(_PAGE.text("no-steps")())
    duration, usual = (float(median(step.duration_ns for step in steps)) for steps in (mixed, decode))
    kind, other = (_kind(facts, recording, phase) for phase in ("mixed", "decode"))
    if kind is None or other is None or not kind.median_device_ns or not other.median_device_ns:
        raise Missing(_PAGE.text("no-device")())
    is_work = kind.median_device_ns >= limits["ratio"] * other.median_device_ns
    if duration < limits["ratio"] * usual or not is_work:
        return
    evidence = Evidence(_PAGE.text("subject")(), duration / usual, limits["ratio"], "number", _steps.longest(mixed))
    params: dict[str, float] = {"mixed": duration, "decode": usual}
    if kind.generation_requests is None:
        yield Draft((evidence,), params=params, severity="info", summary=_PAGE.text("summary-unknown"))
        return
    params["requests"] = round(kind.generation_requests / kind.steps)
    yield Draft((evidence,), params=params, severity="info")


def _kind(facts: Facts, recording: Recording, phase: str) -> StepKind | None:
    """All steps of a phase by the marks of the framework; None if they are not known."""
    phases = facts.find("phases", Phases)
    rows = phases.kinds if phases is not None else ()
    return next((row for row in rows if row.kind == phase and row.framework == recording.framework), None)


RULE = _PAGE.rule(trace=_trace)
