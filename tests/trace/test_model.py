"""The trace as people look at it: data frames."""

from __future__ import annotations

import sys

import pytest

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.errors import MissingDependencyError
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.tables import MemoryEvents


def example() -> Trace:
    trace = TraceBuilder()
    trace.step(3, 0, 400)
    trace.op("aten::mm", 20, 60, shapes=[[8, 3], [3, 2]])
    trace.launch_kernel("ampere_sgemm_128x64_nn", 90, 30, at=30, grid=(54, 2, 1))
    trace.memcpy("HtoD", 4096, 130, 12, at=110)
    trace.op("aten::relu", 200, 40, tid=77)
    trace.python_function("train.py(12): step", 5, 300)
    trace.gpu_annotation("ProfilerStep#3", 90, 52, external_id=1)
    trace.sync("Stream Sync", 150, 3, stream=7)
    trace.memory(1024, 35, device=0)
    return read_built(trace)


def test_all_events_as_one_data_frame() -> None:
    trace = example()
    frame = trace.events.to_pandas()
    assert len(frame) == len(trace.events) == 10
    assert frame["start_ns"].is_monotonic_increasing
    assert sorted(frame["category"]) == sorted(
        [
            "annotation",
            "operator",
            "operator",
            "frame",
            "runtime",
            "runtime",
            "kernel",
            "memcpy",
            "gpu_annotation",
            "sync",
        ]
    )


def test_texts_are_decoded_and_unknown_values_missing() -> None:
    frame = example().events.to_pandas()
    kernel = frame[frame["category"] == "kernel"].iloc[0]
    assert (kernel["name"], kernel["start_ns"], kernel["dur_ns"]) == ("ampere_sgemm_128x64_nn", 90_000, 30_000)
    assert (kernel["grid"], kernel["device"], kernel["stream"]) == ("[54,2,1]", 0, 7)
    launch = frame[frame["category"] == "runtime"].iloc[0]
    assert launch["correlation"] == kernel["correlation"] == 1001
    relu = frame[frame["name"] == "aten::relu"].iloc[0]
    assert (relu["pid"], relu["tid"], relu["shapes"]) == ("4201", "77", "")
    assert relu[["device", "stream", "bytes"]].isna().all()
    assert frame[frame["name"] == "aten::mm"].iloc[0]["shapes"] == "[[8,3],[3,2]]"


def test_data_frames_of_single_tables() -> None:
    trace = example()
    frame = trace.memory.to_pandas()
    assert list(frame.columns) == [column.name for column in MemoryEvents.columns()]
    assert frame["bytes"].tolist() == [1024]


def test_an_empty_data_frame() -> None:
    trace = TraceBuilder()
    trace.memory(1024, 35, device=0)
    frame = read_built(trace).events.to_pandas()
    assert len(frame) == 0
    assert frame["start_ns"].dtype == "int64"


def test_without_pandas_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    trace = example()
    for table in (trace.events, trace.host):
        with pytest.raises(MissingDependencyError, match=r"pip install 'torch-traceanalyzer\[pandas\]'"):
            table.to_pandas()
