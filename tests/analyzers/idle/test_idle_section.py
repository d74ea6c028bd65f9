"""How people see idle time."""

from __future__ import annotations

from tests.analyzers.memory.report_with import in_english, report_with
from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers import idle
from traceanalyzer.sections.idle import CAUSE_LABELS, build
from traceanalyzer.structure.context import Context

LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
US = 1000


def test_every_cause_has_a_label() -> None:
    assert set(CAUSE_LABELS) == set(idle.CAUSES)


def test_causes_that_occur_are_listed_the_greatest_first() -> None:
    trace = TraceBuilder()
    trace.step(1, 0, 200)
    trace.launch_kernel("first", 5, 15, at=0)
    trace.annotation(LOADER, 20, 60)
    trace.launch_kernel("second", 104, 96, at=90, call_dur=5)
    causes, longest, streams = build(report_with("idle", idle.analyze(Context(read_built(trace)))), 5)
    assert all(section.is_detail for section in (causes, longest, streams))
    (table,) = causes.tables
    assert in_english(table.rows) == (
        (0, "Waiting for the DataLoader", 60 * US, 60 / 89, 60 / 200, 1),
        (0, "CPU inside operators", 19 * US, 19 / 89, 19 / 200, 2),
        (0, "CPU between operators", 10 * US, 10 / 89, 10 / 200, 1),
    )
    assert table.total_rows == 3
    assert in_english(longest.tables[0].rows)[0] == (
        0,
        20 * US,
        84 * US,
        "Waiting for the DataLoader",
        LOADER,
        LOADER,  # the owner
        "second",
    )
    assert streams.tables[0].rows == ((0, 7, 111 * US, 89 * US, 84 * US, 0, 0, 5 * US),)


def test_lines_have_a_column_where_there_are_some_and_gaps_without_anything_say_so() -> None:
    trace = TraceBuilder()
    trace.step(1, 0, 200)
    trace.python_function("train.py(3): main", 0, 100)
    trace.launch_kernel("first", 0, 60, at=0)
    trace.launch_kernel("second", 80, 20, at=75)
    _, longest, _ = build(report_with("idle", idle.analyze(Context(read_built(trace)))), 5)
    assert [row[4:] for row in in_english(longest.tables[0].rows)] == [
        ("(nothing recorded)", None, None, "(no further activity)"),
        ("(nothing recorded)", "train.py(3): main", "train.py(3): main", "second"),
    ]


def test_no_more_rows_than_asked_for_are_shown() -> None:
    trace = TraceBuilder()
    trace.step(1, 0, 300)
    for number in range(10):
        trace.launch_kernel(f"k{number}", 30 * number + 10, 10, at=30 * number, stream=number)
    sections = list(build(report_with("idle", idle.analyze(Context(read_built(trace)))), 2))
    assert [(len(s.tables[0].rows), s.tables[0].total_rows) for s in sections] == [(2, 2), (2, 11), (2, 10)]


def test_without_the_analysis_there_is_no_section() -> None:
    assert list(build(report_with("idle", None), 5)) == []
    assert list(build(report_with("idle", idle.Idle((), (), ())), 5)) == []
