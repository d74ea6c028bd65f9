"""Texts that would take minutes if any step were more than linear, and texts in other encodings."""

from __future__ import annotations

import codecs

import pytest
from test_table_headings import DASHES, TABLE

from traceanalyzer.readers.key_averages import decode, read, sniff

HEAD = "\n".join(TABLE.splitlines()[:3]) + "\n"
SIZE = 300_000
REPEATED = [
    "-",
    "- ",
    "-- ",
    "--- ",
    "--- ---\n",
    " ",
    "\n",
    "\t",
    "\x1b[",
    "\x1b[0",
    "\x1b]",
    "<pre ",
    "&#0",
    "a ",
    "1",
    "0% ",
    "[",
]


@pytest.mark.parametrize("unit", [*REPEATED, "# a\n", "a\n===\n", "Name Self CPU CPU total\n--- ---\n", HEAD])
@pytest.mark.parametrize("head", ["", HEAD, HEAD + "    aten::add       1.000ms       1.000ms             3  "])
def test_repetition_is_read_in_linear_time(unit: str, head: str) -> None:
    text = head + unit * (SIZE // len(unit))
    sniff(text)
    assert read(text, "text", None).name == "text"


def test_each_table_is_read_once() -> None:
    assert len(read(TABLE * 500, "text", None).tables) == 500


@pytest.mark.parametrize(
    "data",
    [
        TABLE.encode(),
        codecs.BOM_UTF8 + TABLE.encode(),
        codecs.BOM_UTF16_LE + TABLE.encode("utf-16-le"),
        codecs.BOM_UTF16_BE + TABLE.encode("utf-16-be"),
        b"\xff\xfe\xfd"[2:] + b"\n" + TABLE.encode(),
    ],
)
def test_encodings(data: bytes) -> None:
    assert sniff(data)
    (table,) = read(decode(data), "text", len(data)).tables
    assert [row.name for row in table.rows] == ["aten::add"]


def test_size_and_name_are_kept() -> None:
    document = read("", "notes.md", 7)
    assert (document.name, document.size_bytes, document.tables) == ("notes.md", 7, ())


def test_a_number_at_the_end_of_a_cut_text_may_lack_digits() -> None:
    rows = TABLE.splitlines()[:4]
    (whole,) = read("\n".join(rows) + "\n", "text", None).tables
    assert whole.rows[0].calls == 3
    collapsed = "\n".join([*rows[:3], " ".join(rows[3].split())])
    (cut,) = read(collapsed, "text", None).tables
    assert (cut.rows[0].cpu_total_ns, cut.rows[0].calls) == (1_000_000, None)


def test_a_closing_line_of_another_table_does_not_close() -> None:
    rows = "\n".join(TABLE.splitlines()[:4])
    text = f"{rows}\nwords\nPackage    Version\n---------- -------\nnumpy      2.1.0\n"
    (table,) = read(text, "text", None).tables
    assert [loss.id for loss in table.losses] == ["read-table-cut"]
    assert DASHES not in table.rows[0].name


def test_a_table_without_rows_is_counted() -> None:
    document = read(HEAD + "\nwords\n", "text", None)
    assert [(loss.id, loss.count) for loss in document.losses] == [("read-table-empty", 1)]


@pytest.mark.parametrize("name", ["Cache Hits", "Node ID", "Total MFLOPs", "Source Location"])
def test_any_cut_of_any_column_is_read(name: str) -> None:
    """A column without a reader of its own must not be asked for a value."""
    lines = [
        f"{line.ljust(len(DASHES))}  {text}"
        for line, text in zip(HEAD.splitlines(), ["-" * 15, name, "-" * 15], strict=True)
    ]
    text = "\n".join([*lines, f"{TABLE.splitlines()[3]}               7  "])
    found = [table for end in range(len(text)) for table in read(text[:end], "text", None).tables]
    assert found
    for table in found:
        assert [row.name for row in table.rows] == ["aten::add"]


@pytest.mark.parametrize(("strangers", "rows"), [(5, 2), (6, 1)])
def test_rows_after_a_few_other_lines_still_belong(strangers: int, rows: int) -> None:
    lines = TABLE.splitlines()
    (table,) = read("\n".join([*lines[:4], *["words"] * strangers, *lines[3:]]), "text", None).tables
    assert len(table.rows) == rows
    assert table.complete == (rows == 2)
    assert table.losses[0].count == (strangers if rows == 2 else 1)
