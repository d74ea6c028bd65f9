"""Lists of the legacy profiler, `torch.autograd.profiler`: no categories, but processes of fixed names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.builders.situations import legacy_list
from tests.reading import plain, read, table_rows
from traceanalyzer.pipeline import analyze
from traceanalyzer.report.model import Report
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.tables import Vendor

WARNING = "read-legacy-list"


def listed() -> list[dict[str, Any]]:
    return list(legacy_list().build(number=float)["traceEvents"])


def from_rows(rows: list[dict[str, Any]], *, is_object: bool = False) -> Trace:
    return read(json.dumps({"traceEvents": rows} if is_object else rows).encode())


def warnings(report: Report) -> list[str]:
    return [warning.id for warning in report.warnings]


@pytest.mark.parametrize("is_object", [False, True])
def test_operators_are_read_on_both_sides(is_object: bool) -> None:
    trace = from_rows(listed(), is_object=is_object)
    host, device = table_rows(trace, "host"), table_rows(trace, "accelerator")
    assert [(row["name"], row["start_ns"], row["dur_ns"]) for row in host[:3]] == [
        ("aten::linear", 0, 60_000),
        ("aten::addmm", 10_000, 35_000),
        ("AddmmBackward", 100_000, 60_000),
    ]
    assert (len(host), len(device), len(trace.flows), len(trace.device)) == (24, 24, 0, 0)
    first = device[0]
    assert (first["name"], first["vendor"], first["device"], first["stream"]) == ("aten::linear", Vendor.CUDA, 0, -1)
    assert [(loss.id, loss.params) for loss in trace.losses] == [(WARNING, {})]


def test_an_operator_on_the_gpu_has_its_time_without_those_inside_it() -> None:
    (device,) = plain(analyze(from_rows(listed())))["accelerators"]["devices"]
    found = {row["name"]: (row["calls"], row["total_ns"], row["max_ns"]) for row in device["tasks"]}
    assert found == {
        "aten::mm": (3, 3 * 430_000, 430_000),
        "aten::addmm": (3, 3 * 380_000, 380_000),
        "aten::linear": (3, 3 * 20_000, 400_000),
        "aten::add_": (12, 3 * 16_000, 4_000),
        "AddmmBackward": (3, 3 * 10_000, 440_000),
    }
    # from 50 to 450, 450 to 890 and 890 to 906 of each iteration; the linear layer returns at 60
    assert (device["busy_ns"], device["returned_ns"]) == (3 * 856_000, 3 * 846_000)


def test_a_gpu_that_works_behind_the_cpu_is_the_limit() -> None:
    report = analyze(from_rows(listed()))
    (headline,) = report.headlines
    assert (headline.bound, headline.message.id) == ("gpu-compute", "headline-accelerator-computes-2")
    assert headline.message.params["part"] == [3 * 856_000, 2_856_000]
    (largest,) = headline.details
    assert (largest.params["task"], largest.params["time"]) == ("aten::mm", 3 * 430_000)
    assert WARNING in warnings(report)
    recording = plain(report)["recording"]
    assert (recording["workload"], len(recording["steps"])) == ("training", 3)


def waits_in_operators(every: int) -> list[dict[str, Any]]:
    """The list of a GPU that is done with each operator as soon as the CPU is; one operator of 90 us at a time."""
    rows = []
    for begin in range(0, 20 * every, every):
        for pid, tid, at in (("CPU functions", 1, begin), ("CUDA functions", 0, begin + 3)):
            rows.append({"name": "aten::mm", "ph": "X", "pid": pid, "tid": tid, "ts": at, "dur": 90, "args": {}})
    return rows


@pytest.mark.parametrize(
    ("every", "bound", "text", "part"),
    [
        # whether the GPU works or waits for the 90 of 100 us of an operator is unknown
        (100, "none", "headline-legacy-list-2", [20 * 90_000, 19 * 100_000 + 90_000]),
        # but between operators, for 110 of 200 us, it surely waits
        (200, "host", "headline-legacy-list-host-2", [19 * 110_000, 19 * 200_000 + 90_000]),
    ],
)
def test_a_gpu_that_may_wait_within_operators_is_not_called_the_limit(
    every: int, bound: str, text: str, part: list[int]
) -> None:
    (headline,) = analyze(from_rows(waits_in_operators(every))).headlines
    assert (headline.bound, headline.message.id, headline.message.params["part"]) == (bound, text, part)


def test_of_the_cpu_alone_nothing_is_said_about_a_gpu() -> None:
    rows = [row for row in listed() if row["ph"] == "X" and row["pid"] == "CPU functions"]
    report = analyze(from_rows(rows))
    assert WARNING in warnings(report)
    assert "q-gpu-not-recorded" not in warnings(report)
    assert report.headlines[0].bound == "host"


def test_arrows_alone_show_that_there_was_a_gpu() -> None:
    """Since torch 1.8 the list has the arrows to kernels, but no kernels."""
    rows = [row for row in listed() if row["pid"] == "CPU functions"]
    report = analyze(from_rows(rows))
    assert {WARNING, "q-gpu-not-recorded"} <= set(warnings(report))
    assert report.headlines[0].bound == "none"


def test_events_of_other_processes_without_a_category_are_no_operators() -> None:
    rows = listed()
    rows.append({"ph": "X", "name": "x", "pid": "GPU functions", "tid": 1, "ts": 5, "dur": 1})
    trace = from_rows(rows)
    assert len(trace.host) == 24
    assert {loss.id: loss.count for loss in trace.losses} == {WARNING: 1, "read-no-category": 1}
