"""The section about the recording, in every format for people."""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.formats.html.pages import as_read
from tests.rules.judging import report
from traceanalyzer.formats import render
from traceanalyzer.report.model import Report
from traceanalyzer.report.warnings import STEP_REASONS
from traceanalyzer.sections.steps import WORKLOADS as WORDS
from traceanalyzer.sections.steps import build_recording as build
from traceanalyzer.structure.recording.left_out import REASONS
from traceanalyzer.structure.recording.workload import WORKLOADS

people = pytest.mark.parametrize("layout", ["terminal", "markdown", "html"])


def serving(steps: int = 5, *, slow: int = 0) -> Report:
    """Decode steps of 1 ms, of which one may take twice as long."""
    trace, start = TraceBuilder(), 0
    for number in range(steps):
        length = 2000 if number + 1 == slow else 1000
        trace.annotation("step[DECODE bs=3]", start, length)
        trace.op("aten::mm", start + 1, 20)
        trace.launch_kernel("gemm", start + 30, length - 60, at=start + 5)
        start += length
    return report(trace)


def section(whole: Report, top: int = 10) -> dict[str, object]:
    """The facts of the section by their title."""
    found, *_ = build(whole, top)
    return {str(fact.label): fact.value for fact in found.facts}


@people
def test_program_and_framework_are_shown(layout: str) -> None:
    text = render(serving(), layout, 20)
    assert "What was recorded" in text
    assert "SGLang" in text
    assert "serving" in text
    assert "marks of a server such as" in " ".join(text.split())


@people
def test_a_mean_over_typical_steps_says_how_many_they_are(layout: str) -> None:
    text = " ".join(as_read(render(serving(slow=2), layout)).split())
    length = "1,000 us" if layout == "html" else "1.0 ms"  # the page has whole times
    assert f"{length} per step: the mean of 4 of 5 steps by the marks of SGLang, without the unusual ones." in text
    assert "none is marked" not in text
    assert "by the marks of SGLang" in text


@people
def test_steps_are_listed_with_what_marks_tell_and_why_one_is_left_out(layout: str) -> None:
    text = as_read(render(serving(slow=2), layout))
    assert "decode" in text
    assert "an unknown cause" in text
    assert "1 of 5 steps is unlike the others and is left out of the typical step" in text


def test_a_screen_that_is_too_small_keeps_program_and_framework() -> None:
    whole = serving(40, slow=2)
    text = " ".join(render(whole, "terminal").split())
    assert "by the marks of SGLang" in text
    assert "What was recorded" in text.partition("More in the other formats: ")[2]
    text = render(whole, "terminal", 5)
    assert "Program: serving" in text
    assert "Framework: SGLang" in text


def test_the_typical_step_is_the_mean_of_those_that_count() -> None:
    assert section(serving(slow=2))["Typical step"] == 1_000_000


def test_columns_that_nothing_fills_are_left_out() -> None:
    trace = TraceBuilder()
    for number, (start, length) in enumerate([(0, 1000), (1000, 1000), (2000, 1000), (3000, 2000)]):
        trace.step(number, start, length)
        trace.launch_kernel("gemm", start + 30, length - 60, at=start + 5)
    steps = next(part for part in build(report(trace), 10) if part.id == "recording-steps")
    (table,) = steps.tables
    assert [str(column.title) for column in table.columns] == [
        "Step",
        "Duration",
        "Typical",
        "Unlike the others because of",
    ]
    assert table.rows[3][:3] == ("3", 2_000_000, False)


def test_steps_that_are_alike_need_no_table() -> None:
    trace = TraceBuilder()
    for number in range(3):
        trace.step(number, 1000 * number, 1000)
        trace.launch_kernel("gemm", 1000 * number + 30, 900, at=1000 * number + 5)
    (found,) = build(report(trace), 10)
    assert found.tables == ()


def test_work_from_before_and_removed_events_are_facts() -> None:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 20)
    trace.launch_kernel("gemm", 8000, 2000, at=10, call_dur=5)
    assert section(report(trace))["Work from before the trace, at its start"] == 7_985_000
    # 400 calls are missing between 10 and 19 ms, and as many were made in the 10 ms around it
    last = trace.launch("cudaEventRecord", 10_000, 1)
    trace.launch("cudaEventRecord", 19_000, 1, correlation=last + 400)
    trace.op("aten::mm", 19_000, 20)
    trace.launch("cudaEventRecord", 19_010, 1, correlation=last + 800)
    assert section(report(trace))["Time whose events were removed"] == 8_999_000


def test_each_kind_and_each_reason_has_words() -> None:
    assert set(WORDS) == set(WORKLOADS)
    assert set(STEP_REASONS) == set(REASONS)
