"""How a difference looks: short enough for a comment, safe with hostile names, 80 columns, any language."""

from __future__ import annotations

import json
import re
import unicodedata
from functools import cache

import pytest
from rich.cells import cell_len
from sides import QUIET, report, training

from tests.formats import readback
from tests.formats.samples import HOSTILE
from traceanalyzer.comparison import diff
from traceanalyzer.errors import UsageError
from traceanalyzer.formats import language
from traceanalyzer.formats.difference import answer
from traceanalyzer.report.difference import Difference

SLOWER = [round(1.2 * us) for us in QUIET]
LIMIT = 65_000
LONG = ("a" * 400, "\U0001f600" * 400, "|" * 400, "<&>_*" * 80)


@cache
def compared(name: str = "plain", more: int = 0) -> Difference:
    """Kernels and operators with a name, and many more of them."""
    kernels = {f"{name}_kernel": 1000} | {f"{name}{i}": 20 for i in range(more)}
    operators = {f"{name}_op": 50} | {f"{name}_op{i}": 5 for i in range(more)}
    changed = {f"{name}_kernel": 3000} | {f"{name}{i}": 90 for i in range(more)}
    base = training(kernels=kernels, operators=operators)
    head = training(SLOWER, kernels=changed, operators={key + "+": us + 30 for key, us in operators.items()})
    return diff(report(base), report(head), limit=0.03)


def controls(text: str) -> set[str]:
    kinds = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    return {character for character in text if unicodedata.category(character) in kinds} - {"\n", "\u200b"}


def as_report(markdown: str) -> str:
    """The checks of reports expect the mark of a report."""
    assert markdown.startswith("<!-- traceanalyzer diff ")
    return markdown.replace("traceanalyzer diff", "traceanalyzer report", 1)


def test_markdown_tells_the_answer_first_and_folds_the_rest() -> None:
    text = as_report(answer(compared()).render("markdown"))
    readback.check_structure(text)
    parts = readback.parts(text)
    titles = list(parts)
    assert "Slower: 100 \u2192 120 ms per step (+20 %)" in titles[0]
    assert titles[1:3] == ["Measurements", "Slower"]
    assert "beyond the limit of 3.00 %" in " ".join(parts["Slower"].paragraphs)
    assert {row["Per step"] for row in parts["Step time"].rows()} == {"Mean", "Median"}
    assert parts["Measurements"].is_folded
    folded = text.partition("<details>")[2].partition("</details>")[0]
    assert "### Operators by input shapes, self time per step" in folded
    kernels = {row["Name"]: row for row in parts["Kernels, time per step"].rows()}
    assert kernels["plain_kernel"]["Change"] == "+2.000 ms"


@pytest.mark.parametrize("name", [*HOSTILE, *LONG], ids=lambda name: ascii(name)[:30])
def test_hostile_names_change_nothing(name: str) -> None:
    found = compared(name)
    text = as_report(answer(found).render("markdown"))
    readback.check_structure(text)
    plain = as_report(answer(compared()).render("markdown"))
    assert readback.skeleton(text) == readback.skeleton(plain)
    screen = answer(found).render("terminal")
    assert not controls(text)
    assert not controls(screen)
    assert max(map(cell_len, screen.split("\n"))) <= 80


@pytest.mark.parametrize("name", ["k", *LONG], ids=lambda name: ascii(name)[:10])
@pytest.mark.parametrize("top", [None, 100_000])
def test_markdown_fits_a_comment_whatever_changed(name: str, top: int | None) -> None:
    text = answer(compared(name, more=150)).render("markdown", top)
    assert len(text) < LIMIT
    readback.check_structure(as_report(text))


def test_everything_is_in_the_json() -> None:
    found = compared(more=150)
    document = json.loads(answer(found).render("json"))
    assert document["generator"]["name"] == "traceanalyzer"
    assert len(next(r for r in document["rankings"] if r["key"] == "kernels")["rows"]) == 151
    assert answer(found).render("json") == answer(compared(more=150)).render("json")


def test_rows_of_each_table() -> None:
    rows = [len(readback.parts(answer(compared(more=30)).render("markdown", top))["Kernels, time per step"].rows())
            for top in (3, None)]  # fmt: skip
    assert rows == [3, 20]


def test_an_unknown_format_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="docx"):
        answer(compared()).render("docx")


@pytest.mark.parametrize("code", ["ru", "zh"])
def test_other_languages_write_their_numbers(code: str) -> None:
    spoken = language.of(code)
    text = answer(compared(), spoken).render("markdown")
    assert len(text) < LIMIT
    readback.check_structure(as_report(text))
    assert answer(compared(), spoken).render("terminal")


def test_texts_are_collected_once_each() -> None:
    """Ids of texts of a difference begin with diff-, so that catalogs group them."""
    found = compared()
    ids = [found.verdict.reason.id, *(n.id for n in found.notes), *(c.message.id for c in found.comparability.checks)]
    assert all(re.fullmatch(r"diff-[a-z-]+", id_) for id_ in ids)
