"""Tables that a document draws with bars or equals signs, and totals that share a line."""

from __future__ import annotations

import pytest

from traceanalyzer.readers.key_averages import read, sniff
from traceanalyzer.trace.document import ProfilerTable

MS = 1_000_000
MARKDOWN = """
| Name | Self CPU % | Self CPU | CPU total | Self CUDA | # of Calls |
|:-----|-----------:|---:|---:|---:|---:|
| `aten::mm` | 40.00% | 4.000ms | 5.000ms | 9.000ms | 3 |
| **void at::native::f<4, float>(int\\|long)** | 0.00% | 0.000us | 0.000us | 1.000ms | 12 |

Self CPU time total: 10.000ms
Self CUDA time total: 10.000ms
"""
BOX = """
+----------+------------+----------+-----------+------------+
|   Name   | Self CPU % | Self CPU | CPU total | # of Calls |
+----------+------------+----------+-----------+------------+
| aten::mm |     40.00% |  4.000ms |   5.000ms |          3 |
+----------+------------+----------+-----------+------------+
Self CPU time total: 10.000ms
"""
TEXT = """
========  ==========  ========  =========  ==========
    Name  Self CPU %  Self CPU  CPU total  # of Calls
========  ==========  ========  =========  ==========
aten::mm      40.00%   4.000ms    5.000ms           3
========  ==========  ========  =========  ==========

Self CPU time total: 10.000ms
"""

DIFF = TEXT.replace("\n\n", "\n").replace("\n", "\n+")


def only(text: str) -> ProfilerTable:
    assert sniff(text)
    document = read(text, "notes.md", None)
    assert not document.losses
    (table,) = document.tables
    return table


@pytest.mark.parametrize("text", [BOX, BOX.replace("\n", "\n> "), TEXT, DIFF, MARKDOWN])
def test_drawn_tables_are_read_as_printed_ones(text: str) -> None:
    table = only(text)
    row = table.rows[0]
    assert (row.name, row.self_cpu_share, row.self_cpu_ns, row.cpu_total_ns, row.calls) == (
        "aten::mm",
        0.4,
        4_000_000,
        5_000_000,
        3,
    )
    assert table.totals.self_cpu_ns == 10_000_000


def test_markup_around_cells_is_no_part_of_them() -> None:
    table = only(MARKDOWN)
    assert [row.name for row in table.rows] == ["aten::mm", "void at::native::f<4, float>(int|long)"]
    assert [row.line for row in table.rows] == [4, 5]
    assert (table.rows[1].self_device_ns, table.totals.self_device_ns) == (1_000_000, 10_000_000)


def test_a_table_may_lack_its_lines_of_dashes() -> None:
    text = "\n".join(line for line in TEXT.split("\n") if "==" not in line)
    table = only(text)
    assert [(row.name, row.self_cpu_ns, row.calls, row.line) for row in table.rows] == [("aten::mm", 4_000_000, 3, 3)]
    assert table.totals.self_cpu_ns == 10_000_000
    assert not sniff("Name  Self CPU  CPU total  # of Calls\nare the columns, with 3 more\n")


def test_other_tables_of_markdown_are_none() -> None:
    text = "| Name | Version | CPU | GPU | Calls |\n|---|---|---|---|---|\n| torch | 2.1 | 4 | 1 | 3 |\n"
    assert not sniff(text)


def test_a_blank_may_stand_before_the_unit_of_a_total() -> None:
    assert only(TEXT.replace("10.000ms", "10.0 ms")).totals.self_cpu_ns == 10_000_000


def test_two_totals_may_share_a_line() -> None:
    text = TEXT.replace("10.000ms", "10.000ms   Self CUDA time total: 2.000ms")
    assert (only(text).totals.self_cpu_ns, only(text).totals.self_device_ns) == (10_000_000, 2_000_000)


@pytest.mark.parametrize("line", ["<br>", "<br/>", " <BR />"])
def test_the_last_row_may_have_both_totals_in_one_cell(line: str) -> None:
    names, times = f"Self CPU time total: {line}Self CUDA time total:", f"10.000ms{line}12.000ms"
    dashes = "| --- | --- | --- | --- | --- | --- |"
    text = MARKDOWN.partition("\nSelf")[0] + f"{dashes}\n| {names} | {times} |  |  |  |  |\n"
    assert (only(text).totals.self_cpu_ns, only(text).totals.self_device_ns) == (10_000_000, 12_000_000)
    assert len(only(text).rows) == 2


@pytest.mark.parametrize(
    ("name", "total"), [("<br> Self CPU time total:", 10 * MS), ("Self <br> CPU time total: Self time total:", None)]
)
def test_a_total_need_not_begin_its_cell(name: str, total: int | None) -> None:
    text = MARKDOWN.partition("\nSelf")[0] + f"| {name} | 10.000ms |  |  |  |  |\n"
    assert sniff(text)
    (table,) = read(text, "notes.md", None).tables
    assert (len(table.rows), table.totals.self_cpu_ns) == (2, total)


@pytest.mark.parametrize("shown", ["text without bars", "-", "Name", "a | b"])
def test_a_header_that_was_overwritten_is_none(shown: str) -> None:
    """What counts is what a terminal shows: not what stands before a carriage return."""
    header = "| Name | Self CPU % | Self CPU | CPU total % | CPU total | # of Calls |"
    text = f"{header}\r{shown}\n|---|---|---|---|---|---|\n| aten::mm | 1.00% | 1.000ms | 1.00% | 1.000ms | 3 |\n"
    assert not sniff(text)
    assert read(text, "log.txt", None).tables == ()


def test_a_comma_may_be_the_decimal_sign() -> None:
    text = TEXT.replace("mm  ", "<1,2>").replace("0.0", "0,0").replace("4.0", "4,0").replace("5.0", "5,0")
    table = only(text)
    row = table.rows[0]
    assert (row.name, row.self_cpu_share, row.self_cpu_ns, row.cpu_total_ns) == ("aten::<1,2>", 0.4, 4 * MS, 5 * MS)
    assert table.totals.self_cpu_ns == 10 * MS


def test_beside_a_printed_table_a_drawn_one_is_a_summary_of_it() -> None:
    (table,) = read(MARKDOWN + TEXT.replace("=", "-"), "notes.md", None).tables
    assert len(table.rows) == 1
