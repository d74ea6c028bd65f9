"""All formats show the numbers of the JSON, and "unknown" where it has null."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import A100, ROCM, TraceBuilder
from tests.formats import readback
from tests.formats.samples import SOUND, TRAINING, WITH_GPU, report_of
from tests.reading import plain, read_built
from traceanalyzer.formats import render
from traceanalyzer.pipeline import analyze
from traceanalyzer.report import units
from traceanalyzer.report.model import Report

_QUANTITY = re.compile(r"([\d,]+(?:\.\d+)?)(?: (ns|us|ms|s|%|B|KiB|MiB|GiB|TiB))?")
_FACTORS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "%": 0.01, "": 1}
_FACTORS |= {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
OPERATORS = {
    "Calls": "calls",
    "Device self": "device_self_ns",
    "Device total": "device_total_ns",
    "CPU self": "host_self_ns",
    "CPU total": "host_total_ns",
}
KERNELS = {
    "Calls": "calls",
    "Total": "total_ns",
    "Mean": "mean_ns",
    "Min": "min_ns",
    "Max": "max_ns",
    "Blocks per SM": "mean_blocks_per_sm",
    "Est. occupancy": "mean_est_achieved_occupancy",
}
GPU = {
    "GPU": "device",
    "Utilization": "utilization",
    "Busy": "busy_share",
    "Idle": "idle_share",
    "Est. SM efficiency": "est_sm_efficiency",
    "Est. occupancy": "est_achieved_occupancy",
    "Tensor cores": "tensor_core_share",
}
STEPS = {
    "Duration": "duration_ns",
    "Kernels": "kernel_ns",
    "Copies": "memcpy_ns",
    "Communication": "communication_ns",
    "DataLoader": "dataloader_ns",
    "Other": "other_ns",
}
NOT_PROFILED = {"legacy_list.json", "mtia.json", "no_profiler_step.json.gz", "serving_graphs.json.gz"}
NOT_PROFILED |= {"autocast_stacks.json.gz", "inference_flops.json.gz", "modules_and_stacks.json.gz", "plain.json.gz"}
NOT_PROFILED |= {"transformer_memory.json.gz", "two_threads.json.gz"}
"""Fixtures in which no `ProfilerStep` marks the steps."""
with_gpu = pytest.mark.parametrize("path", WITH_GPU, ids=lambda p: p.name)


def quantity(text: str) -> float | None:
    """The number that a reader sees, in the JSON's unit; None for `unknown`."""
    if text == "unknown":
        return None
    match = _QUANTITY.fullmatch(text)
    assert match, text
    return float(match[1].replace(",", "")) * _FACTORS[match[2] or ""]


def same(shown: str, raw: float | None) -> None:
    """The shown number is the raw one to its four digits or two decimals, and unknown only where it is null."""
    seen = quantity(shown)
    assert (seen is None) == (raw is None), (shown, raw)
    if seen is not None and raw is not None:
        assert seen == pytest.approx(raw, rel=6e-4, abs=6e-5 if "%" in shown else 6e-4 if "." in shown else 0)


def compare(table: list[dict[str, str]], rows: list[dict[str, Any]], fields: dict[str, str]) -> None:
    assert table
    assert set(table[0]) & set(fields)
    for shown, row in zip(table, rows, strict=False):
        for title in set(shown) & set(fields):
            same(shown[title], row[fields[title]])


def section(report: Report, title: str) -> readback.Part:
    found = readback.parts(render(report, "markdown"))
    return found[title] if title in found else found[f"{title} (whole trace)"]


def compare_steps(
    table: list[dict[str, str]], found: dict[str, Any], steps: int, sums: dict[str, str], figures: dict[str, str]
) -> None:
    """The rows of a table, those of which a typical step has most first, then in the order of the recording."""
    name = next(iter(table[0]))
    typical = {row["name"]: row for row in (found["rows"] if found["in_steps"] is None else found["in_steps"])}
    ranked = next(field for field in sums.values() if field != "calls")
    rows = sorted(found["rows"], key=lambda row: -typical.get(row["name"], {}).get(ranked, 0))
    assert all(_names(shown[name], row["name"]) for shown, row in zip(table, rows, strict=False))
    whole = sum(row[ranked] for row in typical.values())
    for shown, row in zip(table, rows, strict=False):
        own = typical.get(row["name"], {})
        for title, field in sums.items():
            same(shown[f"{title}/step"], own.get(field, 0) / steps)
        for title, field in figures.items():
            same(shown.get(title, "unknown"), own.get(field))
        same(shown["Calls in all"], row["calls"])
        same(shown["Share"], own.get(ranked, 0) / whole)


@with_gpu
def test_operators(path: Path) -> None:
    report = report_of(path)
    found, rows = plain(report)["operators"], plain(report)["operators"]["rows"]
    on_device = any(row["device_self_ns"] for row in rows)
    table = section(report, f"Operators by {'device' if on_device else 'host'} self time").rows()
    fields = OPERATORS if on_device else {title: OPERATORS[title] for title in ("Calls", "CPU self", "CPU total")}
    assert len(table) >= min(10, len(rows)), "a page that is too long shows fewer rows"
    if "Calls/step" in table[0]:
        compare_steps(table, found, plain(report)["recording"]["typical"]["steps"], fields, {})
        return
    compare(table, rows, fields)
    assert set(fields) < set(table[0])
    assert [row["Operator"] for row in table] == [row["name"] for row in rows[: len(table)]]


@with_gpu
def test_kernels(path: Path) -> None:
    report = report_of(path)
    found, rows = plain(report)["kernels"], plain(report)["kernels"]["rows"]
    table = section(report, "Kernels").rows()
    if "Calls/step" in table[0]:
        figures = {title: field for title, field in KERNELS.items() if title not in ("Calls", "Total")}
        sums = {"Calls": "calls", "Total": "total_ns"}
        compare_steps(table, found, plain(report)["recording"]["typical"]["steps"], sums, figures)
        return
    compare(table, rows, KERNELS)
    tensor_cores = {True: "yes", False: "no", None: "unknown"}
    assert [row["Tensor cores"] for row in table] == [tensor_cores[row["tensor_cores"]] for row in rows[: len(table)]]
    whole = sum(row["total_ns"] for row in rows)
    for shown, row in zip(table, rows, strict=False):
        same(shown["Share"], row["total_ns"] / whole)


def _names(shown: str, name: str) -> bool:
    """Whether a name is shown like this, perhaps shortened in the middle."""
    first, cut, last = shown.partition("...")
    return shown == name or bool(cut and name.startswith(first) and name.endswith(last))


def test_both_kinds_of_tables_are_compared() -> None:
    tables = [section(report_of(path), "Kernels").rows()[0] for path in SOUND if "kernels" in plain(report_of(path))]
    assert {"Calls/step" in row for row in tables} == {True, False}


@with_gpu
def test_gpus(path: Path) -> None:
    report = report_of(path)
    devices = [{**each, **each["typical"]} for each in plain(report)["gpu"]["devices"]]
    devices = [{**each, "idle_share": 1 - each["busy_share"]} for each in devices]
    table = section(report, "GPU").rows()
    compare(table, devices, GPU)
    assert len(table) == len(devices)
    missing = set(GPU) - set(table[0])
    assert all(device[GPU[title]] is None for title in missing for device in devices)


def test_which_fixtures_have_kernels_and_steps() -> None:
    reports = {path: report_of(path) for path in SOUND}
    assert [path for path in SOUND if plain(reports[path]).get("kernels", {}).get("rows")] == WITH_GPU
    assert {path.name for path, found in reports.items() if found.trace.steps_from != "ProfilerStep"} == NOT_PROFILED  # type: ignore[union-attr]


@pytest.mark.parametrize("path", [p for p in SOUND if p.name not in NOT_PROFILED], ids=lambda p: p.name)
def test_steps(path: Path) -> None:
    report = report_of(path)
    steps = plain(report)["step_breakdown"]["steps"]
    found = readback.parts(render(report, "markdown"))
    if len(steps) == 1:
        assert "Steps" not in found
        return
    table = found["Steps"].rows()
    compare(table, steps, STEPS)
    assert [row["Step"] for row in table] == [step["name"] for step in steps]


def test_the_trace_itself() -> None:
    report = report_of(TRAINING)
    part = section(report, "Trace")
    assert report.trace is not None
    same(part.facts["Size"], report.source.size_bytes)
    same(part.facts["Events"], report.trace.events)
    same(part.facts["Time span"], report.trace.span_ns)
    (device,) = part.rows()
    assert device["Name"] == report.trace.devices[0].name
    same(device["Memory"], report.trace.devices[0].memory_bytes)


# Unknown


def rocm() -> Report:
    trace = TraceBuilder(ROCM)
    trace.step(1, 0, 500)
    trace.op("aten::mm", 10, 100)
    trace.launch_kernel("Cijk_unheard_of", 100, 50, at=20)
    return analyze(read_built(trace))


def test_unknown_is_said_and_is_not_zero() -> None:
    report = rocm()
    (row,) = plain(report)["kernels"]["rows"]
    assert row["mean_blocks_per_sm"] is None
    assert row["mean_est_achieved_occupancy"] is None
    (shown,) = section(report, "Kernels").rows()
    assert (shown["Blocks per SM"], shown["Est. occupancy"]) == ("unknown", "unknown")
    assert "Est. occupancy" not in section(report, "GPU").rows()[0], "a column without a figure is left out"
    assert "occupancy" not in render(report, "terminal")


def test_zero_is_said_and_is_not_unknown() -> None:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 100)
    trace.op("aten::relu", 100, 50)
    trace.launch_kernel("ampere_sgemm_64x64_nn", 50, 20, at=10, occupancy=0)
    report = analyze(read_built(trace))
    idle = section(report, "Operators by device self time").rows()[1]
    assert (idle["Operator"], idle["Device self"], idle["Share"]) == ("aten::relu", "0 ns", "0.00 %")


def test_what_the_file_does_not_say_about_a_device_is_unknown() -> None:
    bare = TraceBuilder(devices=(type(A100)("Some GPU", 0),))
    bare.op("aten::mm", 0, 100)
    bare.launch_kernel("k", 50, 20, at=10)
    (device,) = section(analyze(read_built(bare)), "Trace").rows()
    assert device["Compute capability"] == device["Multiprocessors"] == "unknown"


@pytest.mark.parametrize("unit", ["ns", "bytes", "share", "count", "number", "bool", ""])
def test_null_is_unknown_in_every_unit(unit: str) -> None:
    assert units.render(None, unit) == "unknown"


# Units


@given(st.integers(min_value=0, max_value=10**16))
def test_times_are_shown_to_four_digits(value: int) -> None:
    assert quantity(units.nanoseconds(value)) == pytest.approx(value, rel=6e-4)


@given(st.integers(min_value=0, max_value=2**50))
def test_sizes_are_shown_to_four_digits(value: int) -> None:
    assert quantity(units.size(value)) == pytest.approx(value, rel=6e-4)


@given(st.lists(st.integers(min_value=0, max_value=10**13), min_size=2, max_size=2))
def test_more_time_never_looks_like_less(pair: list[int]) -> None:
    shorter, longer = (quantity(units.nanoseconds(value)) for value in sorted(pair))
    assert shorter is not None
    assert longer is not None
    assert shorter <= longer


@pytest.mark.parametrize(
    ("render_unit", "value", "text"),
    [
        (units.nanoseconds, 0, "0 ns"),
        (units.nanoseconds, 999, "999 ns"),
        (units.nanoseconds, 999.96, "1.000 us"),
        (units.nanoseconds, 148_736_000, "148.7 ms"),
        (units.nanoseconds, 999_960, "1.000 ms"),
        (units.nanoseconds, 5_000_000_000_000, "5,000 s"),
        (units.size, 1024, "1.000 KiB"),
        (units.size, 101_303_910, "96.61 MiB"),
        (units.share, 0.67821, "67.82 %"),
        (units.count, 12_345, "12,345"),
        (units.count, 846.7, "847"),
        (units.count, 1.427, "1.4"),
        (units.count, 2.03, "2"),
        (units.count, 0.0125, "0.013"),
        (units.number, 0.0741, "0.074"),
        (units.yes_no, False, "no"),
    ],
)
def test_quantities_as_people_read_them(render_unit: Callable[[Any], str], value: float, text: str) -> None:
    assert render_unit(value) == text
