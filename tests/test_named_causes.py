"""The score of docs/agents.md: its rule by hand, and rows of the page that this version still gives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from examples.lab.catalogue import BY_NAME
from scripts import named_causes
from scripts.named_causes import RUNS, WORDS, Named, asked, counts, has_word, named, row

PAGE = (Path(__file__).parents[1] / "docs" / "agents.md").read_text("utf-8")
TABLE = """
-----------  ------------
       Name      # of Calls
-----------  ------------
 aten::add_             3
aten::item              9
-----------  ------------
Self CPU time total: 1.000ms
"""


@pytest.mark.parametrize(
    ("words", "is_there"), [(("aten::item",), True), (("*item*",), True), (("aten::add",), False), ((), False)]
)
def test_a_word_is_the_name_of_a_row(words: tuple[str, ...], is_there: bool) -> None:
    assert has_word(TABLE.lstrip("\n"), words) == is_there


def test_every_program_that_is_scored_has_words_and_there_are_more_than_twenty() -> None:
    for run in RUNS:
        faults = [fault.name for fault in asked(run)]
        assert len(faults) >= 20
        assert set(faults) <= WORDS.keys()
        assert f"named, of {len(faults)} |" in PAGE
    assert set(WORDS) <= BY_NAME.keys()


def test_what_is_counted() -> None:
    told, fixed = Named(1, False, True, False, (10, 20)), Named(None, False, True, False, (12, 8))
    assert counts([(told, fixed), (fixed, fixed)]) == (
        "the brief: 1 of 2, of which 1 no longer after the fix; the first 10 rows: 2 of 2, of which 0 no longer after "
        "the fix; 100 rows: 0 of 2, of which 0 no longer after the fix. First in the brief: 1. Most characters: 12 and "
        "20."
    )


@pytest.mark.parametrize("name", ["item-logging", "clones", "redundant-passes", "zero-grad-fill"])
def test_a_row_of_the_page_is_what_this_version_says(name: str) -> None:
    fault = BY_NAME[name]
    assert row(fault, *(named(fault, side, "eighth") for side in ("before", "after"))) in PAGE.splitlines()


def test_the_page_counts_its_rows() -> None:
    rows = re.findall(r"^\| `(.+?)` \| .* \| (.+) \| (.+) \| (.+) \|$", PAGE, re.MULTILINE)
    rows = [row for row in rows if row[0] in WORDS]
    assert [row[0] for row in rows] == [fault.name for fault in asked("eighth")]
    found = [sum(row[column] not in ("-", "one line") for row in rows) for column in (1, 2, 3)]
    told = [
        sum(row[column] not in ("-", "one line") and "after" not in row[column] for row in rows) for column in (1, 2, 3)
    ]
    assert f"| H200: named, of {len(rows)} | {found[0]} | {found[1]} | {found[2]} |" in PAGE
    assert PAGE.index(f"| and no longer after the fix | {told[0]} | {told[1]} | {told[2]} |")
    assert named_causes.TOP == 10
