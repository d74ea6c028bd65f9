"""Tables of other tools whose lines a terminal cut at its width, or a mail broke between words."""

from __future__ import annotations

import textwrap

import pytest

from tests.readers.forms import examples
from tests.readers.forms.test_forms import document_of

TABLES = {"nsys": examples.NSYS, "nvprof": examples.NVPROF, "cprofile": examples.CPROFILE}


def cut(text: str, width: int) -> str:
    """The text as a terminal of this width shows it."""
    return "".join(
        line[at : at + width] + "\n" for line in text.splitlines() for at in range(0, max(1, len(line)), width)
    )


def broken(text: str, width: int) -> str:
    """The text with lines broken between words."""
    return "".join(
        part + "\n"
        for line in text.splitlines()
        for part in (textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False) or [""])
    )


def rows(text: str) -> list[tuple[str, int | None, int | None]]:
    return [
        ("".join(row.name.split()), row.cpu_total_ns or row.self_device_ns, row.calls)
        for table in document_of(text).tables
        for row in table.rows
    ]


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("width", [60, 80])
def test_cut_lines_have_the_same_rows(name: str, width: int) -> None:
    assert rows(cut(TABLES[name], width)) == rows(TABLES[name])


@pytest.mark.parametrize("name", ["cprofile"])
@pytest.mark.parametrize("width", [80, 100])
def test_lines_broken_between_words_have_the_same_rows(name: str, width: int) -> None:
    assert rows(broken(TABLES[name], width)) == rows(TABLES[name])
