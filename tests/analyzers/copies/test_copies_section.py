"""How people see copies."""

from __future__ import annotations

from tests.analyzers.memory.report_with import report_with
from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers import copies
from traceanalyzer.analyzers.copies import Copies
from traceanalyzer.sections.copies import build
from traceanalyzer.structure.context import Context


def test_each_name_has_a_row() -> None:
    trace = TraceBuilder()
    trace.memcpy("HtoD", 8000, 10, 8, at=0)
    trace.memset(64, 30, 2)
    (section,) = build(report_with("copies", copies.analyze(Context(read_built(trace)))), 1)
    assert section.is_detail
    (table,) = section.tables
    assert table.rows == (("Memcpy HtoD (Pageable -> Device)", 1, 8000, 8000, 1.0, 0, 0, 8000, 0),)
    assert (len(table.columns), table.total_rows) == (9, 2)


def test_without_copies_there_is_no_section() -> None:
    assert list(build(report_with("copies", None), 5)) == []
    assert list(build(report_with("copies", Copies((), 0, 0, 0, 0)), 5)) == []
