"""Which copies and fills cost most?"""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.analyzers.copies import Copies
from traceanalyzer.analyzers.copies.within_memory import Conversions
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section, Term, Topic
from traceanalyzer.sections.columns import CALLS, EXPOSED, NAME, TIME, Column, detail, table

TITLE = Text("copies-title", "Copies and fills")
_UNEXPLAINED = Text(
    "copies-unexplained",
    "The operators that the advice about copies covers made {here:count} of {all:count} copies within the GPU's "
    "memory; the others may come from graphs, compiled code, libraries, or the exchange of gradients.",
)
_COLUMNS = (
    NAME,
    CALLS,
    Column(Text("copies-bytes", "Bytes"), "bytes", "bytes"),
    TIME,
    Column(Text("copies-bandwidth", "GB/s", "10^9 bytes per second"), "number", "bandwidth_gb_per_s"),
    Column(Text("copies-blocking", "Blocking"), "count", "blocking_calls"),
    Column(Text("copies-synchronized", "Then waited for"), "count", "synchronized_calls"),
    EXPOSED,
    Column(Text("copies-overlapped", "Overlapped", "a kernel runs meanwhile"), "ns", "overlapped_ns"),
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
    asked = report.result("conversions", Conversions)
    unexplained = asked is not None and asked.device_copies_here < asked.device_copies
    messages = (_UNEXPLAINED(here=asked.device_copies_here, all=asked.device_copies),) if asked and unexplained else ()
    yield detail(
        "copies", TITLE, Topic.HOST, (table("copies", _COLUMNS, copies.rows, top),), messages=messages, terms=_TERMS
    )
