"""Places of findings that several subjects point to."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from traceanalyzer.analyzers.launches.runtime_calls import SetUp
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace
from traceanalyzer.rules.engine.facts import Facts, OperatorFact
from traceanalyzer.structure.recording import RecordedStep
from traceanalyzer.trace.document import TableRow

FORWARD = Text("place-forward", "forward pass", note="a place of a finding, before its time")
BACKWARD = Text("place-backward", "backward pass", note="a place of a finding, before its time")
EPOCH = Text("place-epoch", "start of an epoch", note="a place of a finding, before its time")

_SHOWN = 5


def longest_steps(steps: Iterable[RecordedStep]) -> tuple[CodePlace, ...]:
    """The five longest of some steps with their durations in ns, the longest first."""
    ordered = sorted(steps, key=lambda step: (-step.duration_ns, step.start_ns))
    return tuple(CodePlace("step", step.name, None, step.duration_ns, "ns", step.start_ns) for step in ordered[:_SHOWN])


def at_line(line: str | None, kind: str, name: str, value: float | None, start_ns: int | None = None) -> CodePlace:
    """Something that takes a time in ns, as the Python line that causes it if known, else by its own kind and name."""
    kind, name = (kind, name) if line is None else ("python", line)
    return CodePlace(kind, name, None, value, "ns", start_ns)


def of_operators(
    facts: Facts, rows: Iterable[OperatorFact], time_ns: Callable[[OperatorFact], float]
) -> tuple[CodePlace, ...]:
    """Operators with their shapes and a time in ns, of a trace or of a table."""
    kind = facts.place_kind("operator")
    return tuple(CodePlace(kind, row.name, row.shapes, time_ns(row), "ns") for row in rows)


def of_set_up(row: SetUp, time_ns: float) -> CodePlace:
    """Calls that allocate memory or load code, at the Python line that caused them if known, with a time in ns."""
    return at_line(row.python_line, "call", row.name, time_ns, row.longest_start_ns)


def of_rows(rows: Iterable[TableRow]) -> tuple[CodePlace, ...]:
    """Printed rows with their own time on the host, in ns."""
    return tuple(CodePlace("row", row.name, value=row.self_cpu_ns, unit="ns") for row in rows)
