"""Titles and sections that people and programs write above their tables."""

from __future__ import annotations

import pytest

from traceanalyzer.readers.key_averages import read
from traceanalyzer.trace.document import ProfilerTable

DASHES = "-------------  ------------  ------------  ------------"
TABLE = f"""\
{DASHES}
         Name      Self CPU     CPU total    # of Calls
{DASHES}
    aten::add       1.000ms       1.000ms             3
{DASHES}
Self CPU time total: 1.000ms
"""


def tables(text: str) -> tuple[ProfilerTable, ...]:
    return read(text, "text", None).tables


@pytest.mark.parametrize(
    ("above", "title"),
    [
        ("", None),
        ("print(prof.key_averages().table())\n", None),
        ("==== By time ====\n", "By time"),
        ("==== By time ====\n\n", "By time"),
        ("----- Captured stdout call -----\n", "Captured stdout call"),
        ("By time\n=======\n", "By time"),
        ("By time\n-------\n", "By time"),
        ("By time\n~~~~~~~\n\nsome words\n", "By time"),
        ("=========\nBy time\n=========\n", "By time"),
        ("# By time\n\n", "By time"),
        ("### **By time**\n```\n", "By time"),
        ("> ## By time\n", "By time"),
        ("<summary><b>By time</b></summary>\n", "By time"),
        ("<summary>\nBy time\n</summary>\n", "By time"),
        ("<h2>By time</h2>\n<pre>\n", "By time"),
        ("\x1b[1m== By time ==\x1b[0m\n==== By time ====\n", "By time"),
        ("Profile stats for: records\n", "Profile stats for: records"),
        (f"{'=' * len(DASHES)}\nBy time\n", "By time"),
        (f"{'=' * len(DASHES)}\nBy\ntime\n", "By time"),
        ("x = 1\n# a comment\ny = 2\n", None),
        ("```python\n\n# a comment\n\n```\n", None),
        ("x = 1\n\n    # a comment\n\n", None),
        ("# Far\n\n==== Near ====\n", "Near"),
        ("==== Far ====\n\n# Near\n\n", "Near"),
        ("-----\n\n", None),
    ],
)
def test_titles(above: str, title: str | None) -> None:
    (table,) = tables(above + TABLE)
    assert table.title == title


def test_a_title_is_for_one_table_and_a_section_for_all() -> None:
    text = f"# Before\n\n==== By time ====\n{TABLE}{TABLE}\n# After\n\n{TABLE}"
    assert [table.title for table in tables(text)] == ["By time", "Before", "After"]
    assert [table.section for table in tables(text)] == ["Before", "Before", "After"]


@pytest.mark.parametrize("header", ["", f"{'=' * len(DASHES)}\nBy time\n"])
def test_note_of_nested_events(header: str) -> None:
    note = f"{'=' * len(DASHES)}\nThis report only display top-level ops statistics\n"
    (table,) = tables(header + note + TABLE)
    assert (table.top_level_only, table.title) == (True, "By time" if header else None)
    assert not tables(TABLE)[0].top_level_only


def test_fences_between_tables_are_followed() -> None:
    text = f"```\n{TABLE}```\n\n# Between\n\n```\n# no heading\n{TABLE}```\n"
    assert [table.title for table in tables(text)] == [None, "Between"]
