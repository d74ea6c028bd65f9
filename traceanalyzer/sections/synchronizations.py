"""Where does the host wait for the device?"""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.analyzers.waits import Synchronizations
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Fact, Section, SectionColumn, SectionTable, Term, Topic

TITLE = Text("synchronizations-title", "Waits of the host")
_CALLS = Text("synchronizations-calls", "Waits")
_PER_STEP = Text("synchronizations-per-step", "Waits per step")
_OUTSIDE = Text("synchronizations-outside", "Waits outside of the steps", "which the number per step leaves out")
_WAITING = Text("synchronizations-waiting", "Waiting")
_WAITING_IDLE = Text("synchronizations-waiting-idle", "Waiting while the GPU is idle")
_DRAINED = Text("synchronizations-drained", "GPU idle after waits")
_UNEXPLAINED = Text(
    "synchronizations-unexplained",
    "GPU idle after waits, no other reason",
    "without time in which a loader, collective, compilation, allocation or the profiler explains it",
)
_OPERATORS = SectionColumn(Text("synchronizations-operators", "Operators"), "", is_name=True)
_OWNER = SectionColumn(Text("synchronizations-owner", "Owner", "part of a program that takes time"), "", is_name=True)
_LINE = SectionColumn(Text("synchronizations-line", "Python line"), "", is_name=True)
_FIGURES = (
    (SectionColumn(Text("synchronizations-column-calls", "Calls"), "count"), "calls"),
    (SectionColumn(Text("synchronizations-column-per-step", "Per step"), "number"), "calls_per_step"),
    (SectionColumn(Text("synchronizations-column-waiting", "Waiting"), "ns"), "waiting_ns"),
    (SectionColumn(Text("synchronizations-column-drained", "GPU idle after"), "ns"), "drained_ns"),
    (
        SectionColumn(Text("synchronizations-column-unexplained", "No other reason"), "ns"),
        "drained_unexplained_ns",
    ),
)
_TERMS = (
    Term(
        Text("define-waits", "Waits of the host"),
        Text(
            "define-waits-say",
            "Time that the host spends in calls that wait for the device. A wait is costly only if the GPU "
            "has nothing to do after it.",
        ),
    ),
)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build the sums, and a table with one row per function, operators, Python line and owner."""
    waits = report.result("synchronizations", Synchronizations)
    if waits is None or not waits.rows:
        return
    has_lines = any(row.python_line is not None for row in waits.rows)
    has_owners = any(row.owner is not None for row in waits.rows)
    call = SectionColumn(Text("synchronizations-call", "Call"), "", is_name=True)
    columns = (
        call,
        *([_OWNER] if has_owners else []),
        _OPERATORS,
        *([_LINE] if has_lines else []),
        *(column for column, _ in _FIGURES),
    )
    rows = tuple(
        (
            row.call,
            *([row.owner] if has_owners else []),
            " > ".join(row.operators) or None,
            *([row.python_line] if has_lines else []),
            *(getattr(row, field) for _, field in _FIGURES),
        )
        for row in waits.rows[:top]
    )
    yield Section(
        "synchronizations",
        TITLE,
        facts=tuple(_facts(waits)),
        tables=(SectionTable("synchronizations", columns, rows, len(waits.rows)),),
        topic=Topic.HOST,
        terms=_TERMS,
        is_detail=True,
    )


def _facts(waits: Synchronizations) -> Iterator[Fact]:
    yield Fact(_CALLS, waits.calls, "count")
    if waits.calls_per_step is not None:
        yield Fact(_PER_STEP, waits.calls_per_step, "number")
    if waits.calls_outside_steps:
        yield Fact(_OUTSIDE, waits.calls_outside_steps, "count")
    yield Fact(_WAITING, waits.waiting_ns, "ns")
    if waits.drains is not None:
        yield Fact(_WAITING_IDLE, waits.waiting_idle_ns, "ns")
        yield Fact(_DRAINED, waits.drained_ns, "ns")
        yield Fact(_UNEXPLAINED, waits.drained_unexplained_ns, "ns")
