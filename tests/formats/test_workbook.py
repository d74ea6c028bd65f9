"""The Excel workbook for people: the verdict first, milliseconds, few sheets."""

from __future__ import annotations

import io
from pathlib import Path

import openpyxl
import pytest

from tests.cli.running import FIXTURES, TRAINING
from tests.formats.samples import in_turn, report_of, spoken
from traceanalyzer.analyzers.operators import Operators
from traceanalyzer.formats import language
from traceanalyzer.formats.workbook import workbook
from traceanalyzer.report.model import Report

MOST_SHEETS = 8
WRITTEN = (*sorted(FIXTURES.glob("synthetic/*.json*")), FIXTURES / "key_averages" / "article.md")


@pytest.fixture(scope="module")
def report() -> Report:
    return report_of(TRAINING)


def sheets(report: Report, code: str = "en") -> dict[str, list[tuple[object, ...]]]:
    book = openpyxl.load_workbook(io.BytesIO(workbook(report, language.of(code))))
    return {sheet.title: [tuple(row) for row in sheet.values] for sheet in book}


def test_the_first_sheet_is_the_verdict_with_the_findings_in_milliseconds(report: Report) -> None:
    name, first = next(iter(sheets(report).items()))
    assert name == "Summary"
    assert [row[0] for row in first[:2]] == ["What bounds it", report.headlines[0].message.text]
    head = next(row for row in first if row[0] == "Finding")
    low, high, what = head.index("Saves at least [ms per step]"), head.index("Saves at most [ms per step]"), 4
    rows = {row[0]: row for row in first[first.index(head) + 1 :]}
    saving = [found for found in report.findings if found.saving is not None and found.title.text in rows]
    assert saving
    for found in saving:
        row = rows[found.title.text]
        assert found.saving is not None
        assert [row[low], row[high]] == pytest.approx([ns / 1e6 for ns in found.saving.wall_ns_per_step], abs=1e-9)
        assert row[what]


def test_all_rows_of_a_table_in_milliseconds(report: Report) -> None:
    rows = sheets(report)["Operators"]
    head = next(row for row in rows if row[0] == "Operator")
    column = head.index("Device self in all [ms]")
    found = {row[0]: row[column] for row in rows[rows.index(head) + 1 :][: len(operators(report).rows)]}
    assert found == {row.name: pytest.approx(row.device_self_ns / 1e6, abs=1e-9) for row in operators(report).rows}


def operators(report: Report) -> Operators:
    found = report.result("operators", Operators)
    assert found is not None
    return found


def test_the_same_report_gives_the_same_bytes(report: Report) -> None:
    assert workbook(report) == workbook(report)


@in_turn
@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.name)
def test_few_sheets_that_all_hold_something(path: Path, turn: int) -> None:
    found = sheets(report_of(path), spoken(path.name, turn).code)
    assert 1 <= len(found) <= MOST_SHEETS
    assert all(any(value is not None for row in rows for value in row) for rows in found.values())
