"""Reports on printed tables keep the same rules as those on traces, whatever the names in the tables."""

from __future__ import annotations

import io
import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from rich.cells import cell_len

from tests.formats import readback
from tests.formats.samples import FIXTURES, HOSTILE, names, report_of
from tests.formats.test_hostile_names import LINKS, controls, shown_as_code
from tests.formats.test_json_report import VALIDATOR
from tests.reading import assert_reads_back
from traceanalyzer.formats import language, render
from traceanalyzer.formats.html.figures import rounded
from traceanalyzer.formats.html.summary import step_ns
from traceanalyzer.formats.markdown import comment
from traceanalyzer.pipeline import analyze
from traceanalyzer.readers import read
from traceanalyzer.readers.source import Source
from traceanalyzer.report.model import Report

DOCUMENTS = sorted(path for path in FIXTURES.glob("key_averages/*") if path.name not in {"README.md", "look_alikes.md"})
LIMIT = 65_000
each_document = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)


@each_document
def test_markdown_is_well_formed(path: Path) -> None:
    text = render(report_of(path), "markdown")
    readback.check_structure(text)
    assert len(text) < LIMIT
    title, *sections = readback.parts(text).values()
    report = report_of(path)
    said = comment.verdict(report, rounded(language.ENGLISH, step_ns(report)))
    assert bool(said) == bool(report.headlines)
    assert title.title.replace("\u200b", "") == (said.replace("`", "") or f"Profile of {path.name}")
    assert path.name in shown_as_code(text.partition("<details>")[0])
    assert " 0 steps" not in text
    for part, following in pairwise([*sections, None]):
        is_group = part.is_folded and following is not None and not following.is_folded
        assert is_group or part.paragraphs or part.facts or part.tables


@each_document
def test_the_screen_has_80_columns(path: Path) -> None:
    report = report_of(path)
    screen = render(report, "terminal")
    opening = screen.partition("\n\n")[0].split("\n")
    assert opening[-1].startswith(f"{path.name}: ")
    if len(report.headlines) == 1:
        assert " ".join(opening).startswith(report.headlines[0].message.text)
    else:
        assert len(opening) == 1
    assert max(map(cell_len, screen.splitlines())) <= 80
    assert screen.replace("\n", "").isprintable()


@each_document
def test_json_keeps_to_the_schema_and_reads_back(path: Path) -> None:
    report = report_of(path)
    text = render(report, "json")
    VALIDATOR.validate(json.loads(text, parse_constant=pytest.fail))
    assert_reads_back(text, report)
    assert str(FIXTURES.parent) not in text


def printed(name: str) -> Report:
    """A document of two tables, in which rows, headings and the file have this name."""
    shown = " ".join(name.split())
    titles = [shown, "aten::mm", f"Optimizer.step#{shown}.step", f"enumerate(DataLoader)#{shown}.__next__"]
    widths = [max(map(len, titles)), *[12] * 5]
    lines = [("Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "# of Calls")]
    lines += [(title, "25.00%", "5.000ms", "25.00%", "5.000ms", "10") for title in titles]
    rule = "  ".join("-" * width for width in widths)
    head, *rows = ("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    table = "\n".join([rule, head, rule, *rows, rule])
    text = f"# {shown}\n\n{table}\nSelf CPU time total: 20.000ms\n\n## {shown} again\n\n{table}\n"
    data = text.encode("utf-8")
    return analyze(read(Source(io.BytesIO(data), f"{name}.txt", len(data), lambda _: None)))


def check(report: Report) -> None:
    text = render(report, "markdown")
    readback.check_structure(text)
    assert len(text) < LIMIT
    assert controls(text) <= {"\n", "\u200b"}
    assert not LINKS.findall(readback.prose(text))
    assert "aten::mm" in shown_as_code(text)
    screen = render(report, "terminal")
    assert controls(screen) <= {"\n"}
    assert max(map(cell_len, screen.split("\n"))) <= 80
    json_text = render(report, "json")
    VALIDATOR.validate(json.loads(json_text))
    assert_reads_back(json_text, report)


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: ascii(name)[:30])
def test_hostile_names_change_nothing(name: str) -> None:
    check(printed(name))


@given(names)
def test_no_name_changes_anything(name: str) -> None:
    check(printed(name))
