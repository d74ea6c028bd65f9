"""The result of the analysis for a built trace."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.structure import recording
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.recording import Recording

US = 1000


def recorded(trace: TraceBuilder) -> Recording:
    """The result of the analysis."""
    return recording.analyze(Context(read_built(trace)))


def kind(trace: TraceBuilder) -> tuple[str, set[str]]:
    """The kind of program, and the kinds of evidence for it."""
    found = recorded(trace)
    return found.workload, {evidence.kind for evidence in found.evidence}


def spans(trace: TraceBuilder) -> list[tuple[int, int]]:
    """Start and end of every step in microseconds."""
    return [(step.start_ns // US, (step.start_ns + step.duration_ns) // US) for step in recorded(trace).steps]
