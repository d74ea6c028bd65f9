"""One recording through each of torch's writers gives one report, but for what a writer leaves out."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.builders import H100, TraceBuilder
from tests.builders.fixture_set import FOLDER
from tests.builders.writers import (
    LOST_BY_CUSPY,
    LOST_BY_MONITOR,
    NOT_WRITTEN,
    cupti_monitor,
    encoded,
    parsed,
    python_exporter,
    without,
)
from tests.conftest import FULL
from tests.corpus_files import report_of
from tests.reading import content, read, read_built
from traceanalyzer.formats import render
from traceanalyzer.inputs.opening import load
from traceanalyzer.pipeline import analyze
from traceanalyzer.report.model import Report


def example() -> TraceBuilder:
    """A step with an operator, a launch, a copy and records of memory."""
    trace = TraceBuilder(devices=(H100,), options=("record_shapes", "profile_memory"))
    trace.step(3, 0, 400)
    trace.op("aten::mm", 20, 60, shapes=[[8, 3], [3, 2]], types=["float", "float"])
    trace.launch_kernel("ampere_sgemm_128x64_nn", 90, 30, at=30, grid=(54, 2, 1), block=(256, 1, 1))
    trace.memcpy("HtoD", 4096, 130, 12, at=110)
    trace.memory(1024, 35, addr=512, allocated=2048, reserved=4096, device=0)
    trace.memory(-1024, 45, addr=512, allocated=1024, reserved=4096, device=0)
    return trace


def test_records_of_memory_that_are_slices() -> None:
    """Torch 2.13's exporter in Python gives them the phase X, and a duration of 0."""
    found, usual = read(python_exporter(example().to_bytes())), read_built(example())
    assert content(found)["memory"] == content(usual)["memory"] != []
    assert found.info.options.profile_memory
    assert found.losses == ()


def test_other_slices_of_their_category_are_counted_as_such() -> None:
    trace = example()
    trace.raw({"ph": "X", "cat": "cpu_instant_event", "name": "[other]", "pid": 1, "tid": 1, "ts": 50, "dur": 1})
    found = read_built(trace)
    (loss,) = found.losses
    assert (loss.id, loss.count, loss.params) == ("read-phase", 1, {"phase": "X", "category": "cpu_instant_event"})


def test_number_of_multiprocessors_in_the_place_of_threads() -> None:
    (device,) = read(python_exporter(example().to_bytes())).info.devices
    (usual,) = read_built(example()).info.devices
    assert device == usual
    assert device.sm_count == 132


def sms(**entry: object) -> int | None:
    trace = example()
    data = trace.build()
    data["deviceProperties"] = [{"id": 0, **entry}]
    return read(encoded(data)).info.devices[0].sm_count


def test_multiprocessors_are_what_the_data_sheet_allows() -> None:
    h100 = {"name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_029_158_912}
    assert sms(maxThreadsPerMultiprocessor=108) == 108
    assert sms(maxThreadsPerMultiprocessor=1024) is None  # threads, as of Turing
    assert sms(**h100, maxThreadsPerMultiprocessor=132) == 132
    assert sms(**h100, maxThreadsPerMultiprocessor=900) == 132
    assert sms(**h100, maxThreadsPerMultiprocessor=2048) == 132
    assert sms(**h100, numSms=114, maxThreadsPerMultiprocessor=2048) == 114


def test_unusual_writers_are_named_on_the_first_screen() -> None:
    """Their traces leave out what a reader may miss; those of Kineto are what everyone has."""
    data = (FOLDER / "synthetic" / "gpu_training.json.gz").read_bytes()
    unusual, usual = (render(analyze(read(each)), "terminal", 10) for each in (cupti_monitor(data), data))
    assert "Written by: torch 2.13 or later, CUPTI monitor" in unusual
    assert "Written by" not in usual.partition("What to change")[0]


def test_the_writer_is_known_by_what_only_it_writes() -> None:
    python = python_exporter(example().to_bytes())
    assert read_built(example()).info.writer == "kineto"
    assert read(python).info.writer == "python-exporter"
    assert read(encoded(parsed(python))).info.writer == "python-exporter"  # saved again by another program
    assert read(encoded({"traceEvents": parsed(python)["traceEvents"]})).info.writer is None
    assert read(python_exporter(TraceBuilder.to_bytes(without_devices()))).info.writer == "python-exporter"


def without_devices() -> TraceBuilder:
    trace = TraceBuilder(devices=())
    trace.op("aten::mm", 20, 60)
    return trace


def facts_of(report: Report) -> dict[str, Any]:
    """Everything that a report says, but for its file and what it was read from."""
    found: dict[str, Any] = json.loads(msgspec.json.encode(report))
    return {key: value for key, value in found.items() if key not in ("source", "trace")}


PATHS = sorted((FOLDER / "captured").glob("*.json.gz")) + sorted((FOLDER / "synthetic").glob("gpu_training*.json.gz"))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_reports_of_the_python_exporter(path: Path) -> None:
    report, usual = analyze(read(python_exporter(path.read_bytes()))), analyze(load(path))
    assert facts_of(report) == facts_of(usual)
    assert report.trace is not None
    assert report.trace.writer == "python-exporter"


MONITORED = ("gpu_training", "gpu_training_fed", "planted_faults", "serving_graphs", "ddp_nccl")


@pytest.mark.parametrize("lost", [LOST_BY_MONITOR, LOST_BY_CUSPY], ids=["2.13", "2.15"])
@pytest.mark.parametrize("name", MONITORED)
def test_reports_of_the_cupti_monitor(name: str, lost: tuple[str, ...]) -> None:
    """They are those of Kineto's traces in which kernels lack what the monitor does not write."""
    data = (FOLDER / "synthetic" / f"{name}.json.gz").read_bytes()
    report, usual = analyze(read(cupti_monitor(data, lost))), analyze(read(without(data, lost)))
    assert facts_of(report) == facts_of(usual)
    assert report.trace is not None
    assert report.trace.writer == "cupti-monitor"


def test_names_of_copies_and_fills_from_their_arguments() -> None:
    trace = TraceBuilder()
    trace.memcpy("HtoD", 64, 0, 1)
    trace.events[-1] |= {"name": "Memcpy"}
    trace.events[-1]["args"] |= {"copy kind": "DtoH", "src kind": "device_static", "dst kind": "pinned"}  # type: ignore[operator]
    trace.memcpy("HtoD", 64, 2, 1)
    trace.events[-1] |= {"name": "Memcpy"}
    trace.events[-1]["args"] |= {"copy kind": 11, "src kind": 9, "dst kind": "unknown"}  # type: ignore[operator]
    for kind in (3, 2, 99):
        trace.memset(64, 4 + kind, 1)
        trace.events[-1] |= {"name": "Memset"}
        trace.events[-1]["args"] |= {"memory kind": kind}  # type: ignore[operator]
    found = [row["name"] for row in content(read_built(trace))["device"]]
    assert found[0] == "Memcpy DtoH (Device Static -> Pinned)"
    assert found[1].startswith("Memcpy Unknown (")
    assert found[2:] == ["Memset (Pinned)", "Memset (Device)", "Memset (Unknown)"]


def in_a_graph() -> TraceBuilder:
    """Two kernels of a graph on two streams, and a callback and a record of an event between them."""
    trace = example()
    ident = trace.graph_launch(
        200,
        20,
        [("first", 230, 40, {"stream": 7}), ("second", 330, 40, {"stream": 8}), ("alone", 230, 10, {"stream": 8})],
    )
    first, second = (event for event in trace.events if event.get("name") in ("first", "second"))
    callback = trace.graph_node("HostNode: tell", 275, 50, ident)
    record = trace.graph_node("EventRecord", 326, 0, ident)
    for one, other in ((first, callback), (callback, record), (record, second)):
        trace.dependency(one, other)
    return trace


def test_nodes_of_graphs_that_are_no_work() -> None:
    """Records of events and callbacks are tables of their own."""
    found = read_built(in_a_graph())
    rows = content(found)["graph_nodes"]
    assert [(row["name"], row["dur_ns"], row["stream"]) for row in rows] == [
        ("HostNode: tell", 50_000, 7),
        ("EventRecord", 0, 7),
    ]
    assert found.losses == ()


def test_arrows_between_nodes_are_no_launches() -> None:
    found = read_built(in_a_graph())
    ends = list(zip(found.dependencies.start_ns.tolist(), found.dependencies.is_start.tolist(), strict=True))
    assert ends == [(270_000, 1), (275_000, 0), (325_000, 1), (326_000, 0), (326_000, 1), (330_000, 0)]
    assert len(found.flows) == len(read_built(example()).flows)


def test_arrows_of_launches_are_not_kept() -> None:
    """Every launch of a trace has one."""
    assert len(read_built(example()).dependencies) == 0


def recorded_on_nvidia(corpus: Path) -> list[Path]:
    """Traces of the corpus with kernels of CUDA, or without any device, in today's categories; the large ones not."""
    small = (path for path in sorted((corpus / "corpus").glob("*.json.gz")) if path.stat().st_size < LARGE)
    traces = {path: parsed(path.read_bytes()) for path in small}
    return [path for path, trace in traces.items() if is_of_nvidia(trace)]


LARGE = 500_000 if not FULL else 1 << 40
"""Bytes of a compressed trace from which on its reports take too long for a test, but for `make check-full`."""


def is_of_nvidia(trace: dict[str, Any]) -> bool:
    categories = {event.get("cat") for event in trace["traceEvents"]}
    makers = [device.get("name", "") for device in trace.get("deviceProperties", ())]
    return "cpu_op" in categories and all(maker.startswith(("NVIDIA", "Tesla")) for maker in makers)


def test_reports_of_the_python_exporter_in_the_corpus(corpus: Path) -> None:
    """Nothing is lost that a report shows."""
    paths = recorded_on_nvidia(corpus)
    assert len(paths) > 6
    for path in paths:
        assert facts_of(analyze(read(python_exporter(path.read_bytes())))) == facts_of(report_of(path)), path.name


@pytest.mark.parametrize("lost", [LOST_BY_MONITOR, LOST_BY_CUSPY], ids=["2.13", "2.15"])
def test_reports_of_the_cupti_monitor_in_the_corpus(corpus: Path, lost: tuple[str, ...]) -> None:
    """They are those of the originals without what the table in docs/formats.md says to be lost."""
    paths = recorded_on_nvidia(corpus)
    assert paths
    for path in paths:
        data = path.read_bytes()
        report, usual = analyze(read(cupti_monitor(data, lost))), analyze(read(without(data, lost)))
        assert facts_of(report) == facts_of(usual), path.name


def test_what_is_lost_is_documented() -> None:
    """The table in docs/formats.md has each option, argument and category that a dialect does not have."""
    text = (Path(__file__).parents[3] / "docs" / "formats.md").read_text("utf-8")
    rows = re.findall(r"^\| ([^|]+) \| (`[^|]+) \| [^|]+ \|$", text.partition("## What each writer loses")[2], re.M)
    assert {name: sorted(re.findall("`([^`]+)`", keys)) for name, keys in rows} == {
        name: sorted(keys) for name, keys in NOT_WRITTEN.items()
    }
