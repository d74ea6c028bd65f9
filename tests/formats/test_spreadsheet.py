"""Tables in CSV files: numbers without noise, one word for each unit."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import msgspec
import openpyxl
import pytest

from tests.builders import TraceBuilder
from tests.cli.running import FIXTURES, TRAINING, call
from tests.formats.samples import report_of
from tests.reading import read_built
from traceanalyzer.analyzers.operators import Operators
from traceanalyzer.formats import html, language, spreadsheet
from traceanalyzer.formats.workbook import workbook
from traceanalyzer.pipeline import analyze
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import SectionColumn, SectionTable


@pytest.fixture(scope="module")
def report() -> Report:
    return report_of(TRAINING)


def hostile(name: str) -> Report:
    trace = TraceBuilder()
    trace.step(0, 0, 100)
    trace.op(name, 10, 30)
    trace.launch_kernel(name, 25, 40, at=15)
    return analyze(read_built(trace))


def rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


def test_all_rows_in_plain_values(report: Report) -> None:
    head, *found = rows(spreadsheet.csv_files(report)["operators.csv"])
    operators = report.result("operators", Operators)
    assert operators is not None
    assert [head[0], *head[-2:]] == ["Operator", "Calls in all", "Device self in all [ns]"]
    assert sorted((row[0], int(row[-2]), int(row[-1])) for row in found) == sorted(
        (row.name, row.calls, row.device_self_ns) for row in operators.rows
    )


@pytest.mark.parametrize("name", ["=1+1", "+cmd|' /C calc'!A0", "@SUM(A1)", "-2", "\t=1"])
def test_no_name_becomes_a_formula(name: str) -> None:
    report = hostile(name)
    (_, row, *_) = rows(spreadsheet.csv_files(report)["operators.csv"])
    assert not row[0].startswith(("=", "+", "-", "@", "\t"))
    book = openpyxl.load_workbook(io.BytesIO(workbook(report)))
    assert {cell.data_type for row in book["Operators"].rows for cell in row if isinstance(cell.value, str)} == {"s"}


@pytest.mark.parametrize("name", ["=1+1", "\uff1d1", "\t=1", "\n@x"])
def test_no_title_of_a_column_becomes_a_formula(name: str) -> None:
    """The heads of the comparison of runs are headings out of a document."""
    article = report_of(FIXTURES / "key_averages" / "article.md")
    runs = tuple(msgspec.structs.replace(run, title=name + run.title) for run in article.analyses["runs"])
    report = msgspec.structs.replace(article, analyses=article.analyses | {"runs": runs})
    assert len(runs) > 1
    for form in spreadsheet.csv_files(report).values():
        for row in rows(form):
            assert not any(cell.startswith(("=", "\uff1d", "\t", "\n", "@")) for cell in row)


@pytest.mark.parametrize("field", ["rule", "run", "severity"])
def test_findings_of_anybody_stay_text(report: Report, field: str) -> None:
    hostile = msgspec.structs.replace(report.findings[0], **{field: "=1+1\x1b[31m"})
    changed = msgspec.structs.replace(report, findings=(hostile,))
    (_, row) = rows(spreadsheet.csv_files(changed)["findings.csv"])
    assert "'=1+1\ufffd[31m" in row
    book = openpyxl.load_workbook(io.BytesIO(workbook(changed)))
    assert {cell.data_type for row in book["Summary"].rows for cell in row} <= {"s", "n"}


def test_heads_are_translated(report: Report) -> None:
    english, russian = (spreadsheet.csv_files(report, language.of(code)) for code in ("en", "ru"))
    assert english.keys() == russian.keys()
    assert rows(english["kernels.csv"])[0] != rows(russian["kernels.csv"])[0]
    values = [[row[:4] for row in rows(text["kernels.csv"])[1:]] for text in (english, russian)]
    assert values[0] == values[1], "numbers are for programs"


def test_on_the_command_line(tmp_path: Path) -> None:
    folder, book = tmp_path / "tables", tmp_path / "tables.xlsx"
    assert call("report", TRAINING, "-q", "-o", folder, "--format", "csv").code == 0
    assert call("report", TRAINING, "-q", "-o", book).code == 0
    assert (folder / "operators.csv").is_file()
    assert openpyxl.load_workbook(book, read_only=True).sheetnames
    again = call("report", TRAINING, "-q", "-o", folder, "--format", "csv")
    assert again.code == 2
    assert "use --force" in again.err
    assert "cannot be printed" in call("report", TRAINING, "-q", "-o", "-", "--format", "xlsx").err
    assert "name a folder" in call("report", TRAINING, "-q", "-o", tmp_path / "x.csv").err


EN = language.of("en")


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0.1 + 0.2, "share", 0.3),
        (120000.00000000001, "ns", 120000),
        (41538.46153846155, "ns", 41538.462),
        (1.0, "share", 1),
        (1 / 3, "share", 0.333333),
        (2.501618122977346, "number", 2.501618),
        (1.23456789e-9, "share", 1.23457e-9),
        (-0.1 - 0.2, "share", -0.3),
        (0.0, "share", 0),
        (2**60 + 1, "bytes", 2**60 + 1),
    ],
)
def test_numbers_are_shown_as_exactly_as_they_mean(value: float, unit: str, shown: float) -> None:
    assert repr(spreadsheet.number(value, unit)) == repr(shown)


def test_a_head_names_the_unit_that_all_values_have() -> None:
    column = SectionColumn(Text("x", "Share"), "share")
    assert spreadsheet.column_head(column, SectionTable("x", (column,), (), 0), EN) == "Share [share]"
    assert spreadsheet.column_head(column, SectionTable("x", (column,), (), 0, row_units=("ns",)), EN) == "Share"


def test_a_copied_table_has_the_heads_and_numbers_of_the_file() -> None:
    report = report_of(TRAINING)
    head, first = spreadsheet.csv_files(report)["gpu.csv"].splitlines()[:2]
    page = html.render(report)
    table = page[page.index('id="gpu"') :]
    assert re.findall(r'data-csv="([^"]*)"', table)[: head.count(",") + 1] == head.split(",")
    values = first.split(",")[1:]  # without the number of the device, which is a name to the page
    copied = re.findall(r'data-v="([^"]*)"', table)[: len(values)]
    assert list(map(json.loads, copied)) == list(map(json.loads, values))
