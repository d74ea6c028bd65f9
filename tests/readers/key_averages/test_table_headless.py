"""Tables of torch up to 1.0, and rows that were copied without their header."""

from __future__ import annotations

import pytest

from tests.rules.judging import report
from traceanalyzer.errors import UnusableInputError
from traceanalyzer.readers.key_averages import read
from traceanalyzer.trace.document import ProfilerTable

OLDEST = """
----------------  ---------------  ---------------  ---------------  ---------------  ---------------
Name                     CPU time        CUDA time            Calls        CPU total       CUDA total
----------------  ---------------  ---------------  ---------------  ---------------  ---------------
conv2d                  400.500us       1000.000us                2        801.000us       2000.000us
thnn_conv2d_bwd          10.000us          0.000us               30        300.000us          0.000us
"""
CPU = """
 aten::conv2d   75.00%  3.000ms   75.00%  3.000ms  1.500ms  2
    aten::add   25.00%  1.000ms   25.00%  1.000ms  333.333us  3
"""
SHAPES = CPU.replace("  2\n", "  2  [[8, 3], []]\n").replace("  3\n", "  3  []\n")
GPU = """
  aten::mm   75.00%  3.000ms  75.00%  3.000ms  1.500ms  8.000ms  80.00%  8.000ms  4.000ms  2
 aten::add   25.00%  1.000ms  25.00%  1.000ms  1.000ms  2.000ms  20.00%  2.000ms  2.000ms  1
"""
MEMORY = """
  aten::mm   75.00%  3.000ms  75.00%  3.000ms  1.500ms  1.50 Kb  1.50 Kb  2
 aten::add   25.00%  1.000ms  25.00%  1.000ms  1.000ms      0 b  -512 b  1
"""
BEFORE_SELF_TIMES = """
      mm   75.00%  3.000ms  75.00%  3.000ms  1.500ms  80.00%  8.000ms  4.000ms  2
     add   25.00%  1.000ms  25.00%  1.000ms  1.000ms  20.00%  2.000ms  2.000ms  1
"""


def table(text: str) -> ProfilerTable:
    (found,) = read(text, "text", None).tables
    return found


def losses(text: str) -> dict[str, int]:
    return {loss.id: loss.count for loss in read(text, "text", None).losses}


def test_columns_of_the_oldest_tables() -> None:
    found = table(OLDEST)
    assert (found.device, found.has_plain_names) == ("CUDA", True)
    row = found.rows[0]
    assert (row.name, row.calls, row.cpu_avg_ns, row.device_avg_ns) == ("conv2d", 2, 400_500, 1_000_000)
    assert (row.cpu_total_ns, row.device_total_ns, row.self_cpu_ns) == (801_000, 2_000_000, None)


def test_the_oldest_tables_have_a_report() -> None:
    """Without self times and totals, nothing tells shares; calls and times are listed."""
    found = report(OLDEST)
    assert found.analyses


def test_rows_of_programs_without_a_device() -> None:
    found = table(CPU)
    assert found.device is None
    assert [(row.name, row.self_cpu_ns, row.calls) for row in found.rows] == [
        ("aten::conv2d", 3_000_000, 2),
        ("aten::add", 1_000_000, 3),
    ]
    assert losses(CPU)["read-table-header-missing"] == 1


def test_shapes_behind_the_calls() -> None:
    assert [row.input_shapes for row in table(SHAPES).rows] == ["[[8, 3], []]", "[]"]


def test_rows_with_a_device() -> None:
    row = table(GPU).rows[0]
    assert (row.self_device_ns, row.self_device_share, row.device_total_ns, row.calls) == (8_000_000, 0.8, 8_000_000, 2)
    assert table(GPU + "Self CPU time total: 4.000ms\nSelf CUDA time total: 10.000ms\n").totals.self_cpu_ns == 4_000_000


def test_rows_with_memory() -> None:
    assert [(row.cpu_mem_bytes, row.self_cpu_mem_bytes) for row in table(MEMORY).rows] == [(1536, 1536), (0, -512)]


def test_rows_before_there_were_self_times_of_the_device() -> None:
    found = table(BEFORE_SELF_TIMES)
    row = found.rows[0]
    assert (row.self_device_ns, row.device_total_share, row.device_total_ns) == (None, 0.8, 8_000_000)
    assert found.has_plain_names


def test_without_a_heading_the_oldest_are_known_too() -> None:
    assert table("\n".join(OLDEST.splitlines()[4:])).rows[0].device_avg_ns == 1_000_000


@pytest.mark.parametrize(
    "text",
    [
        CPU.replace("333.333us", "444.444us"),  # three calls of 444 us do not take a millisecond
        CPU.replace(" 75.00%  3.000ms   75.00%", " 3.000ms  75.00%   75.00%"),  # no release has this order
        CPU.replace("  2\n", "\n"),  # one value less in one row
        "\n".join((*CPU.splitlines()[:2], *GPU.splitlines()[2:])),  # rows of two tables
    ],
)
def test_what_is_not_certain_is_refused_and_what_is_missing_is_said(text: str) -> None:
    assert read(text, "text", None).tables == ()
    with pytest.raises(UnusableInputError, match=r"no profiler table with a header. Paste all") as seen:
        report(text)
    assert "\n" not in str(seen.value)


def test_a_single_row_is_no_table() -> None:
    assert read("\n".join(CPU.splitlines()[:2]), "text", None).tables == ()


def test_beside_a_table_with_a_header_rows_are_not_taken_for_another() -> None:
    assert "read-table-header-missing" not in losses(OLDEST + "\n\n\n\n\n\n\n\n" + CPU)


def test_logs_with_times_are_no_rows() -> None:
    text = "".join(f"step {step} took 1.500ms and 2.500ms of loading\n" for step in range(9))
    assert read(text, "text", None).tables == ()
