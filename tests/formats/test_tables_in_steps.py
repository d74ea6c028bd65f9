"""Tables of the recording: figures of the typical step come first, and headings say what is of the whole recording."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer import sections
from traceanalyzer.formats.language import ENGLISH
from traceanalyzer.pipeline import analyze
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section, SectionTable


def warming_up() -> Report:
    """A first step of 1000 us with a product of its own, and four of 100 us with one of 40 and two of 10 us."""
    trace = TraceBuilder()
    for number, start in enumerate((0, 1000, 1100, 1200, 1300)):
        trace.step(number, start, 100 if number else 1000)
        if not number:
            trace.op("aten::conv2d", 10, 800)
            trace.launch_kernel("implicit_convolve_sgemm", 30, 700, at=20)
            continue
        trace.op("aten::mm", start + 2, 10)
        trace.launch_kernel("ampere_sgemm_128x64", start + 20, 40, at=start + 3)
        for place in (20, 40):
            trace.op("aten::add", start + place, 10)
            trace.launch_kernel("vectorized_elementwise_kernel", start + 50 + place // 2, 10, at=start + place + 1)
    return analyze(read_built(trace))


def one_step() -> Report:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 10)
    trace.launch_kernel("ampere_sgemm_128x64", 5, 40, at=3)
    return analyze(read_built(trace))


def section_of(report: Report, name: str) -> Section:
    (found,) = [section for section in sections.build(report, 20) if section.id == name]
    return found


def cells(table: SectionTable) -> list[dict[str, Any]]:
    titles = [ENGLISH.text(column.title) for column in table.columns]
    return [dict(zip(titles, row, strict=True)) for row in table.rows]


def test_operators_are_those_of_a_typical_step_then_of_the_recording() -> None:
    section = section_of(warming_up(), "operators")
    assert ENGLISH.text(section.title) == "Operators by device self time"
    product, addition, convolution = cells(section.tables[0])
    assert list(product) == [
        *("Operator", "Calls/step", "Device self/step", "Share", "Device total/step"),
        *("CPU self/step", "CPU total/step", "Calls in all", "Device self in all"),
    ]
    assert (product["Operator"], product["Device self/step"], product["Device self in all"]) == (
        "aten::mm",
        40_000,
        160_000,
    )
    assert (addition["Calls/step"], addition["Device self/step"], addition["Calls in all"]) == (2, 20_000, 8)
    assert addition["Share"] == pytest.approx(20 / 60)
    assert (convolution["Operator"], convolution["Calls/step"], convolution["Device self/step"]) == (
        "aten::conv2d",
        0,
        0,
    )
    assert convolution["Device self in all"] == 700_000


def test_kernels_and_their_kinds_are_those_of_a_typical_step_then_of_the_recording() -> None:
    report = warming_up()
    first, _, last = cells(section_of(report, "kernels").tables[0])
    assert (first["Kernel"], first["Calls/step"], first["Total/step"]) == ("ampere_sgemm_128x64", 1, 40_000)
    assert (first["Mean"], first["Share"], first["Total in all"]) == (40_000, pytest.approx(40 / 60), 160_000)
    assert (last["Kernel"], last["Calls/step"], last["Mean"]) == ("implicit_convolve_sgemm", 0, None)
    kinds = {ENGLISH.text(row["Class"]): row for row in cells(section_of(report, "kernel-classes").tables[0])}
    assert list(kinds) == ["Matrix multiplications", "Elementwise", "Convolution"]
    assert kinds["Elementwise"]["Calls/step"] == 2
    assert kinds["Convolution"]["Total/step"] == 0
    assert kinds["Convolution"]["Total in all"] == 700_000


def test_idle_time_has_that_of_a_typical_step_too() -> None:
    rows = cells(section_of(warming_up(), "idle").tables[0])
    assert sum(row["Time/step"] for row in rows) == 40_000
    assert sum(row["Time"] for row in rows) == 300_000 + 4 * 40_000


def test_headings_say_what_is_of_the_whole_recording() -> None:
    title = ENGLISH.text(section_of(warming_up(), "kernels-by-operator").title)
    assert title == "Kernels by operator (whole trace)"
    assert ENGLISH.text(section_of(one_step(), "kernels-by-operator").title) == "Kernels by operator"


def test_a_recording_that_is_one_step_has_plain_sums() -> None:
    (row,) = cells(section_of(one_step(), "operators").tables[0])
    assert (row["Calls"], row["Device self"], row["Share"]) == (1, 40_000, 1)


def test_operators_whose_work_runs_in_a_step_after_them_are_of_that_step() -> None:
    """The device ran earlier work for 8000 us, while the host launched the work of the step."""
    trace = TraceBuilder()
    trace.annotation("step[DECODE bs=8]", 0, 9000)
    trace.op("aten::mm", 0, 20)
    trace.launch_kernel("ampere_sgemm_128x64", 8000, 500, at=10, call_dur=5)
    trace.op("aten::mm", 8900, 100)
    report = analyze(read_built(trace))
    section = section_of(report, "operators")
    assert ENGLISH.text(section.title) == "Operators by device self time"
    assert cells(section.tables[0])[0]["Device self/step"] == 500_000
    (kernel,) = cells(section_of(report, "kernels").tables[0])
    assert kernel["Total/step"] == 500_000


def test_a_step_that_follows_earlier_work_is_no_whole_trace() -> None:
    """Nothing marks it: it is what was recorded after 8000 us of work from before."""
    trace = TraceBuilder()
    trace.op("aten::to", 0, 8000)
    trace.launch_kernel("ampere_sgemm_128x64", 8000, 500, at=10, call_dur=5)
    trace.launch_kernel("ampere_sgemm_128x64", 8500, 500, at=30, call_dur=5)
    report = analyze(read_built(trace))
    (said,) = section_of(report, "overview").messages[:1]
    assert said.text == "No steps are marked; 1.0 ms of the 9.0 ms of the trace count as one step."
    assert "all 1.0 ms of recorded work" in report.headlines[0].text
