"""Places of findings that several subjects point to."""

from __future__ import annotations

from collections.abc import Iterable

from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace
from traceanalyzer.structure.recording import RecordedStep

FORWARD = Text("place-forward", "forward pass", note="a place of a finding, before its time")
BACKWARD = Text("place-backward", "backward pass", note="a place of a finding, before its time")
EPOCH = Text("place-epoch", "start of an epoch", note="a place of a finding, before its time")

_SHOWN = 5


def longest_steps(steps: Iterable[RecordedStep]) -> tuple[CodePlace, ...]:
    """The five longest of some steps with their durations in ns, the longest first."""
    ordered = sorted(steps, key=lambda step: (-step.duration_ns, step.start_ns))
    return tuple(CodePlace("step", step.name, None, step.duration_ns, "ns", step.start_ns) for step in ordered[:_SHOWN])
