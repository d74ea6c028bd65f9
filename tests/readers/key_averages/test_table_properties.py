"""What is printed is read back, whatever the columns, and whatever happened to the text on its way."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from table_generator import HARMLESS, LOSSY, OLD_STYLE, STYLES, tables, unnumbered
from table_writer import Style, write_table

from traceanalyzer.readers.key_averages import read, sniff
from traceanalyzer.trace.document import ProfilerTable, TableDocument, TableRow


def parsed(text: str) -> TableDocument:
    return read(text, "text", None)


@pytest.mark.parametrize("change", HARMLESS)
@given(table=tables(), style=STYLES)
def test_tables_are_read_back(change: str, table: ProfilerTable, style: Style) -> None:
    # Frames beyond their column leave open how many pieces make a row.
    assume(change != "wrapped at 80" or not {"source_location", "flops"} <= set(table.columns))
    text = HARMLESS[change](write_table(table, style))
    found = parsed(text)
    assert not found.losses
    assert [unnumbered(t) for t in found.tables] == [table]
    assert sniff(text)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("colours", "time stamps"),
        ("HTML", "time stamps"),
        ("time stamps", "no trailing blanks"),
        ("no trailing blanks", "quotation"),
        ("no-break blanks", "indentation"),
        ("code block", "quotation"),
        ("quotation", "CRLF"),
        ("notebook", "CRLF"),
        ("full-width blanks", "wrapped at 80"),
    ],
)
@given(table=tables())
def test_two_changes_at_once(first: str, second: str, table: ProfilerTable) -> None:
    assume(not {"source_location", "flops"} <= set(table.columns))
    found = parsed(HARMLESS[second](HARMLESS[first](write_table(table))))
    assert not found.losses
    assert [unnumbered(t) for t in found.tables] == [table]


@given(table=tables(old=True))
def test_tables_of_old_releases_are_read_back(table: ProfilerTable) -> None:
    found = parsed(write_table(table, OLD_STYLE))
    assert not found.losses
    assert [unnumbered(t) for t in found.tables] == [table]


@pytest.mark.parametrize("change", LOSSY)
@given(table=tables(words=["aten::mul", "void f<4>", "модель"]), style=STYLES)
def test_moved_columns_are_found_by_their_looks(change: str, table: ProfilerTable, style: Style) -> None:
    assume("overload_name" not in table.columns)
    assume(not any(row.shapes_truncated for row in table.rows))
    found = parsed(LOSSY[change](write_table(table, style)))
    assert [unnumbered(t) for t in found.tables] == [table]
    assert not found.losses


@given(table=tables(), style=STYLES)
def test_printing_what_was_read_is_stable(table: ProfilerTable, style: Style) -> None:
    once = write_table(table, style)
    (found,) = parsed(once).tables
    assert write_table(found, style) == once


@given(first=tables(), second=tables(), gap=st.sampled_from(["", "\n", "\n\n## Next\n\n", "some words\n"]))
def test_tables_after_each_other(first: ProfilerTable, second: ProfilerTable, gap: str) -> None:
    found = parsed(write_table(first) + gap + write_table(second))
    assert [unnumbered(t) for t in found.tables] == [first, second]


@given(table=tables(), data=st.data())
def test_cut_tables_hold_what_was_there_before_the_cut(table: ProfilerTable, data: st.DataObject) -> None:
    text = write_table(table)
    cut = data.draw(st.integers(0, len(text)))
    found = parsed(text[:cut])
    assert len(found.tables) <= 1
    for part in found.tables:
        assert len(part.rows) <= len(table.rows)
        *whole, last = unnumbered(part).rows
        assert whole == list(table.rows[: len(whole)])
        assert_says_nothing_else(last, table.rows[len(whole)])
        is_closed = part.totals.self_cpu_ns is not None
        assert part.complete or any(loss.id == "read-table-cut" for loss in part.losses)
        assert is_closed or part.losses


def assert_says_nothing_else(part: TableRow, whole: TableRow) -> None:
    """Each value of a cut row is that of the whole row, or unknown; texts may be shorter."""
    for field in TableRow.__slots__:
        value: Any = getattr(part, field)
        truth = getattr(whole, field)
        if field in {"resolution", "shapes_truncated", "is_async", "line"} or value is None:
            continue
        if isinstance(value, tuple):
            assert len(value) <= len(truth)
            assert all(b.startswith(a) for a, b in zip(value, truth, strict=False))
        elif isinstance(value, str):
            assert truth.startswith(value)
        else:
            assert value == truth


@given(table=tables(), flips=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=30))
def test_flipped_bytes_never_raise(table: ProfilerTable, flips: list[tuple[int, int]]) -> None:
    data = bytearray(write_table(table).encode())
    for position, byte in flips:
        data[position % len(data)] = byte
    sniff(bytes(data))
    for found in parsed(data.decode(errors="replace")).tables:
        for row in found.rows:
            assert all(abs(v) < 2**63 for f in TableRow.__slots__ if isinstance(v := getattr(row, f), int))


ALPHABET = st.sampled_from([*"-=#<>&;|` \t\r\n\x1b[0m:%.9sNameCPUtol\xa0\u3000\0", "Self CPU %", "  ", "--", "Name"])


@given(text=st.lists(ALPHABET, max_size=200).map("".join) | st.text())
def test_no_text_raises(text: str) -> None:
    assert parsed(text).tables == () or sniff(text)
