"""Phases as people see them."""

from __future__ import annotations

from tests.analyzers.memory.report_with import report_with
from tests.analyzers.phases.reading_phases import ENGINE, phases_of
from tests.builders import TraceBuilder
from traceanalyzer.formats.language import ENGLISH
from traceanalyzer.report.message import Message
from traceanalyzer.report.section import Section
from traceanalyzer.sections import phases as section


def sections_of(trace: TraceBuilder, top: int = 100) -> list[Section]:
    return list(section.build(report_with("phases", phases_of(trace)), top))


def names(shown: Section) -> list[str]:
    cells = [row[0] for row in shown.tables[0].rows]
    return [ENGLISH.say(cell) if isinstance(cell, Message) else cell for cell in cells]


def said(shown: Section) -> list[str]:
    return [ENGLISH.say(message) for message in shown.messages]


def training() -> TraceBuilder:
    trace = TraceBuilder()
    for step, start in enumerate((0, 100)):
        trace.step(step, start, 100)
        trace.annotation("## forward ##", start + 10, 40)
        trace.annotation("embedding", start + 12, 10)
        trace.op("aten::mm", start + 13, 5, sequence=step + 1)
        trace.launch_kernel("k", start + 20, 25, at=start + 14)
        trace.launch_kernel("unmarked", start + 70, 25, at=start + 60)
        trace.op("autograd::engine::evaluate_function: Mm", start + 60, 10, sequence=step + 1, tid=ENGINE)
    return trace


def test_the_tree_per_step_and_what_is_inferred() -> None:
    tree, by_name = sections_of(training())
    assert (tree.id, tree.is_detail, by_name.is_detail) == ("phases", False, True)
    assert names(tree) == ["backward (inferred)", "## forward ##", "· embedding"]
    (table,) = tree.tables
    assert [ENGLISH.text(column.title) for column in table.columns] == [
        "Mark",
        "Calls",
        "CPU/step",
        "Device/step",
        "Idle/step",
        "CPU self/step",
        "Device self/step",
    ]
    assert table.rows[1][1:] == (2, 40_000, 25_000, 15_000, 30_000, 0)
    assert names(by_name) == ["## forward ##", "embedding", "backward (inferred)"]
    assert said(tree) == []


def test_without_steps_times_are_of_the_whole() -> None:
    trace = TraceBuilder()
    trace.annotation("warm-up", 0, 40)
    trace.annotation("empty", 50, 0)
    (only,) = sections_of(trace)
    assert said(only) == ["1 mark is empty: it begins and ends at the same time."]
    assert ENGLISH.text(only.tables[0].columns[2].title) == "CPU"
    assert only.tables[0].rows == (("warm-up", 1, 40_000, 40_000), ("empty", 1, 0, 0))


def test_few_rows_are_those_of_the_most_time_with_what_is_around_them() -> None:
    tree, _ = sections_of(training(), top=2)
    assert names(tree) == ["backward (inferred)", "## forward ##"]
    assert tree.tables[0].total_rows == 3


def test_numbered_marks_say_how_many_names_they_stand_for() -> None:
    trace = TraceBuilder()
    for number in range(100):
        trace.annotation(f"layer_{number}", 20 * number, 10)
    (only,) = sections_of(trace)
    assert "layer_*" in names(only)


def test_nothing_is_shown_without_marks() -> None:
    assert list(section.build(report_with("phases", None), 10)) == []
