"""Where does the host wait for the device?"""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.analyzers.waits import Synchronizations
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section, Term, Topic
from traceanalyzer.sections import columns
from traceanalyzer.sections.columns import Column, detail, facts, known, table

TITLE = Text("synchronizations-title", "Waits of the CPU")
_FACTS = (
    Column(Text("synchronizations-calls", "Waits"), "count", "calls"),
    Column(Text("synchronizations-per-step", "Waits per step"), "number", "calls_per_step", if_any=known),
    Column(
        Text("synchronizations-outside", "Waits outside of the steps", "which the number per step leaves out"),
        "count",
        "calls_outside_steps",
        if_any=bool,
    ),
    Column(Text("synchronizations-waiting", "Waiting"), "ns", "waiting_ns"),
)
_DRAINS = (
    Column(Text("synchronizations-waiting-idle", "Waiting while the GPU is idle"), "ns", "waiting_idle_ns"),
    Column(Text("synchronizations-drained", "GPU idle after waits"), "ns", "drained_ns"),
    Column(
        Text(
            "synchronizations-unexplained",
            "GPU idle after waits, no other reason",
            "without time in which a loader, collective, compilation, allocation or the profiler explains it",
        ),
        "ns",
        "drained_unexplained_ns",
    ),
)
_COLUMNS = (
    Column(Text("synchronizations-call", "Call"), "", "call", is_name=True),
    columns.OWNER,
    Column(
        Text("synchronizations-operators", "Operators"), "", lambda row: " > ".join(row.operators) or None, is_name=True
    ),
    columns.PYTHON_LINE,
    columns.CALLS,
    Column(Text("synchronizations-column-per-step", "Per step"), "number", "calls_per_step"),
    Column(columns.WAITING, "ns", "waiting_ns"),
    Column(Text("synchronizations-column-drained", "GPU idle after"), "ns", "drained_ns"),
    Column(Text("synchronizations-column-unexplained", "No other reason"), "ns", "drained_unexplained_ns"),
)
_TERMS = (
    Term(
        TITLE,
        Text(
            "define-waits-say",
            "Time that the CPU spends in calls that wait for the device. A wait is costly only if the GPU "
            "has nothing to do after it.",
        ),
    ),
)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build the sums, and a table with one row per function, operators, Python line and owner."""
    waits = report.result("synchronizations", Synchronizations)
    if waits is None or not waits.rows:
        return
    yield detail(
        "synchronizations",
        TITLE,
        Topic.HOST,
        (table("synchronizations", _COLUMNS, waits.rows, top),),
        facts=facts((*_FACTS, *(_DRAINS if waits.drains is not None else ())), waits),
        terms=_TERMS,
    )
