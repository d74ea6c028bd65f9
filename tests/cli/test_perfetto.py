"""The typical step for Perfetto: the recorded events of it, and what the report found as tracks beside them."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import FIXTURES, TRAINING, call
from tests.formats.samples import report_of
from traceanalyzer.analyzers.steps.slices import RecordedSlices
from traceanalyzer.formats.perfetto import PROCESS
from traceanalyzer.inputs.opening import load
from traceanalyzer.trace.model import Trace


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("perfetto")
    done = call("report", str(TRAINING), "--perfetto", str(folder), "-q")
    assert done.code == 0, done.err
    (file,) = folder.iterdir()
    assert file.name == "gpu_training.perfetto.json.gz"
    return file


def every(file: Path) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(gzip.decompress(file.read_bytes()), parse_float=Decimal)["traceEvents"]
    return events


def tracks(file: Path) -> dict[str, list[dict[str, Any]]]:
    """Events of the added process by the names of their tracks."""
    own = [event for event in every(file) if event["pid"] == PROCESS]
    names = {event["tid"]: event["args"]["name"] for event in own if event["name"] == "thread_name"}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in names.values()}
    for event in own:
        if event["ph"] == "X":
            found[names[event["tid"]]].append(event)
    return found


def test_every_event_has_what_the_format_asks_for(written: Path) -> None:
    own = [event for event in every(written) if event["pid"] == PROCESS]
    assert {event["ph"] for event in own} == {"M", "X"}
    for event in own:
        assert isinstance(event["name"], str)
        assert isinstance(event["tid"], int)
        assert isinstance(event["args"], dict)
        if event["ph"] == "X":
            assert event["dur"] >= 0
            assert event["ts"] >= 0
    assert next(event for event in own if event["name"] == "process_name")["args"] == {"name": "traceanalyzer"}


def test_events_of_a_track_are_nested_or_apart(written: Path) -> None:
    found = tracks(written)
    assert found
    for name, events in found.items():
        assert events, name
        open_until: list[Decimal] = []
        for event in sorted(events, key=lambda one: (one["ts"], -one["dur"])):
            while open_until and open_until[-1] <= event["ts"]:
                open_until.pop()
            assert not open_until or event["ts"] + event["dur"] <= open_until[-1], name
            open_until.append(event["ts"] + event["dur"])


def test_findings_path_idle_time_and_phases_are_tracks_of_the_step(written: Path) -> None:
    found = tracks(written)
    assert {"Critical path", "GPU 0 is idle, by cause"} < set(found)
    assert any(name.startswith("Finding: ") for name in found)
    assert any(name.startswith("Phases of thread ") for name in found)
    slices = report_of(TRAINING).result("slices", RecordedSlices)
    assert slices is not None
    typical = slices.times[0]
    path = found["Critical path"]
    assert round(sum(event["dur"] for event in path) * 1000) == typical.duration_ns
    idle = found["GPU 0 is idle, by cause"]
    assert round(sum(event["dur"] for event in idle) * 1000) == sum(typical.idle_duration)


def test_the_recorded_events_are_those_of_the_step_and_can_be_read(written: Path) -> None:
    trace, slices = load(str(written)), report_of(TRAINING).result("slices", RecordedSlices)
    assert isinstance(trace, Trace)
    assert slices is not None
    kernels: dict[str, int] = defaultdict(int)
    for lane in slices.times[0].lanes:
        kernels[lane.kind] += len(lane.start)
    assert len(trace.device) == kernels["device"]
    assert len(trace.launches) >= kernels["launches"]


def test_a_table_and_standard_input_cannot_be_shown_in_perfetto(tmp_path: Path) -> None:
    table = tmp_path / "table.txt"
    table.write_bytes((FIXTURES / "key_averages" / "async_and_nan.txt").read_bytes())
    done = call("report", str(table), "--perfetto", str(tmp_path / "out"))
    assert done.code == 2
    assert "a trace for Perfetto is made of a trace" in done.err
