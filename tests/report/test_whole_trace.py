"""What is said of a trace without steps."""

from __future__ import annotations

import re

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work, finish
from tests.rules.judging import report
from traceanalyzer.formats import html, language, markdown, spreadsheet, terminal
from traceanalyzer.report import whole_trace
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report

OF_STEPS = re.compile(r"per step|(?<!out )of (?:a|the|each|every) step\b|in (?:a|the|each) step\b|/step\b")


def cold_pass() -> Report:
    """Eight pageable copies of 2 ms, and 100 kernels, no two of which take the same time: nothing is a step."""
    trace = TraceBuilder()
    thread, stream = Host(trace, at=10), Stream()
    for _ in range(8):
        with thread.op("aten::copy_", 10):
            thread.copy("HtoD", 20_000_000, stream, dur=2000, wait=True)
    for number in range(100):
        with thread.op("aten::mm", 30):
            thread.launch(Work("ampere_sgemm_128x64_nn", 40 + number), stream)
    thread.wait(stream)
    return report(finish(trace))


def test_figures_of_a_trace_without_steps_are_of_the_trace_in_every_format() -> None:
    found = cold_pass()
    (copies,) = (finding for finding in found.findings if finding.rule == "h2d-pageable")
    assert "in the trace" in copies.summary.text
    told = [terminal.render(found), markdown.render(found), *spreadsheet.csv_files(found).values()]
    assert [line for text in told for line in text.split("\n") if OF_STEPS.search(line)] == []
    page = re.sub(r"<(script|style)\b.*?</\1>|<[^>]+>", "", html.render(found), flags=re.DOTALL)
    shown, _, _definitions = page.partition("A ProfilerStep range on the CPU")
    assert [line for line in shown.split("\n") if OF_STEPS.search(line)] == []


@pytest.mark.parametrize(
    ("code", "of_steps"), [("ru", r"(?:на|за) шаг\b|каждого шага|/шаг"), ("zh", r"每个 step|每步|/step")]
)
def test_translations_are_of_the_trace_as_well(code: str, of_steps: str) -> None:
    text = markdown.render(cold_pass(), language=language.of(code))
    assert re.findall(of_steps, text) == []
    assert {"ru": "в трейсе", "zh": "整个 trace"}[code] in text


def test_figures_of_sentences_stay_figures() -> None:
    assert re.search(r"<data [^>]*>[\d.]+</data>[^.]* in the trace", html.render(cold_pass())) is not None


@pytest.mark.parametrize(
    ("id_", "english", "told"),
    [
        ("some-summary", "Copies take {time:ns} per step ({share:share} of the step).", "2.0 ms in the trace (50 % of"),
        ("some-advice", "Copy {time:ns} less in each step.", "Copy 2.0 ms less in each step."),
        ("some-summary", "The mean of the steps is {time:ns}.", "The mean of the steps is 2.0 ms."),
    ],
)
def test_what_is_to_be_done_and_several_steps_keep_their_words(id_: str, english: str, told: str) -> None:
    message = Text(id_, english)(time=2_000_000, share=0.5)
    assert told in whole_trace.message(message).text


def test_a_message_in_a_message_is_told_as_well_and_only_once() -> None:
    inner = Text("inner", "{time:ns} per step")(time=1000)
    outer = whole_trace.message(Text("outer", "Saved: {inner} of the step")(inner=inner))
    assert outer.text == "Saved: 1.0 us in the trace of the trace"
    assert outer.params["inner"]["text"] == "1.0 us in the trace"
    assert whole_trace.message(outer) == outer
    assert isinstance(whole_trace.everywhere((outer, 1))[0], Message)
