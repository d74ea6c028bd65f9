"""Headers of all releases and devices, and lines of dashes."""

from __future__ import annotations

import pytest

from traceanalyzer.readers.key_averages.header import parse_header
from traceanalyzer.readers.key_averages.lines import find_dashes

MODERN = (
    "Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg     Self {0}   Self {0} %    "
    "{0} total  {0} time avg       CPU Mem  Self CPU Mem      {0} Mem  Self {0} Mem    # of Calls  Input Shapes"
)
MODERN_IDS = (
    "name",
    "self_cpu_share",
    "self_cpu_ns",
    "cpu_total_share",
    "cpu_total_ns",
    "cpu_avg_ns",
    "self_device_ns",
    "self_device_share",
    "device_total_ns",
    "device_avg_ns",
    "cpu_mem_bytes",
    "self_cpu_mem_bytes",
    "device_mem_bytes",
    "self_device_mem_bytes",
    "calls",
    "input_shapes",
)


@pytest.mark.parametrize("device", ["CUDA", "XPU", "HPU", "MTIA", "PRIVATEUSEONE", "NPU", "MUSA", "None"])
@pytest.mark.parametrize("blanks", ["as printed", "collapsed", "tabs"])
def test_modern_names(device: str, blanks: str) -> None:
    line = MODERN.format(device)
    if blanks == "collapsed":
        line = " ".join(line.split())
    if blanks == "tabs":
        line = "\t".join(cell.strip() for cell in line.split("  ") if cell.strip())
    header = parse_header(line)
    assert header
    assert (header.known, header.device) == (MODERN_IDS, device)
    assert all(column.id for column in header.columns)


@pytest.mark.parametrize("collapsed", [False, True])
def test_names_before_1_7(collapsed: bool) -> None:
    line = (
        "Name  Self CPU total %  Self CPU total   CPU total %      CPU total        CPU time avg     CUDA total %     "
        "CUDA total       CUDA time avg    Number of Calls  "
    )
    header = parse_header(" ".join(line.split()) if collapsed else line)
    assert header
    assert header.known == (*MODERN_IDS[:6], "device_total_share", "device_total_ns", "device_avg_ns", "calls")


def test_names_before_1_0() -> None:
    header = parse_header("Name        CPU time        CUDA time            Calls        CPU total       CUDA total")
    assert header
    assert header.known == ("name", "cpu_avg_ns", "device_avg_ns", "calls", "cpu_total_ns", "device_total_ns")


def test_names_that_people_shorten() -> None:
    header = parse_header("Name      CPU Total    CUDA Total    CUDA avg    # calls")
    assert header
    assert header.known == ("name", "cpu_total_ns", "device_total_ns", "device_avg_ns", "calls")


@pytest.mark.parametrize(
    ("name", "column", "scale"),
    [
        ("Total FLOPs", "flops", 0),
        ("Total KFLOPs", "flops", 3),
        ("Total PFLOPs", "flops", 15),
        ("GFLOPs", "flops", 9),
        ("GFLOPS", "flops_per_second", 9),
        ("MFLOPS/s", "flops_per_second", 6),
        ("GFLOPs/s", "flops_per_second", 9),
    ],
)
def test_flops(name: str, column: str, scale: int) -> None:
    header = parse_header(f"  Name  Self CPU  # of Calls  {name}  ")
    assert header
    assert (header.columns[-1].id, header.columns[-1].scale) == (column, scale)


def test_unknown_columns_keep_their_place() -> None:
    header = parse_header("Name  Self CPU  Cache Hits  CPU total  # of Calls")
    assert header
    assert [column.id for column in header.columns] == ["name", "self_cpu_ns", None, "cpu_total_ns", "calls"]


@pytest.mark.parametrize("name", ["CPU totals", "CPU total wall", "Calls made"])
def test_names_that_only_begin_like_a_column_are_unknown(name: str) -> None:
    header = parse_header(f"Name  Self CPU  {name}  CPU Mem")
    assert header
    assert [column.id for column in header.columns] == ["name", "self_cpu_ns", None, "cpu_mem_bytes"]


def test_columns_of_a_second_device_are_unknown() -> None:
    header = parse_header("Name  Self CPU  Self CUDA  Self XPU  # of Calls")
    assert header
    assert (header.device, header.columns[3].id) == ("CUDA", None)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "Package    Version",
        "Name  Version  Build  Channel",
        "| Name | Self CPU % | Self CPU | CPU total |",
        "Name  # of Calls  Node ID",
        "aten::add  10.00%  1.000ms",
        "FileName  Self CPU  CPU total",
        "Name  Self CPU  CPU total" + 30_000 * " x",
    ],
)
def test_what_is_no_header(line: str) -> None:
    assert parse_header(line) is None


@pytest.mark.parametrize(
    ("line", "before", "runs", "after"),
    [
        ("-----  ---  ", "", ((0, 5), (7, 10)), ""),
        ("  -----  ---", "  ", ((0, 5), (7, 10)), ""),
        ("> ----- ---", "> ", ((0, 5), (6, 9)), ""),
        ("10:00 - INFO - ----- ---", "10:00 - INFO - ", ((0, 5), (6, 9)), ""),
        ('"-----  ---  \\n",', '"', ((0, 5), (7, 10)), '\\n",'),
        ("-----", "", ((0, 5),), ""),
    ],
)
def test_dashes(line: str, before: str, runs: tuple[tuple[int, int], ...], after: str) -> None:
    dashes = find_dashes(line)
    assert dashes
    assert (dashes.before, dashes.runs, dashes.after) == (before, runs, after)


@pytest.mark.parametrize("line", ["", "- - -", "--", "a -- b", "----- ----- and some more words", "aten::add"])
def test_what_are_no_dashes(line: str) -> None:
    assert find_dashes(line) is None
