"""Copies of traces of devices that are not GPUs: names of programs are hashed, and what belongs together is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders import TraceBuilder
from tests.reading import read
from traceanalyzer.analyzers.kernels import accelerators
from traceanalyzer.analyzers.kernels.accelerators import AcceleratorUse
from traceanalyzer.rewrite.anonymize import anonymize
from traceanalyzer.rewrite.trim import trim
from traceanalyzer.structure.context import Context

EVENTS: list[dict[str, Any]] = [
    {"cat": "mtia_ccp_events", "name": "acme_secret_merge", "pid": 0, "tid": 1},
    {"cat": "mtia_ccp_events", "name": "acme_secret_wait", "pid": 0, "tid": 1},
    {"cat": "mtia_ccp_events", "name": "memcpy_acme_secret", "pid": 0, "tid": 2},
    {"cat": "mtia_ccp_events", "name": "event_wait", "pid": 0, "tid": 2},
    {"name": "AcmeSecretKernel", "pid": 7_000_001, "tid": 1, "args": {"Task Type": "AI_CORE"}},
    {"name": "hcom_secret_acme", "pid": 7_000_001, "tid": 1, "args": {"Task Type": "AI_VECTOR_CORE"}},
    {"name": "x", "pid": 7_000_001, "tid": 1, "args": {"Task Type": "ACME_SECRET_WAIT_SQE"}},
    {"name": "y", "pid": 7_000_001, "tid": 1, "args": {"Task Type": "acme secret"}},
    {"cat": "hpu_op", "name": "acme_secret_fwd", "pid": 0, "tid": 6000, "args": {"HW event name": "MMEH_ACME_SECRET"}},
    {"cat": "hpu_op", "name": "acme_secret_nic", "pid": 0, "tid": 8000, "args": {"HW event name": "STM_0_RX_SECRET"}},
    {"cat": "hpu_op", "name": "acme_secret_dma", "pid": 0, "tid": 4000, "args": {"HW event name": "SECRET_DMA"}},
]


def secret_trace() -> TraceBuilder:
    trace = TraceBuilder(devices=())
    trace.op("aten::mm", 0, 10)
    for number, event in enumerate(EVENTS):
        trace.raw({"ph": "X", "ts": trace.stamp(1000 * 10 * number), "dur": 7 + number} | event)
    return trace


def figures(path: Path) -> list[dict[str, Any]]:
    """All figures of all devices, without the names."""
    return [_figures(use) for use in accelerators.analyze(Context(read(path.read_bytes()))).devices]


def _figures(use: AcceleratorUse) -> dict[str, Any]:
    fields = {name: getattr(use, name) for name in use.__struct_fields__ if name != "tasks"}
    return fields | {"tasks": [(task.kind, task.calls, task.total_ns) for task in use.tasks]}


@pytest.mark.parametrize("hash_kernels", [False, True])
def test_names_of_a_program_are_hashed_and_every_figure_stays(hash_kernels: bool, tmp_path: Path) -> None:
    source, target = secret_trace().write(tmp_path / "t.json"), tmp_path / "shared.json"
    anonymize(str(source), target, key="k", hash_kernels=hash_kernels)
    assert "secret" not in target.read_text("utf-8").lower()
    assert figures(target) == figures(source)
    assert len(figures(source)) == 3
    names = {event["name"] for event in json.loads(target.read_bytes())["traceEvents"]}
    assert "event_wait" in names


def requests() -> TraceBuilder:
    """Two requests; the work of the first, and a wait, run into the second."""
    trace = TraceBuilder(devices=())
    for number, (name, start) in enumerate((("first", 0), ("second", 1000))):
        trace.op(f"aten::{name}", start, 100)
        args = {"correlation": 50 + number}
        trace.add("mtia_runtime", f"run {name}", (start + 10, 20), trace.thread(None), args)
        trace.add("mtia_ccp_events", name, (start + 500, 700), (0, 4), args)
    trace.add("mtia_ccp_events", "event_wait", (100, 200), (0, 5), {})
    work = {"Task Type": "AI_CORE"}
    for at in (200, 1200):
        trace.raw(
            {"ph": "X", "ts": trace.stamp(at * 1000), "dur": 50, "name": f"npu_{at}", "pid": 9, "tid": 1, "args": work}
        )
    return trace


def test_a_part_of_a_trace_has_what_it_launched_and_what_runs_in_it(tmp_path: Path) -> None:
    source = requests().write(tmp_path / "t.json")
    trim(str(source), tmp_path / "cut.json", time_ns=(1_000_000, 1_300_000))
    events = json.loads((tmp_path / "cut.json").read_bytes())["traceEvents"]
    kept = {event["name"] for event in events if event["ph"] == "X" and event.get("cat") != "Trace"}
    # "first" runs until 1200, so its call is kept; "second" starts at 1500, launched at 1010
    assert kept == {"aten::second", "run first", "first", "run second", "second", "npu_1200"}
