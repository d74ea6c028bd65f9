"""Phases as people see them."""

from __future__ import annotations

from tests.analyzers.memory.report_with import report_with
from tests.analyzers.phases.reading_phases import ENGINE, phases_of
from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.formats.language import ENGLISH
from traceanalyzer.report.message import Message
from traceanalyzer.report.section import Section
from traceanalyzer.sections import phases as section
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.recording.workload import workload


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


def replayed(*said: dict[str, str]) -> TraceBuilder:
    """Two steps, each a graph with a kernel of 10 us for each label."""
    trace = TraceBuilder()
    for step in range(2):
        trace.step(step, 1_000 * step, 1_000)
        kernels = [
            ("gemm", 1_000 * step + 100 + 20 * at, 10, {"args": {"module_fqn": "a"} | each})
            for at, each in enumerate(said)
        ]
        trace.graph_launch(1_000 * step + 10, 20, kernels)
    return trace


def test_labels_tell_the_passes_inside_graphs() -> None:
    """What has a label of its own, as an optimizer, is neither."""
    backward = {"autograd_phase": "backward"}
    (shown,) = sections_of(replayed({}, backward, backward, {"name": "adam"}))
    assert shown.id == "phases-in-graphs"
    assert names(shown) == ["forward", "backward"]
    assert [list(row[1:]) for row in shown.tables[0].rows] == [[2, 10_000, 20_000], [4, 20_000, 40_000]]


def test_without_a_backward_pass_labels_tell_no_pass() -> None:
    assert sections_of(replayed({}, {"name": "adam"})) == []


def test_a_backward_pass_inside_a_graph_is_a_training() -> None:
    kinds = [
        workload(Context(read_built(replayed(*said))))[0] for said in (({}, {"autograd_phase": "backward"}), ({}, {}))
    ]
    assert kinds == ["training", "inference"]
