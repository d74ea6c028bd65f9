"""How people see waits."""

from __future__ import annotations

from tests.analyzers.memory.report_with import report_with
from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers import waits
from traceanalyzer.report.section import Section
from traceanalyzer.sections.waits import build
from traceanalyzer.structure.context import Context

US = 1000


def sections(trace: TraceBuilder, top: int = 5) -> list[Section]:
    return list(build(report_with("synchronizations", waits.analyze(Context(read_built(trace)))), top))


def waiting() -> TraceBuilder:
    trace = TraceBuilder()
    trace.step(1, 0, 200)
    trace.launch_kernel("a", 5, 15, at=0)
    trace.op("aten::item", 6, 20)
    trace.op("aten::_local_scalar_dense", 7, 18)
    trace.launch("cudaStreamSynchronize", 10, 14)
    trace.launch_kernel("b", 60, 100, at=50)
    return trace


def test_waits_are_shown_with_the_gaps_after_them() -> None:
    (section,) = sections(waiting())
    assert section.is_detail
    assert [fact.value for fact in section.facts] == [1, 1.0, 14 * US, 4 * US, 36 * US, 36 * US]
    (table,) = section.tables
    chain = "aten::item > aten::_local_scalar_dense"
    assert table.rows == (("cudaStreamSynchronize", chain, 1, 1.0, 14 * US, 36 * US, 36 * US),)


def test_python_lines_have_a_column_where_there_are_some() -> None:
    trace = waiting()
    trace.python_function("train.py(3): main", 0, 200)
    (section,) = sections(trace)
    (table,) = section.tables
    assert (table.rows[0][1], table.rows[0][3]) == ("train.py(3): main", "train.py(3): main"), "the owner and the line"
    assert len(table.columns) == len(table.rows[0]) == 9


def test_gaps_that_are_unknown_are_not_claimed() -> None:
    trace = TraceBuilder()
    trace.launch("cudaDeviceSynchronize", 0, 20)
    trace.launch("cudaStreamSynchronize", 30, 10)
    (section,) = sections(trace, top=1)
    assert [fact.value for fact in section.facts] == [2, 30 * US]
    assert section.tables[0].rows == (("cudaDeviceSynchronize", None, 1, None, 20 * US, None, None),)
    assert section.tables[0].total_rows == 2


def test_without_waits_there_is_no_section() -> None:
    trace = TraceBuilder()
    trace.launch_kernel("a", 5, 15, at=0)
    assert sections(trace) == []
    assert list(build(report_with("synchronizations", None), 5)) == []


def test_waits_outside_of_the_steps_are_told_apart() -> None:
    trace = waiting()
    trace.launch("cudaDeviceSynchronize", 300, 10)
    (section,) = sections(trace)
    facts = {fact.label.id: fact.value for fact in section.facts}
    assert facts["synchronizations-calls"] == 2
    assert facts["synchronizations-per-step"] == 1.0
    assert facts["synchronizations-outside"] == 1
