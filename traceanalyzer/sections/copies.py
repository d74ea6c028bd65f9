"""Which copies and fills cost most?"""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.analyzers.copies import Copies
from traceanalyzer.analyzers.copies.within_memory import Conversions
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section, SectionColumn, SectionTable, Term, Topic

TITLE = Text("copies-title", "Copies and fills")
_UNEXPLAINED = Text(
    "copies-unexplained",
    "The operators that the advice about copies covers made {here:count} of {all:count} copies within the GPU's "
    "memory; the others may come from graphs, compiled code, libraries, or the exchange of gradients.",
)
_COLUMNS = (
    (SectionColumn(Text("copies-name", "Name"), "", is_name=True), "name"),
    (SectionColumn(Text("copies-calls", "Calls"), "count"), "calls"),
    (SectionColumn(Text("copies-bytes", "Bytes"), "bytes"), "bytes"),
    (SectionColumn(Text("copies-time", "Time"), "ns"), "time_ns"),
    (SectionColumn(Text("copies-bandwidth", "GB/s", "10^9 bytes per second"), "number"), "bandwidth_gb_per_s"),
    (SectionColumn(Text("copies-blocking", "Blocking"), "count"), "blocking_calls"),
    (SectionColumn(Text("copies-synchronized", "Then waited for"), "count"), "synchronized_calls"),
    (SectionColumn(Text("copies-exposed", "Exposed", "no kernel runs meanwhile"), "ns"), "exposed_ns"),
    (SectionColumn(Text("copies-overlapped", "Overlapped", "a kernel runs meanwhile"), "ns"), "overlapped_ns"),
)
_TERMS = (
    Term(
        Text("define-exposed-copies", "Exposed copies"),
        Text("define-exposed-copies-say", "Time of copies and fills while no kernel runs."),
    ),
)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build a table with one row per name."""
    copies = report.result("copies", Copies)
    if copies is None or not copies.rows:
        return
    rows = tuple(tuple(getattr(row, field) for _, field in _COLUMNS) for row in copies.rows[:top])
    asked = report.result("conversions", Conversions)
    unexplained = asked is not None and asked.device_copies_here < asked.device_copies
    messages = (_UNEXPLAINED(here=asked.device_copies_here, all=asked.device_copies),) if asked and unexplained else ()
    table = SectionTable("copies", tuple(column for column, _ in _COLUMNS), rows, len(copies.rows))
    yield Section("copies", TITLE, messages=messages, tables=(table,), topic=Topic.HOST, terms=_TERMS, is_detail=True)
