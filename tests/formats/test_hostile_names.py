"""Names out of a file change neither the structure of a report nor the state of a terminal."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.cells import cell_len

from tests.formats import readback
from tests.formats.samples import HOSTILE, marked, names, unmarked
from tests.reading import plain, read
from traceanalyzer.formats import render
from traceanalyzer.formats.markdown import code, escape
from traceanalyzer.formats.terminal import TOP
from traceanalyzer.formats.terminal.elements import LINES
from traceanalyzer.knowledge.marks import is_mark_among_operators
from traceanalyzer.pipeline import analyze
from traceanalyzer.report.model import Report
from traceanalyzer.report.names import clean, shorten

PLAIN = "plain_name"
LINKS = re.compile(r"(?<![\w`])[@#](?=[\w-])|https?://|www\.(?=\w)", re.IGNORECASE)
"""What GitHub and GitLab make links or notifications of wherever it stands in text, escaped or not."""
MAKERS = {"marked": marked, "unmarked": unmarked}
KINDS = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
every_hostile_name = pytest.mark.parametrize("name", HOSTILE, ids=lambda name: ascii(name)[:30])
both_traces = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())


def controls(text: str) -> set[str]:
    """Characters that a terminal or an editor acts upon instead of showing them."""
    return {character for character in text if unicodedata.category(character) in KINDS}


def shown_as_code(markdown: str) -> set[str]:
    return {token.content for token in readback.inline(markdown) if token.type == "code_inline"}


Make = Callable[[str], Report]


@cache
def benign(make: Make, name: str, form: str, top: int | None = None) -> str:
    """A report in which nothing is hostile, which all hostile ones are compared with."""
    return render(make(name), form, top)


@cache
def benign_skeleton(make: Make, name: str) -> list[tuple[str, str, str]]:
    return readback.skeleton(benign(make, name, "markdown"))


def check_markdown(make: Make, name: str, harmless: str) -> None:
    text = render(make(name), "markdown")
    readback.check_structure(text)
    assert readback.skeleton(text) == benign_skeleton(make, harmless)
    assert controls(text) <= {"\n", "\u200b"}
    expected = shorten(clean(name), 100)
    assert not expected or expected in shown_as_code(text)
    assert not LINKS.findall(readback.prose(text))


def check_terminal(make: Make, name: str) -> None:
    screen, whole = (render(make(name), "terminal", top) for top in (None, TOP))
    for text in (screen, whole):
        assert controls(text) <= {"\n"}
        assert max(map(cell_len, text.split("\n"))) <= 80
    assert len(screen.splitlines()) <= LINES
    numbers = re.compile(r"\d[\d,.]* (?:[mun]?s|%)")
    table = "\nOperators by device self time\n"
    rows, plain = (
        text.split(table)[1].split("\n\n")[0].split("\n")[1:] for text in (whole, benign(make, PLAIN, "terminal", TOP))
    )
    assert [numbers.findall(row)[-3:] for row in rows] == [numbers.findall(row)[-3:] for row in plain]
    begin = clean(name)[:6]
    assert any(begin in row for row in rows)


# Markdown


@both_traces
@every_hostile_name
def test_markdown_keeps_its_structure(make: Make, name: str) -> None:
    # An operator with a name that no operator has is a mark, and marks have a section of their own.
    check_markdown(make, name, "plain name" if is_mark_among_operators(name) else PLAIN)


@given(names)
def test_markdown_keeps_its_structure_whatever_the_name(name: str) -> None:
    check_markdown(marked, name, PLAIN)


@given(names)
def test_escaped_text_is_read_as_it_was(text: str) -> None:
    document = f"Label: {escape(text)} end\n\n| {escape(text)} | x |\n| --- | --- |\n| {escape(text)} | y |\n"
    paragraph, head, _, cell, _ = (token for token in readback.tokens(document) if token.type == "inline")
    for token in (paragraph, head, cell):
        assert {child.type for child in token.children or []} <= {"text"}
    seen = [readback.text_of(token).replace("\u200b", "") for token in (paragraph, head, cell)]
    assert seen == [f"Label: {clean(text)} end".replace("  ", " "), clean(text), clean(text)]


@given(names)
def test_code_is_read_as_it_was(text: str) -> None:
    name = clean(text)
    document = f"| {code(name)} | x |\n| --- | --- |\n| {code(name)} | y |\n"
    readback_cells = [token for token in readback.tokens(document) if token.type == "inline"]
    assert len(readback_cells) == 4
    assert [readback.text_of(token) for token in readback_cells] == [name, "x", name, "y"]


def test_the_check_would_see_a_link() -> None:
    """The parser of these tests finds what a format without care would let through."""
    careless = MarkdownIt("gfm-like", {"html": True, "linkify": False})
    kinds = {child.type for token in careless.parse("[a](b) <i>x</i> `c` **d**") for child in token.children or []}
    assert {"link_open", "html_inline", "strong_open"} <= kinds
    for text in ("see @everyone", "fixes #1", "http://example.com", "www.example.com"):
        assert LINKS.search(text)


# Terminal


@both_traces
@every_hostile_name
def test_the_terminal_shows_lines_of_text(make: Make, name: str) -> None:
    check_terminal(make, name)


@given(names)
def test_the_terminal_shows_lines_of_text_whatever_the_name(name: str) -> None:
    check_terminal(marked, name)


# JSON and broken texts


@every_hostile_name
def test_json_holds_names_as_they_are(name: str) -> None:
    rows = plain(marked(name))["operators"]["rows"]
    assert name in {row["name"] for row in rows}


@pytest.mark.parametrize("form", ["terminal", "markdown", "json"])
@pytest.mark.parametrize("broken", [b"\\ud800x", b"\xff\xfex", b"\xed\xa0\x80x"], ids=["escaped", "bytes", "half"])
def test_half_characters_are_replaced(broken: bytes, form: str) -> None:
    event = b'{"ph": "X", "cat": "cpu_op", "name": "%s", "pid": 1, "tid": 1, "ts": 1, "dur": 5, "args": {}}' % broken
    text = render(analyze(read(b'{"traceEvents": [' + event + b"]}")), form)
    assert text.encode("utf-8")
    assert "x" in text


# Cleaning and shortening


@given(names)
def test_a_clean_name_is_one_line_of_visible_text(name: str) -> None:
    safe = clean(name)
    assert not controls(safe)
    assert safe == safe.strip()
    assert "  " not in safe
    assert clean(safe) == safe


@given(st.text(st.characters(codec="ascii", exclude_categories=["Cc"])))
def test_visible_names_only_lose_blanks(name: str) -> None:
    assert clean(name) == " ".join(name.split())


@given(st.text(), st.integers(min_value=4, max_value=60))
def test_a_short_name_is_the_beginning_and_the_end(name: str, width: int) -> None:
    short = shorten(name, width)
    assert len(short) <= width
    if len(name) <= width:
        assert short == name
    else:
        begin, end = short[: short.index("...")], short[len(short) - (width - 3) // 3 :]
        assert name.startswith(begin)
        assert not end or name.endswith(end)
        assert "..." in short
