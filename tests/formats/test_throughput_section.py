"""Throughput in all formats: known figures are shown, unknown ones are not."""

from __future__ import annotations

import csv
import io

import msgspec
import pytest

from tests.analyzers.serving.loops import Loop
from tests.reading import read_built
from traceanalyzer import sections
from traceanalyzer.analyzers.serving import ThroughputFigures
from traceanalyzer.formats import html, json, markdown, spreadsheet, terminal
from traceanalyzer.formats.language import ENGLISH
from traceanalyzer.pipeline import analyze
from traceanalyzer.readers import key_averages
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section

TEXT = """\
~200 samples/sec
-------------  ------------  ------------  ------------
         Name    Self CPU %      Self CPU    # of Calls
-------------  ------------  ------------  ------------
ProfilerStep*        50.00%       5.000ms            10
     aten::mm        50.00%       5.000ms            10
-------------  ------------  ------------  ------------
Self CPU time total: 10.000ms
"""


@pytest.fixture(scope="module")
def report() -> Report:
    """Steps of 1 ms with 8 samples and a product of 2 * 1000^3 operations."""
    loop = Loop()
    for _ in range(3):
        loop.begin()
        loop.batch([8, 64], [8])
        loop.op("aten::linear", loop.now, 8, shapes=[[8, 64], [64, 64], [64]])
        loop.now += 10
        loop.product(1000, 500)
    return analyze(read_built(loop))


@pytest.fixture(scope="module")
def document() -> Report:
    return analyze(key_averages.read(TEXT, "notes.md", None))


def section(report: Report, name: str) -> Section:
    (found,) = [part for part in sections.build(report, 10) if part.id == name]
    return found


def sheet(report: Report, name: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(spreadsheet.csv_files(report)[f"{name}.csv"], newline="")))


def test_the_section_has_rates_and_shares(report: Report) -> None:
    rates, shares = section(report, "throughput").tables
    assert [(str(row[0]), row[1], row[2].text) for row in rates.rows] == [
        ("Samples per second", 8000, "1 x 8 a step, by shapes")
    ]
    share = pytest.approx(2e9 / 312e12 / 1e-3)
    assert [(str(row[0]), row[1]) for row in shares.rows] == [("MFU", share), ("HFU", share)]


def test_every_format_has_it(report: Report) -> None:
    screen = io.StringIO()
    terminal.show(report, screen, top=5)
    assert "Samples per second: 8,000" in screen.getvalue()
    assert "| MFU | 0.64 % | 0.002 TFLOP a step |" in markdown.render(report)
    assert "Samples per second" in html.render(report)
    assert '"batch_size":8' in json.render(report).replace(" ", "")
    assert sheet(report, "throughput")[1] == ["Samples per second", "8000", "1 x 8 a step, by shapes"]
    assert sheet(report, "utilization")[0][1] == "Of the peak [share]"


def test_it_reads_back_as_it_was(report: Report) -> None:
    again = msgspec.json.decode(json.render(report), type=Report)
    assert again.result("throughput", ThroughputFigures) == report.analyses["throughput"]


def test_both_shares_are_explained_in_a_sentence(report: Report) -> None:
    (section,) = [part for part in sections.build(report, 10) if part.id == "throughput"]
    said = {ENGLISH.text(term.name): ENGLISH.text(term.meaning) for term in section.terms}
    assert said["MFU"].count(".") == said["HFU"].count(".") == 1


def test_nothing_is_shown_of_what_is_not_known() -> None:
    loop = Loop()
    loop.begin()
    loop.op("aten::add", 10, 10)
    found = analyze(read_built(loop))
    assert not [part for part in sections.build(found, 10) if part.id == "throughput"]
    assert "Samples per second" not in markdown.render(found)


def test_why_there_is_no_mfu(report: Report) -> None:
    loop = Loop()
    loop.begin()
    loop.batch([8, 3, 8, 8], [8])
    loop.convolution(8)
    loop.launch_kernel("mystery", 500, 400, at=490)
    (message,) = section(analyze(read_built(loop)), "throughput").messages
    assert message.id == "throughput-coverage"


def test_rates_of_a_text_stand_in_every_format(document: Report) -> None:
    row = section(document, "printed-throughput").tables[0].rows[0]
    assert (row[:3], str(row[3])) == (("run-1", "~200 samples/sec", 200), "samples")
    assert "| run-1 | `~200 samples/sec` | 200 | samples |" in markdown.render(document)
    assert sheet(document, "printed_throughput")[1][:3] == ["run-1", "~200 samples/sec", "200"]
    facts = {str(fact.label): fact.value for fact in section(document, "run-1").facts}
    assert facts["Throughput as printed"] == "~200 samples/sec"
    # 1 ms a step is profiled, and one sample takes 5 ms
    assert "q-rate-of-any-batch" in [warning.id for warning in document.warnings]
