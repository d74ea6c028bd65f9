"""Tables for other programs: numbers without noise, one word for each unit."""

from __future__ import annotations

import json
import re

import pytest

from tests.formats.samples import TRAINING, report_of
from traceanalyzer.formats import html, language, plain_values, spreadsheet
from traceanalyzer.report.message import Text
from traceanalyzer.report.section import SectionColumn, SectionTable

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
    assert repr(plain_values.number(value, unit)) == repr(shown)


def test_a_head_names_the_unit_that_all_values_have() -> None:
    column = SectionColumn(Text("x", "Share"), "share")
    assert plain_values.head(column, SectionTable("x", (column,), (), 0), EN) == "Share [share]"
    assert plain_values.head(column, SectionTable("x", (column,), (), 0, row_units=("ns",)), EN) == "Share"


def test_a_copied_table_has_the_heads_and_numbers_of_the_file() -> None:
    report = report_of(TRAINING)
    head, first = spreadsheet.csv_files(report)["gpu.csv"].splitlines()[:2]
    page = html.render(report)
    table = page[page.index('id="gpu"') :]
    assert re.findall(r'data-csv="([^"]*)"', table)[: head.count(",") + 1] == head.split(",")
    values = first.split(",")[1:]  # without the number of the device, which is a name to the page
    copied = re.findall(r'data-v="([^"]*)"', table)[: len(values)]
    assert list(map(json.loads, copied)) == list(map(json.loads, values))
