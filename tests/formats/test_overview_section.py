"""The parts of a step: what the largest part is must not be hidden under Other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests import corpus_files
from tests.builders import TraceBuilder
from tests.rules.judging import report
from traceanalyzer.formats import language, render
from traceanalyzer.report.model import Report
from traceanalyzer.sections import overview


def between_operators(python: str | None = None) -> Report:
    """Steps of 10 ms: an operator and its kernel for 1 ms, and 9 ms in which the CPU is in no operator."""
    trace = TraceBuilder()
    for number in range(4):
        at = 10_000 * number
        trace.step(number, at, 10_000)
        trace.op("aten::mm", at, 1000)
        trace.launch_kernel("gemm", at + 200, 800, at=at + 100)
        if python:
            trace.python_function(python, at + 1010, 8980)
    return report(trace)


def parts(whole: Report) -> dict[str, tuple[str, float]]:
    """Role of each part and its share, by label."""
    (section,) = overview.build(whole, 5)
    return {part.label.english: (part.role, round(part.share, 3)) for part in section.parts}


def test_code_in_no_operator_has_its_name_and_the_figure_stays() -> None:
    whole = between_operators()
    found = parts(whole)
    role, share = found["CPU between operators"]
    assert "Other" not in found
    assert (role, share) == ("host_code", pytest.approx(0.9, abs=0.005))
    average = whole.result("step_breakdown", overview.StepBreakdown).average  # type: ignore[union-attr]
    assert average is not None
    assert average.other_ns == pytest.approx(9_000_000, rel=0.01)


def test_a_collective_of_the_programs_own_is_communication() -> None:
    """As headline, resources and strip say; the breakdown counts it as a kernel."""
    trace = TraceBuilder()
    for number in range(4):
        at = 10_000 * number
        trace.step(number, at, 10_000)
        trace.op("aten::mm", at, 9_900)
        trace.launch_kernel("gemm", at + 100, 3_900, at=at + 10)
        trace.launch_kernel(
            "void sglang::cross_device_reduce_1stage<half, 8>(RankData*)", at + 4_000, 6_000, at=at + 20
        )
    found = parts(report(trace))
    assert found["Communication"] == ("communication", pytest.approx(0.6, abs=0.01))
    assert found["Kernels"] == ("kernel", pytest.approx(0.39, abs=0.01))


@pytest.mark.parametrize("form", ["terminal", "markdown", "html"])
def test_every_format_has_the_name_in_bars_tables_and_charts(form: str) -> None:
    text = render(between_operators(), form, 20)
    assert "CPU between operators" in text
    assert not re.search(
        r"CPU in operators \| Other|CPU in operators</th><th[^>]*>Other|^ *Other  +\d", text, re.MULTILINE
    )


def test_a_program_that_sleeps_says_so() -> None:
    found = parts(between_operators("<built-in function sleep>"))
    assert found["Sleep and waits"][0] == "other"


def test_a_recording_that_does_not_show_what_bounds_it_has_other_time() -> None:
    trace = TraceBuilder()
    trace.step(0, 0, 1000)
    trace.op("aten::mm", 0, 100)
    whole = report(trace)
    hardly = report_with_bound(whole, "none")
    assert "Other" in parts(hardly)


def test_without_operators_no_time_is_between_them() -> None:
    """Of a recording of the GPU alone, the calls that launch are all that is known of the CPU."""
    trace = TraceBuilder()
    trace.step(0, 0, 20_000)
    for number in range(20):
        trace.launch_kernel("gemm", 1000 * number + 500, 300, at=1000 * number + 400)
    found = parts(report(trace))
    assert found["Other"][0] == "other"
    assert "CPU between operators" not in found


def report_with_bound(whole: Report, bound: str) -> Report:
    """The report with another bound in its headline."""
    return replace(whole, headlines=(replace(whole.headlines[0], bound=bound),))


@pytest.mark.corpus
@pytest.mark.parametrize("code", language.CODES)
def test_the_bar_names_what_the_headline_names(corpus: Path, code: str) -> None:
    whole = corpus_files.report_of(corpus / "corpus" / "timesformer_h100_inference.json.gz")
    name = {"en": "CPU between operators", "ru": "CPU между операторами", "zh": "CPU，算子之间"}[code]
    assert parts(whole)["CPU between operators"][1] == pytest.approx(0.578, abs=5e-4)
    for form in ("terminal", "markdown", "html"):
        assert name in render(whole, form, 20, language.of(code)), "the first screen may lack the room for the bar"
