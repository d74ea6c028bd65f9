"""The page has the figures of the typical steps; where a saved report has only those of all steps of its GPU, the share
of the typical step stands beside them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.builders import TraceBuilder
from tests.formats.html.pages import as_read
from tests.reading import read_built
from traceanalyzer.analyzers.idle.gpu import GpuMetrics
from traceanalyzer.formats import language, render
from traceanalyzer.formats.terminal import elements
from traceanalyzer.pipeline import analyze
from traceanalyzer.report.model import Report


def decoding(*, before: int) -> Report:
    """A step of a server: `before` us of older work, then 1000 us of which a kernel runs for 500."""
    trace = TraceBuilder()
    trace.annotation("step[DECODE bs=8]", 0, before + 1000)
    trace.op("aten::mm", 0, 20)
    trace.launch_kernel("gemm", before or 20, 500, at=10, call_dur=5)
    trace.op("aten::mm", before + 900, 100)
    return analyze(read_built(trace))


def of_all_steps(found: Report) -> Report:
    """The report as a version without figures of the typical steps saved it."""
    gpu = found.result("gpu", GpuMetrics)
    assert gpu is not None
    old = replace(gpu, devices=tuple(replace(device, typical=None) for device in gpu.devices))
    return replace(found, analyses={**found.analyses, "gpu": old})


def test_the_page_has_the_figure_of_the_step_beside_work_from_before_the_recording() -> None:
    page = as_read(render(decoding(before=8000), "html"))
    assert "In use, of the step GPU 50 %" in page
    assert "Utilization 50 %" in page
    page = as_read(render(of_all_steps(decoding(before=8000)), "html"))
    assert "In use, of the step GPU 50 %" in page
    assert "Utilization 6 %" in page


def test_the_page_has_the_figure_of_the_typical_steps_beside_that_of_all() -> None:
    trace = TraceBuilder()
    # Four steps of 100 us with 80 us of work; in the mean over all five, 320 of 1400 us.
    for number, (start, dur) in enumerate(((0, 1000), (1000, 100), (1100, 100), (1200, 100), (1300, 100))):
        trace.step(number, start, dur)
        trace.op("aten::mm", start, 20)
        if number:
            trace.launch_kernel("gemm", start + 10, 80, at=start + 5)
    report = analyze(read_built(trace))
    page = as_read(render(report, "html"))
    assert "In use, of the step GPU 80 %" in page
    assert "Utilization 80 %" in page
    page = as_read(render(of_all_steps(report), "html"))
    assert "In use, of the step GPU 80 %" in page
    assert "Utilization 23 %" in page


def test_a_whole_recording_has_no_figures_of_all_steps() -> None:
    """A graph works after the host is done, outside of the window in which other tools look for it."""
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 50)
    trace.graph_launch(10, 20, [(f"kernel {number}", 5000 + 100 * number, 90, {}) for number in range(9)])
    report = analyze(read_built(trace))
    gpu = report.result("gpu", GpuMetrics)
    assert gpu is not None
    assert gpu.devices[0].typical is not None
    assert gpu.devices[0].typical.busy_share > 0.8 > gpu.devices[0].busy_share
    assert "(all steps)" not in as_read(render(report, "html"))


def test_where_both_are_about_the_same_the_page_has_one_figure() -> None:
    page = as_read(render(decoding(before=0), "html"))
    assert "In use, of the step GPU 50 %" in page
    assert "Utilization 50 %" in page


def test_the_warning_of_steps_names_the_framework_as_its_makers_do() -> None:
    (warning,) = (one for one in decoding(before=0).warnings if one.message.id == "q-steps-inferred")
    assert warning.message.text == "The profiler marked no steps: the only step is taken from SGLang."


def test_labels_have_the_colon_of_the_language() -> None:
    trace = TraceBuilder()
    for number in range(3):
        trace.step(number, 1000 * number, 1000)
        trace.op("aten::mm", 1000 * number, 900)
        trace.launch_kernel("gemm", 1000 * number + 900, 90, at=1000 * number + 880)
    report = analyze(read_built(trace))
    english, chinese = render(report, "markdown"), render(report, "markdown", language=language.of("zh_Hans"))
    assert "**What to do:** " in english
    assert ":**" not in chinese
    assert chinese.count("：** ") == english.count(":** ")


@pytest.mark.parametrize(
    ("text", "cut"), [("abcdefgh", "abcdefgh"), ("abcdefghi", "abcde..."), ("步骤步骤步骤", "步骤...")]
)
def test_a_fact_is_cut_off_at_its_end(text: str, cut: str) -> None:
    assert elements.cut_off(text, 8) == cut
