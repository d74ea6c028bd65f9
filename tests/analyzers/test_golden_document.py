"""The TensorBoard plugin's own golden output for two runs, number by number.

The document holds one JSON text a line, five lines a run: overview, operator pies, operator table, kernel table,
kernel pie. Its values are whole microseconds, as the traces' are.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests import corpus_files
from tests.reading import plain

pytestmark = [
    pytest.mark.corpus,
    pytest.mark.parametrize("run", ["resnet50_v100_workers0_golden", "resnet50_v100_workers4_golden"]),
]

RUNS = {"resnet50_v100_workers0_golden": 0, "resnet50_v100_workers4_golden": 5}
UTILIZATION = {"resnet50_v100_workers0_golden": "67.82 %", "resnet50_v100_workers4_golden": "83.63 %"}

STEP_FIELDS = ("kernel", "memcpy", "memset", "communication", "runtime", "dataloader", "cpu_exec", "other")
"""The order of the values in a row of the steps; the header above them has Communication and Memset swapped."""

OPERATOR_TIMES = ("device_self", "device_total", "host_self", "host_total")

TOOLTIP = re.compile(r"Step (\d+)<br>Total: (\d+)us<br><b>([\w ]+): (\d+)us</b><br>Percentage: ([\d.]+)%")
PIES = {
    "device_total_time": "device_total_ns",
    "device_self_time": "device_self_ns",
    "host_total_time": "host_total_ns",
    "host_self_time": "host_self_ns",
}


@cache
def ours(corpus: Path, run: str) -> Any:
    return plain(corpus_files.report_of(corpus / "corpus" / f"{run}.json.gz"))


@cache
def golden(corpus: Path, run: str) -> tuple[Any, ...]:
    """Overview, operator pies, operator table, kernel table, kernel pie."""
    (document,) = (corpus / "documents").glob("001_*.txt")
    lines = document.read_text(encoding="utf-8").splitlines()
    return tuple(json.loads(line) for line in lines[RUNS[run] : RUNS[run] + 5])


def us(nanoseconds: int) -> int:
    """Rounded to whole microseconds, as in the traces."""
    whole, rest = divmod(nanoseconds, 1000)
    assert rest == 0
    return whole


def field(title: str) -> str:
    return f"{title.lower().replace(' ', '_')}_ns"


def test_header_swaps_two_columns(corpus: Path, run: str) -> None:
    """So the tooltips are right, not the header."""
    overview = golden(corpus, run)[0]["steps"]
    titles = [column["name"] for column in overview["columns"] if column["type"] == "number"]
    shown = [TOOLTIP.search(cell)[3] for cell in overview["rows"][0][2::2]]  # type: ignore[index]
    assert titles[2:4] == ["Communication", "Memset"]
    assert shown[2:4] == ["Memset", "Communication"]


def test_steps(corpus: Path, run: str) -> None:
    rows = golden(corpus, run)[0]["steps"]["rows"]
    steps = ours(corpus, run)["step_breakdown"]["steps"]
    assert len(rows) == 6
    assert [[step["name"], *(us(step[f"{part}_ns"]) for part in STEP_FIELDS)] for step in steps] == [
        [row[0], *row[1::2]] for row in rows
    ]


def test_tooltips_of_steps(corpus: Path, run: str) -> None:
    """Each names step, total, part and percentage."""
    rows = golden(corpus, run)[0]["steps"]["rows"]
    assert rows
    for row, step in zip(rows, ours(corpus, run)["step_breakdown"]["steps"], strict=True):
        assert row[2::2]
        for tooltip in row[2::2]:
            found = TOOLTIP.search(tooltip)
            assert found is not None
            value = step[field(found[3])]
            assert (found[1], int(found[2]), int(found[4])) == (step["name"], us(step["duration_ns"]), us(value))
            assert float(found[5]) == round(100 * value / step["duration_ns"], 2)


def test_averages(corpus: Path, run: str) -> None:
    average = ours(corpus, run)["step_breakdown"]["average"]
    (total,) = golden(corpus, run)[0]["performance"]
    shown = {"Average Step Time": (total["value"], total["extra"])}
    shown |= {child["name"]: (child["value"], child["extra"]) for child in total["children"]}
    assert shown.pop("Average Step Time") == (round(average["duration_ns"] / 1000), 100)
    assert shown.keys() == {"Kernel", "Memcpy", "Memset", "Communication", "Runtime", "DataLoader", "CPU Exec", "Other"}
    assert shown == {
        title: (
            round(average[field(title)] / 1000),
            round(100 * average[field(title)] / average["duration_ns"], 2),
        )
        for title in shown
    }


def test_utilization(corpus: Path, run: str) -> None:
    (device,) = ours(corpus, run)["gpu"]["devices"]
    assert f"{100 * device['utilization']:.2f} %" == UTILIZATION[run]
    # CUPTI did not record blocks and occupancy yet.
    assert (device["est_sm_efficiency"], device["est_achieved_occupancy"]) == (None, None)


def test_the_loader_is_to_blame_in_the_first_run_only(corpus: Path, run: str) -> None:
    share = ours(corpus, run)["step_breakdown"]["dataloader_share"]
    text = re.search(r"([\d.]+)% of the step time is in DataLoader", golden(corpus, run)[0]["recommendations"])
    assert (f"{100 * share:.1f}" == text[1]) if text else share < 0.05


def test_operators(corpus: Path, run: str) -> None:
    """Containment on the launching thread gives the same launches as the plugin's external ids here."""
    found = {
        (row["name"], row["calls"], *(us(row[f"{time}_ns"]) for time in OPERATOR_TIMES))
        for row in ours(corpus, run)["operators"]["rows"]
    }
    assert found == {
        (row["name"], row["calls"], *(row[f"{time}_duration"] for time in OPERATOR_TIMES))
        for row in golden(corpus, run)[2]
    }


def test_operators_are_in_the_order_of_their_device_time(corpus: Path, run: str) -> None:
    """The plugin's order; it leaves ties as they come, we sort them by name."""
    found = [us(row["device_self_ns"]) for row in ours(corpus, run)["operators"]["rows"]]
    assert found == [row["device_self_duration"] for row in golden(corpus, run)[2]]


@pytest.mark.parametrize("pie", PIES)
def test_pies_of_operators(corpus: Path, run: str, pie: str) -> None:
    """Only values above 0, the largest first."""
    rows = golden(corpus, run)[1][pie]["rows"]
    found = {row["name"]: us(row[PIES[pie]]) for row in ours(corpus, run)["operators"]["rows"]}
    assert {name: value for name, value in found.items() if value > 0} == dict(map(tuple, rows))
    assert [value for _, value in rows] == sorted((v for v in found.values() if v > 0), reverse=True)


def test_kernels(corpus: Path, run: str) -> None:
    """Name, calls, total, mean, max, min; the mean is rounded to the microsecond."""
    data = golden(corpus, run)[3]["data"]
    assert [column["name"].split(" (")[0] for column in data["columns"]] == [
        "Name",
        "Calls",
        "Total Duration",
        "Mean Duration",
        "Max Duration",
        "Min Duration",
    ]
    figures = [
        (row["name"], row["calls"], row["total_ns"], row["mean_ns"], row["max_ns"], row["min_ns"])
        for row in ours(corpus, run)["kernels"]["rows"]
    ]
    assert {
        (name, calls, us(total), round(mean / 1000), us(longest), us(shortest))
        for name, calls, total, mean, longest, shortest in figures
    } == {tuple(row) for row in data["rows"]}


def test_pie_of_kernels(corpus: Path, run: str) -> None:
    rows = golden(corpus, run)[4]["total"]["rows"]
    assert {row["name"]: us(row["total_ns"]) for row in ours(corpus, run)["kernels"]["rows"]} == dict(map(tuple, rows))


def test_no_kernel_used_tensor_cores(corpus: Path, run: str) -> None:
    """Single precision on a V100; the plugin's columns for tensor cores came later."""
    assert not [row["name"] for row in ours(corpus, run)["kernels"]["rows"] if row["tensor_cores"]]
