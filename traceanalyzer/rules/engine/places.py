"""Places of findings that several subjects point to."""

from __future__ import annotations

from collections.abc import Iterable

from traceanalyzer.analyzers.launches.runtime_calls import SetUp
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


def of_set_up(row: SetUp, time_ns: float) -> CodePlace:
    """Calls that allocate memory or load code, at the Python line that caused them if known, with a time in ns."""
    kind, name = ("call", row.name) if row.python_line is None else ("python", row.python_line)
    return CodePlace(kind, name, None, time_ns, "ns", row.longest_start_ns)
