"""The Markdown report fits into a comment whatever the trace, and keeps what is worth most."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests import corpus_files
from tests.formats import readback
from tests.formats.html.advised import advised, finding, say
from tests.formats.samples import FIXTURES, TRAINING, in_turn, names, report_of, spoken
from traceanalyzer.formats import language, render
from traceanalyzer.formats.markdown import MARK, fitted, page
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence, Report, ReportWarning, Skipped
from traceanalyzer.report.section import Fact, Section, SectionColumn, SectionTable

LIMIT = 65_000
EN = language.of("en")
WORST = ["@", "|", "`", "&", "\U0001f525", "a|`@<>&*_# " * 3, "核", "\\", "://a", ":a:"]
"""What takes most room when it is escaped."""


def utf16(text: str) -> int:
    """Characters as a browser counts them."""
    return len(text.encode("utf-16-le")) // 2


def grown(name: str, count: int, report: Report | None = None) -> Report:
    """A report with this number of findings, warnings, headlines and skipped analyses, all with the text `name`."""
    base = advised(report or report_of(TRAINING), name)
    many = Evidence(
        say(name), 1, 2, "ns", tuple(CodePlace("kernel", name, shapes=name, value=1, unit="ns") for _ in range(9))
    )
    one = finding(name, name, evidence=(many,) * 5, links=(f"https://example.com/{name}",) * 9)
    return replace(
        base,
        source=replace(base.source, name=name),
        findings=(*base.findings, *[one] * count),
        headlines=base.headlines * max(1, count),
        warnings=tuple(ReportWarning(f"w-{i}", 1, say(name)) for i in range(count)),
        skipped=tuple(Skipped(name, say(name)) for _ in range(count)),
    )


def check(report: Report, top: int | None = None) -> str:
    text = render(report, "markdown", top)
    assert utf16(text) < LIMIT
    readback.check_structure(text)
    found = readback.parts(text)
    assert {"What to change", "Step time"} <= set(found)
    return text


@pytest.mark.parametrize("piece", WORST, ids=ascii)
def test_names_of_100_000_characters_fit(piece: str) -> None:
    text = check(grown(piece * (100_000 // len(piece)), 40))
    assert "1\\. " not in text


@pytest.mark.parametrize("piece", WORST[:2], ids=ascii)
def test_thousands_of_everything_fit(piece: str) -> None:
    report = grown(piece * 5000, 3000)
    text = check(report)
    assert "more findings; all are in the JSON report" in text
    rows = readback.parts(text)["What to change"].tables[0][1:]
    assert len(rows) >= 5, "the most valuable are always there"
    assert [row[0] for row in rows] == [str(number) for number in range(1, len(rows) + 1)]


@given(names, st.integers(0, 30), st.integers(1, 200), st.sampled_from([None, 1, 7, 5000]))
def test_no_report_is_too_long(name: str, count: int, times: int, top: int | None) -> None:
    check(grown(name * times, count), top)


@pytest.mark.parametrize("top", [1, 20, 100_000])
def test_what_was_asked_for_is_shown_where_it_fits(top: int) -> None:
    columns = (
        SectionColumn(Text("x-name", "Name"), "", is_name=True),
        SectionColumn(Text("x-calls", "Calls"), "count"),
    )
    rows = tuple((f"operator_{number}", number) for number in range(1000))

    def build(shown: int) -> list[Section]:
        return [Section("x", Text("x-title", "Title"), tables=(SectionTable("x", columns, rows[:shown], len(rows)),))]

    text = fitted(MARK, report_of(TRAINING).generator, "T", build, EN, top)
    assert text.count("operator_") == min(top, 1000)
    assert ("of 1,000 rows; all are in the JSON report." in text) == (top < 1000)


def test_fewer_rows_come_before_fewer_sections() -> None:
    columns = (SectionColumn(Text("x-name", "Name"), "", is_name=True),)
    rows = tuple(("x" * 90 + str(number),) for number in range(20))
    shown = [Section(f"s{n}", say(f"Section {n}"), tables=(SectionTable("x", columns, rows, 20),)) for n in range(60)]
    text = fitted(MARK, report_of(TRAINING).generator, "T", lambda _: shown, EN)
    assert len(readback.parts(text)) == 61
    assert "of 20 rows" in text


def test_sections_that_do_not_fit_are_counted_and_named() -> None:
    facts = tuple(Fact(Text("x-fact", "Fact"), "words " * 200, "") for _ in range(5))
    shown = [Section(f"s{n}", say(f"Section {n}"), facts=facts) for n in range(100)]
    shown += [Section("warnings", say("Warnings"), messages=(say("Beware."),), is_essential=True)]
    text = fitted(MARK, report_of(TRAINING).generator, "T", lambda _: shown, EN)
    kept = readback.parts(text)
    assert utf16(text) < LIMIT
    assert "Section 0" in kept
    assert "Warnings" in kept, "it is worth more than the sections before it"
    assert "Section 99" not in kept
    missing = 101 - (len(kept) - 1)
    assert f"{missing} sections are left out" in text
    assert "-o report.html" in text.rpartition("left out")[2]


def test_many_columns_are_counted() -> None:
    columns = tuple(SectionColumn(say(f"Run {n}"), "ns") for n in range(500))
    shown = [Section("runs", say("Runs"), tables=(SectionTable("runs", columns, ((1,) * 500,), 1, row_units=("ns",)),))]
    text = fitted(MARK, report_of(TRAINING).generator, "T", lambda _: shown, EN)
    assert len(readback.parts(text)["Runs"].tables[0][0]) == 20
    assert "20 of 500 columns" in text


def test_levels_show_less_and_less() -> None:
    for top in (1, 5, 20, 1000):
        levels = list(page.levels(top))
        assert levels[0].rows == top
        for before, after in pairwise(levels):
            for field in ("rows", "findings", "listed", "places", "messages", "columns", "name", "prose"):
                assert getattr(after, field) <= getattr(before, field), (top, field)


# Real traces


@pytest.mark.corpus
@in_turn
def test_traces_of_the_corpus_are_well_formed_and_whole(corpus: Path, corpus_name: str, turn: int) -> None:
    report = corpus_files.report_of(corpus / "corpus" / f"{corpus_name}.json.gz")
    text = render(report, "markdown", None, spoken(corpus_name, turn))
    assert utf16(text) < LIMIT
    readback.check_structure(text)
    assert "-o report.html" not in text, "no section had to be left out"


@pytest.mark.parametrize("code", language.CODES)
@pytest.mark.parametrize("path", sorted(FIXTURES.glob("captured/*.json.gz")), ids=lambda path: path.name)
def test_fixtures_are_well_formed_in_every_language(path: Path, code: str) -> None:
    text = render(report_of(path), "markdown", None, language.of(code))
    assert utf16(text) < LIMIT
    readback.check_structure(text)
