"""The Markdown report as GitHub reads it: its structure, its size, and what it shows of each fixture."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.builders import TraceBuilder
from tests.formats import readback
from tests.formats.samples import DAMAGED, EVERY, NO_GPU, TRAINING, WITH_GPU, report_of
from tests.reading import plain as analyses_of
from tests.reading import read_built
from traceanalyzer.formats import render
from traceanalyzer.formats.html.figures import rounded
from traceanalyzer.formats.html.summary import step_ns
from traceanalyzer.formats.language import ENGLISH
from traceanalyzer.pipeline import analyze
from traceanalyzer.readers.kineto.reader import CATEGORIES_NAMED
from traceanalyzer.report.model import Report

_CHECKS = re.compile(r"(\d+) (?:more )?checks?\b")
LIMIT = 65_000
"""GitHub refuses a comment or an issue of more than 65,536 characters."""
each_fixture = pytest.mark.parametrize("path", EVERY, ids=lambda path: path.name)


@cache
def markdown_of(path: Path) -> str:
    return render(report_of(path), "markdown")


def parts_of(path: Path) -> dict[str, readback.Part]:
    return readback.parts(markdown_of(path))


def plain(text: str) -> str:
    """Without what keeps GitHub from making links of it."""
    return text.replace("\u200b", "")


# Structure


@each_fixture
def test_it_is_well_formed(path: Path) -> None:
    text = markdown_of(path)
    readback.check_structure(text)
    assert len(text) < LIMIT


@each_fixture
def test_it_has_a_title_and_sections_that_say_something(path: Path) -> None:
    title, *sections = parts_of(path).values()
    found = report_of(path)
    said = rounded(ENGLISH, step_ns(found)).say(found.headlines[0].message)
    assert plain(title.title).endswith(plain(said)), "whole numbers, as on the page"
    assert any(path.name in plain(text) for text in title.paragraphs)
    assert sections
    for part in sections:
        assert part.title
        assert part.is_folded or part.paragraphs or part.facts or part.tables, part.title


def test_no_line_ends_in_blanks() -> None:
    lines = markdown_of(TRAINING).split("\n")
    assert not [line for line in lines if line != line.rstrip()]


def big_trace() -> TraceBuilder:
    trace = TraceBuilder(options=("record_shapes",))
    for number in range(2000):
        start = number * 1000
        trace.step(number, start, 900)
        name = f"very::long_operator_{number}_" + "x|`" * 200
        owner = trace.op(name, start + 10, 800, shapes=[[number, 8]] * 50)
        trace.launch_kernel(name, start + 100, 20, at=start + 20, external_id=owner)
    return trace


def test_a_trace_with_thousands_of_operators_fits_into_a_comment() -> None:
    text = render(analyze(read_built(big_trace())), "markdown")
    assert "20 of 2,000 rows" in text
    assert len(text) < LIMIT


def test_thousands_of_unknown_categories_fit_into_a_comment() -> None:
    trace = TraceBuilder(devices=())
    trace.op("aten::mm", 0, 5)
    for number in range(3000):
        trace.add(f"unknown_category_{number}_{'x' * 2000}", "x", (number, 1), trace.thread(None), {})
    report = analyze(read_built(trace))
    left_out = [w for w in report.warnings if w.id in ("read-unsupported", "read-many-categories")]
    assert sum(w.count for w in left_out) == 3000
    assert len(left_out) == CATEGORIES_NAMED + 1
    assert len(render(report, "markdown")) < LIMIT
    assert len(render(report, "terminal").splitlines()) < 100


@pytest.mark.parametrize("top", [1, 3, 30])
def test_top_limits_every_ranking_and_says_so(top: int) -> None:
    report = report_of(TRAINING)
    for part in readback.parts(render(report, "markdown", top)).values():
        for table in part.tables:
            is_ranking = table[0][0] in {"Operator", "Kernel", "Step"}
            assert not is_ranking or len(table) - 1 <= top
    operators = readback.parts(render(report, "markdown", top))["Operators by device self time"]
    total = len(analyses_of(report)["operators"]["rows"])
    assert len(operators.tables[0]) - 1 == min(top, total)
    said = f"{top} of {total} rows; all are in the JSON report."
    assert operators.paragraphs == ([said] if top < total else [])


# What it shows


@pytest.mark.parametrize("name", NO_GPU)
@pytest.mark.parametrize("form", ["markdown", "terminal"])
def test_without_a_gpu_there_is_no_section_about_one(name: str, form: str) -> None:
    report = report_of(next(path for path in EVERY if path.name == name))
    text = render(report, form)
    titles = {"GPU", "Kernels", "Kernels by operator", "Operators by device self time"}
    assert titles.isdisjoint(line.strip().lstrip("# ") for line in text.splitlines())
    assert "Operators by CPU self time" in text


def test_with_a_gpu_there_are_those_sections() -> None:
    with_gpu = WITH_GPU
    assert len(with_gpu) > 5
    for path in with_gpu:
        titles = {title.removesuffix(" (whole trace)") for title in parts_of(path)}
        assert {"GPU", "Kernels", "Operators by device self time"} <= titles, path.name


@pytest.mark.parametrize("path", DAMAGED, ids=lambda path: path.name)
def test_every_warning_is_shown_in_a_section_of_its_own(path: Path) -> None:
    report = report_of(path)
    shown = parts_of(path).get("Warnings")
    assert [plain(text) for text in (shown.paragraphs if shown else [])] == [
        " ".join(warning.message.text.split()) for warning in report.warnings
    ]
    fold = next((part for title, part in parts_of(path).items() if title == "What was recorded, and warnings"), None)
    assert shown is None or (fold is not None and fold.said), "the first one is visible"


def test_repaired_files_have_that_section() -> None:
    for name in ("truncated_in_event.json", "unescaped_quote.json", "bare_inf.json", "truncated.json.gz"):
        path = next(path for path in DAMAGED if path.name == name)
        assert parts_of(path)["Warnings"].paragraphs, name


def test_without_warnings_there_is_no_such_section() -> None:
    trace = TraceBuilder(devices=())
    trace.op("aten::mm", 0, 50)
    report = replace(analyze(read_built(trace)), warnings=())
    assert "Warnings" not in readback.parts(render(report, "markdown"))
    assert "Warnings" not in render(report, "terminal")


def test_what_could_not_be_analyzed_is_said() -> None:
    skipped = [path for path in EVERY if report_of(path).skipped]
    assert skipped
    for path in skipped:
        part = parts_of(path)["Skipped"]
        report: Report = report_of(path)
        rules = {item.id for item in report.skipped if "_" not in item.id}
        shown = [item for item in report.skipped if item.id.replace("_", "-") not in rules or item.id in rules]
        rest = "more checks do not apply to this trace; the JSON report has the reason of each."
        assert sum(int(number) for line in part.paragraphs for number in _CHECKS.findall(line)[:1]) == len(shown)
        said = "\n".join(part.paragraphs)
        for item in shown:
            option = re.search(r"\w+=True", item.reason.text)
            assert rest in said or (option is not None and option[0] in said)
