"""Tables in one line, of several ranks, without outer bars, and rows that a text quotes without a table."""

from __future__ import annotations

import json

import pytest

from traceanalyzer.analyzers.tables.grouping import group
from traceanalyzer.readers import key_averages
from traceanalyzer.trace.document import TableDocument

ROWS = (("aten::mm", "40.00%", "4.000ms", "8"), ("aten::add", "60.00%", "6.000ms", "4"))
TOTAL = "Self CPU time total: 10.000ms"
NAMES = ("Name", "Self CPU %", "Self CPU", "# of Calls")
RULE = "  ".join("-" * 12 for _ in NAMES)


def printed(rows: tuple[tuple[str, ...], ...] = ROWS) -> list[str]:
    """A table as torch prints it, in lines."""
    lines = [RULE, "  ".join(name.rjust(12) for name in NAMES), RULE]
    return [*lines, *("  ".join(cell.rjust(12) for cell in row) for row in rows), RULE, TOTAL]


def read(text: str) -> TableDocument:
    """The tables of a text."""
    return key_averages.read(text, "notes.md", None)


def figures(text: str) -> list[list[tuple[str, int | None, int | None]]]:
    """Names, self times and calls of the rows of each table."""
    return [[(row.name, row.self_cpu_ns, row.calls) for row in table.rows] for table in read(text).tables]


EXPECTED = [("aten::mm", 4_000_000, 8), ("aten::add", 6_000_000, 4)]


@pytest.mark.parametrize("before", ["", "> ", "  "])
@pytest.mark.parametrize("mark", ["", "**", "`"])
@pytest.mark.parametrize("rule", ["--", ":-:", "---:"])
def test_tables_without_outer_bars(before: str, mark: str, rule: str) -> None:
    rows = [NAMES, (rule,) * len(NAMES), *(tuple(f"{mark}{cell}{mark}" for cell in row) for row in ROWS)]
    text = "\n".join(before + " | ".join(row) for row in rows)
    assert figures(f"{text}\n\n{TOTAL}\n") == [EXPECTED]


@pytest.mark.parametrize("total", [f"**{TOTAL}**  ", f"`{TOTAL}`", "**Self CPU time total:** 10.000ms", f"> {TOTAL}"])
def test_totals_in_bold_and_in_code(total: str) -> None:
    (table,) = read("\n".join([*printed()[:-1], total])).tables
    assert table.totals.self_cpu_ns == 10_000_000


@pytest.mark.parametrize("ending", ["\n", ""])
def test_a_notebook_in_one_line(ending: str) -> None:
    output = {"output_type": "stream", "text": "\n".join(printed()) + ending}
    cell = {"cell_type": "code", "source": "print(t)", "outputs": [output]}
    assert figures(json.dumps({"nbformat": 4, "cells": [cell]})) == [EXPECTED]


def test_a_notebook_in_one_line_with_lines_in_a_list() -> None:
    output = {"text": [line + "\n" for line in printed()]}
    assert figures(json.dumps({"nbformat": 4, "cells": [{"outputs": [output]}]})) == [EXPECTED]


def test_the_value_of_a_bare_expression() -> None:
    data = {"text/plain": [repr("\n".join(printed()))]}
    assert figures(json.dumps({"nbformat": 4, "cells": [{"outputs": [{"data": data}]}]})) == [EXPECTED]
    assert figures(json.dumps({"cells": [{"outputs": [{"data": data}]}]}, indent=1)) == [EXPECTED]
    assert figures(repr("\n".join(printed()))) == [EXPECTED]


def test_a_program_with_escaped_line_ends_stays_as_it_is() -> None:
    text = 'print("--\\n--")\n' + "\n".join(printed())
    assert [table.line for table in read(text).tables] == [3]


@pytest.mark.parametrize(
    "label", ["[rank{}]: ", "[default{}]:", "{}: ", "[1,{}]<stdout>:", "2024-01-02 03:04:05,678 INFO [rank{}]: "]
)
def test_lines_of_ranks_are_told_apart(label: str) -> None:
    other = tuple((name, share, time, "16") for name, share, time, _ in ROWS)
    mixed = [line for pair in zip(printed(), printed(other), strict=True) for line in pair]
    text = "\n".join(label.format(number % 2) + line for number, line in enumerate(mixed))
    document = read(text)
    assert [view.id for view in group(document)] == ["rank-0", "rank-1"]
    assert [[row.calls for row in table.rows] for table in document.tables] == [[8, 4], [16, 16]]
    assert [table.line for table in document.tables] == [3, 4]


def test_one_label_is_a_prefix() -> None:
    text = "\n".join(f"[rank0]: {line}" for line in printed())
    assert [table.section for table in read(text).tables] == [None]


def test_a_progress_bar_does_not_hide_the_header_that_it_overwrote() -> None:
    lines = printed()
    lines[1] += "\r 50%|#####     | 1/2 [00:01<00:01,  1.00s/it]"
    assert figures("\n".join(lines)) == [EXPECTED]


def test_what_a_header_overwrote_does_not_count() -> None:
    lines = printed()
    lines[1] = " 50%|#####     | 1/2 [00:01<00:01,  1.00s/it]\r" + lines[1]
    assert figures("\n".join(lines)) == [EXPECTED]


def test_a_header_in_bars_that_a_progress_bar_overwrote_is_no_error() -> None:
    assert (
        figures("| Name | Self CPU | CPU total | # of Calls |\r 50%|##  | 1/2 [00:01<?, ?it/s]\n| a | 1.000ms |\n")
        == []
    )


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("aten::mm   70.00%  7.000ms", ("aten::mm", 7_000_000, None)),
        ("| `aten::mm` | 70.00% | 7.000ms |", ("aten::mm", 7_000_000, None)),
        ("gemm_kernel 50.00% 2.000ms", ("gemm_kernel", None, 2_000_000)),
        ("the loader takes 70 % of it", ("loader", 7_000_000, None)),
    ],
)
def test_a_quoted_row_is_of_the_total_that_its_share_fits(
    row: str, expected: tuple[str, int | None, int | None]
) -> None:
    (table,) = read(f"{TOTAL}\nSelf CUDA time total: 4.000ms\n\nAlso:\n\n{row}\n").tables
    assert [(found.name, found.self_cpu_ns, found.self_device_ns) for found in table.rows] == [expected]


@pytest.mark.parametrize("row", ["aten::mm  70.00%  3.000ms", "Adam is at 70 %", "aten::mm 7.000ms"])
def test_a_row_that_fits_no_total_is_none(row: str) -> None:
    assert not read(f"{TOTAL}\nSelf CUDA time total: 4.000ms\n\n{row}\n").tables


def test_totals_in_one_sentence() -> None:
    (table,) = read("It says Self CPU time total: 900.000ms, CUDA 40 ms, and the data loader has 70 %.\n").tables
    assert (table.totals.self_cpu_ns, table.totals.self_device_ns) == (900_000_000, 40_000_000)
    assert [row.self_cpu_ns for row in table.rows] == [630_000_000]


def test_tables_whose_shares_mean_other_totals_are_two_runs() -> None:
    slow = tuple((name, share, time.replace("ms", "s"), calls) for name, share, time, calls in ROWS)
    of_one, of_two = printed()[:-1], printed(slow)[:-1]
    document = read("\n".join(["# Slow", *of_one, "", *of_two]))
    assert len(group(document)) == 2
    assert len(group(read("\n".join(["# Slow", *of_one, "", *of_one[:-2], RULE])))) == 1
