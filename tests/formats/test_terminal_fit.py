"""The first screen is one screen, in every language and whatever the trace; lines break as the script wants it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.cells import cell_len

from tests import corpus_files
from tests.formats.html.advised import advised, finding, say
from tests.formats.samples import HOSTILE, TRAINING, in_turn, names, report_of, spoken
from tests.formats.test_hostile_names import controls
from tests.formats.test_markdown_limit import grown
from traceanalyzer import sections
from traceanalyzer.formats import language, render, terminal
from traceanalyzer.formats.terminal.elements import LEVELS, LINES, attempts, cut, paragraph, wrap
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Fact, Section, SectionColumn, SectionTable
from traceanalyzer.sections.outcome import first

EN = language.of("en")


def check(screen: str) -> None:
    lines = screen.splitlines()
    assert max(map(cell_len, lines)) <= 80
    assert len(lines) <= LINES
    assert controls(screen) <= {"\n"}
    assert not [line for line in lines if line != line.rstrip()]


def screen(shown: list[Section], width: int = 80, lines: int | None = LINES) -> str:
    return terminal.plain(
        lambda stream: terminal.show_sections(lambda _: "Title", shown, stream, width=width, lines=lines, plain=True)
    )


# One screen


@pytest.mark.corpus
@in_turn
def test_traces_of_the_corpus_fit(corpus: Path, corpus_name: str, turn: int) -> None:
    report = corpus_files.report_of(corpus / "corpus" / f"{corpus_name}.json.gz")
    text = render(report, "terminal", None, spoken(corpus_name, turn))
    check(text)
    for finding_ in first(report.findings):
        assert spoken(corpus_name, turn).say(finding_.action or finding_.title)[:20] in text.replace("\n", "")


@pytest.mark.parametrize("name", ["plain", *HOSTILE[:12], "x" * 100_000, "核心" * 50_000], ids=lambda n: ascii(n)[:25])
def test_thousands_of_everything_fit(name: str) -> None:
    text = render(grown(name, 2000), "terminal")
    check(text)
    assert "\nWhat to change\n" in text
    assert "\nStep time" in text
    assert "2,003 more findings are in the other formats." in text


@given(names, st.integers(0, 20), st.sampled_from(language.CODES))
def test_any_report_fits(name: str, count: int, code: str) -> None:
    check(render(grown(name, count), "terminal", None, language.of(code)))


def test_who_asks_for_more_rows_gets_them() -> None:
    report = grown("plain", 50)
    assert len(render(report, "terminal", 40).splitlines()) > LINES


def test_what_is_worth_most_is_cut_last() -> None:
    rows = tuple((f"operator_{n}", n) for n in range(30))
    columns = (SectionColumn(say("Name"), "", is_name=True), SectionColumn(say("Calls"), "count"))
    table = SectionTable("x", columns, rows, 90)
    shown = [Section("overview", say("Step time"), messages=(say("A step."),), is_essential=True)]
    shown += [Section(f"s{n}", say(f"Section {n}"), tables=(table,)) for n in range(30)]
    shown += [Section("warnings", say("Warnings"), messages=(say("Beware."),), is_essential=True)]
    text = screen(shown)
    check(text)
    assert "Section 0  2 of 90" in text
    assert text.index("Step time") < text.index("Section 0") < text.index("Warnings")
    assert "Section 29" not in text.partition("More in the other formats")[0]
    assert "More in the other formats: Section " in text
    assert "Section 29  30 of 90\n" in screen(shown, lines=None)


def test_every_attempt_shows_no_more_than_the_one_before() -> None:
    shown = sections.build(advised(report_of(TRAINING)), 5)
    sizes = [sum(len(t.rows) for s in kept for t in cut(s, level).tables) for level, kept, _ in attempts(tuple(shown))]
    assert sizes == sorted(sizes, reverse=True)
    assert LEVELS[0] == next(attempts(tuple(shown)))[0]


def test_no_title_stands_alone() -> None:
    table = SectionTable("x", (SectionColumn(say("Name"), ""),), (("a row",),), 1)
    facts = (Fact(say("Program"), say("training"), "", is_essential=True),)
    shown = [Section(f"s{n}", say(f"Section {n}"), tables=(table,)) for n in range(30)]
    shown.insert(1, Section("recording", say("What was recorded"), facts=facts, is_essential=True))
    assert "What was recorded\n  Program: training\n" in screen(shown)
    text = screen(shown, lines=5)
    assert "\nWhat was recorded\n" not in text
    assert "More in the other formats: Section 0, What was recorded, Section 1," in text.replace("\n", " ")


def test_a_brief_finding_has_its_saving_and_its_line_of_code() -> None:
    found = [finding(f"rule-{n}", f"Number {n}", code=f"fix({n})\nmore({n})") for n in range(3)]
    found[2] = replace(found[2], code=None)
    report = replace(grown("plain", 30), findings=tuple(found))
    text = render(report, "terminal")
    check(text)
    assert "Advice: Number 0" not in text
    for n in range(2):
        assert f"{n + 1}. Title: Number {n}\n     Saves 100-130 ms per step" in text
        assert f"     fix({n})\n" in text
        assert f"more({n})" not in text
    assert "     Advice: Number 2\n" in text


# Columns


def test_columns_that_do_not_fit_are_counted_and_numbers_stay_whole() -> None:
    columns = (
        SectionColumn(Text("x-metric", "Per step"), ""),
        *(SectionColumn(say(f"Run {n}"), "ns") for n in range(40)),
    )
    rows = (("Host", *range(10**9, 10**9 + 40)), ("Device", *range(10**9, 10**9 + 40)))
    text = screen([Section("runs", say("Runs"), tables=(SectionTable("runs", columns, rows, 2),))])
    check(text)
    shown = text.count("1.000 s") // 2
    assert 2 < shown < 10
    assert f"{40 - shown} more columns are in the other formats." in text


def test_bars_give_way_to_numbers() -> None:
    shown = [replace(s, messages=(), facts=()) for s in sections.build(report_of(TRAINING), 5) if s.parts]
    text = screen(shown, width=40)
    assert max(map(cell_len, text.splitlines())) <= 40
    for part in shown[0].parts:
        assert part.share < 0.005 or EN.quantity(part.value, {"ns": "plain_ns"}[part.unit]) in text


def test_a_log_file_has_no_blanks_at_the_ends_and_no_boxes() -> None:
    log = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    terminal.show(advised(report_of(TRAINING)), log)
    log.flush()
    text = log.buffer.getvalue().decode()  # type: ignore[attr-defined]
    check(text)
    assert text == render(advised(report_of(TRAINING)), "terminal")
    assert not [c for c in text if "\u2500" <= c <= "\u257f"]


def test_a_fact_with_a_long_value_is_one_line() -> None:
    text = screen([Section("x", say("X"), facts=(Fact(Text("x-fact", "Fact"), "核" * 1000, ""),))])
    assert len(text.splitlines()) == 4


def test_an_unknown_severity_is_shown_as_it_is() -> None:
    report: Report = replace(
        advised(report_of(TRAINING)), findings=(finding("x", severity="d\x1bire", confidence="Z"),)
    )
    assert "\x1b" not in render(report, "terminal")
    assert "d\ufffdire" in render(report, "markdown")


# Lines


@given(
    st.text(st.one_of(st.sampled_from("ab 核心，。（《》 "), st.characters(exclude_categories=["C", "M"]))),
    st.integers(2, 30),
)
def test_lines_are_no_wider_and_lose_nothing(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert all(cell_len(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


@given(st.text(st.sampled_from("abc "), max_size=80), st.integers(3, 20))
def test_words_are_cut_only_where_they_are_longer_than_a_line(text: str, width: int) -> None:
    kept = {word for word in text.split() if len(word) <= width}
    assert kept <= {word for line in wrap(text, width) for word in line.split()}


def test_chinese_breaks_between_characters() -> None:
    assert wrap("GPU 在等待主机启动小核函数", 12) == ["GPU 在等待主", "机启动小核函", "数"]
    assert wrap("受限于主机：每步中有（一）", 10) == ["受限于主", "机：每步中", "有（一）"]
    assert wrap("a b", 1) == ["a", "b"]
    assert wrap("", 10) == [""]


def test_a_number_keeps_its_unit_on_the_line() -> None:
    assert wrap("it takes 94\u00a0%", 12) == ["it takes", "94\u00a0%"]
    assert paragraph("it takes 94\u00a0%", 12).plain == "it takes\n94 %"
    assert paragraph("it takes 94 %", 12).plain == "it takes\n94 %"
    assert paragraph("takes 2.5 ms.", 12).plain == "takes\n2.5 ms."
    assert paragraph("of 12 steps is", 8).plain == "of 12\nsteps is", "no unit"
    assert paragraph("it\u00a0\x1b takes\u00a0\u00a0it", 40).plain == "it \ufffd takes  it"


def test_a_title_says_how_many_rows_are_not_shown() -> None:
    columns = (SectionColumn(say("Name"), "", is_name=True),)
    some = SectionTable("x", columns, (("a",), ("b",)), 9)
    every = SectionTable("y", columns, (("a",), ("b",)), 2)
    text = screen([Section("x", say("Some"), tables=(some,)), Section("y", say("Every"), tables=(every,))])
    assert "Some  2 of 9\n" in text
    assert "Every\n" in text


def test_rows_are_taken_away_one_by_one() -> None:
    """A language with longer words shows nearly as many rows as English."""
    kept = [level.rows for level in LEVELS if level.rows is not None]
    assert kept == [4, 3, 2, 2], "the last one shows fewer messages"
