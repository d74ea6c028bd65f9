"""What GitHub and GitLab make of texts: nothing but texts."""

from __future__ import annotations

import html
from functools import cache

import pytest
from hypothesis import given
from markdown_it import MarkdownIt
from msgspec.structs import replace

from tests.formats import readback
from tests.formats.html.advised import advised, finding
from tests.formats.samples import HOSTILE, TRAINING, marked, names, report_of
from traceanalyzer.formats import render
from traceanalyzer.formats.markdown.page import escape, fenced, prose, raw, span
from traceanalyzer.report.names import clean, clipped, code_parts, shorten

_GFM = MarkdownIt("gfm-like", {"html": True, "linkify": False})
BLANK = "\u200b"


@cache
def said_everywhere(name: str) -> str:
    """A report in which every text is this one."""
    return render(advised(marked(name), name), "markdown")


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: ascii(name)[:30])
def test_hostile_findings_stay_findings(name: str) -> None:
    text = said_everywhere(name)
    readback.check_structure(text)
    plain = "plain".ljust(min(len(name), 10_000), "n")  # as long: what leaves no room leaves out texts
    benign = said_everywhere(plain)
    kinds = [[(t.type, t.tag) for t in readback.tokens(document)] for document in (text, benign)]
    links = [document.count("<https://") for document in (text, benign)]
    assert links[0] == links[1]
    assert kinds[0] == kinds[1]
    assert "javascript:alert(1)>" not in text


@pytest.mark.parametrize(
    "text",
    [
        "- item",
        "+ item",
        "1. item",
        "2) item",
        "---",
        "===",
        "/close",
        "/label ~bug",
        "> quote",
        "# head",
        "* x",
        "_ _ _",
    ],
)
def test_a_paragraph_stays_a_paragraph(text: str) -> None:
    kinds = [token.type for token in _GFM.parse(f"Before.\n\n{escape(text)}\n")]
    assert kinds == ["paragraph_open", "inline", "paragraph_close"] * 2
    assert not escape(text).startswith(("/", "-", "+", "="))


@pytest.mark.parametrize(
    "text", ["-12.5 ms", "1.5 ms", "-o report.html", "12:30", "50 % of it", "std::a::b", "a-b+c=d"]
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert escape(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "@me",
        "a@example.com",
        "#1",
        "org/repo#12",
        "!5",
        "~label",
        "%12",
        "$3",
        ":fire:",
        "http://x",
        "ftp://x",
        "www.x.org",
    ],
)
def test_nothing_is_left_that_a_forge_would_link(text: str) -> None:
    for written in (escape(text), raw(text)):
        shown = html.unescape(written.replace("\\", ""))
        assert BLANK in shown
        assert shown.replace(BLANK, "") == text


@given(names)
def test_html_shows_text_as_it_was(text: str) -> None:
    document = f"<details>\n<summary>{raw(text)}</summary>\n\n</details>\n"
    opened, closed = _GFM.parse(document)
    assert opened.content == document.split("\n\n", maxsplit=1)[0] + "\n"
    assert closed.content == "</details>\n"
    inner = opened.content.split("<summary>")[1].rsplit("</summary>")[0]
    assert "<" not in inner
    assert html.unescape(inner).replace(BLANK, "") == clean(text)


@given(names)
def test_spans_are_read_as_they_were(text: str) -> None:
    name = clean(text)
    children = _GFM.parse(f"x {span(name)} y")[1].children or []
    assert [child.content for child in children if child.type == "code_inline"] == ([name] if name else [])


def test_code_in_a_sentence_is_code() -> None:
    assert prose("While it waits, `a_b.py: <f>` takes 3 ms.") == "While it waits, `a_b.py: <f>` takes 3 ms."
    assert prose("1. `a|b` and ` alone") == r"1\. \`a\|b\` and \` alone"


@given(names, names)
def test_sentences_are_read_as_they_were(first: str, second: str) -> None:
    text = clean(f"x `{first}` `{second}` {first}`{second}` y")
    children = _GFM.parse(prose(text))[1].children or []
    assert {child.type for child in children} <= {"text", "text_special", "code_inline"}
    shown = "".join(child.content for child in children)
    assert shown.replace(BLANK, "") == "".join(code_parts(text)).replace(BLANK, "")


@given(names, names)
def test_a_block_of_code_ends_where_it_ends(first: str, second: str) -> None:
    code = f"if x:\n    {first}\n```\n~~~\n{second}\n</details>"
    block, after = fenced(code), "After."
    tokens = _GFM.parse(f"{block}\n\n{after}\n")
    assert [token.type for token in tokens] == ["fence", "paragraph_open", "inline", "paragraph_close"]
    assert tokens[0].content.endswith("</details>\n")
    assert tokens[0].info == "python"


def test_code_keeps_its_lines() -> None:
    text = render(
        replace(advised(report_of(TRAINING)), findings=(finding("x", code="with a:\n    b()\n"),)), "markdown"
    )
    assert "```python\nwith a:\n    b()\n" in text


def test_places_say_what_they_are() -> None:
    text = render(advised(report_of(TRAINING)), "markdown")
    assert "  - Step `7`\n" in text
    assert "  - Operator `Plain words`: \\[\\[8, 8\\], Plain words\\], 12.00 ms, at 1.500 us\n" in text


@given(names)
def test_clipped_is_cleaned_and_shortened(name: str) -> None:
    assert clipped(name, 300) == shorten(clean(name), 300)
    assert len(clipped(name * 5000, 20)) <= 20
