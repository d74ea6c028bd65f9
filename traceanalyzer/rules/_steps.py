"""Steps that a finding points to, for several rules."""

from __future__ import annotations

from collections.abc import Iterable

from traceanalyzer.report.model import CodePlace
from traceanalyzer.structure.recording import RecordedStep

_SHOWN = 5


def longest(steps: Iterable[RecordedStep]) -> tuple[CodePlace, ...]:
    """The five longest of some steps with their durations in ns, the longest first."""
    ordered = sorted(steps, key=lambda step: (-step.duration_ns, step.start_ns))
    return tuple(
        CodePlace("step", step.name, value=step.duration_ns, unit="ns", start_ns=step.start_ns)
        for step in ordered[:_SHOWN]
    )
