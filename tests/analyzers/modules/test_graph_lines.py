"""The user's lines inside CUDA graphs, from the file that torch writes beside a trace."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.analyzers.modules.test_labels import graph
from tests.cli.running import assert_one_line, call
from traceanalyzer.analyzers.host.flame_frames import FlameFrames
from traceanalyzer.analyzers.modules.graph_lines import GraphLine, LinesOfGraphs
from traceanalyzer.errors import UnusableInputError
from traceanalyzer.inputs.opening import graph_stacks_beside, load, read_graph_stacks
from traceanalyzer.pipeline import analyze
from traceanalyzer.report.model import Report
from traceanalyzer.sections import modules as section

STACKS = {
    3 << 32 | 0: "model.py:12:forward\ntrain.py:40:step",
    3 << 32 | 1: "model.py:12:forward\ntrain.py:40:step",
    3 << 32 | 2: "train.py:40:step",
    3 << 32 | 3: "<no Python frames outside PyTorch>",
}


def written(path: Path, stacks: dict[int, str] = STACKS) -> Path:
    path.write_bytes(gzip.compress(json.dumps({str(node): text for node, text in stacks.items()}).encode()))
    return path


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Five kernels of 10 us; the writer keeps 32 bits of the ids of nodes, and the id of the graph."""
    return graph({}, {}, {}, {}, {}).write(tmp_path / "decode.json")


def lines(report: Report) -> LinesOfGraphs:
    found = report.result("graph_lines", LinesOfGraphs)
    assert found is not None
    return found


def test_kernels_belong_to_the_lines_that_made_them(trace: Path, tmp_path: Path) -> None:
    report = analyze(load(trace), graph_stacks=written(tmp_path / "lines.json.gz"))
    assert lines(report) == LinesOfGraphs(
        file="lines.json.gz",
        rows=(
            GraphLine("model.py(12): forward", 2, 20_000, 20_000),
            GraphLine("train.py(40): step", 1, 10_000, 30_000),
        ),
        attributed_ns=30_000,
        unattributed_ns=20_000,
    )
    assert [shown.id for shown in section.build_graph_lines(report, 5)] == ["graph-lines"]
    frames = report.result("flame_frames", FlameFrames)
    assert frames is not None
    assert ("model.py", 12, "forward") in {(frame.file, frame.line, frame.name) for frame in frames.frames}


def test_a_function_that_calls_itself_counts_once(trace: Path, tmp_path: Path) -> None:
    stacks = written(tmp_path / "lines.json.gz", {3 << 32: "a.py:1:f\na.py:1:f"})
    assert lines(analyze(load(trace), graph_stacks=stacks)).rows == (GraphLine("a.py(1): f", 1, 10_000, 10_000),)


@pytest.mark.parametrize("name", ["decode.stacks.json.gz", "decode_stacks.json.gz"])
def test_the_file_beside_the_trace_is_found(name: str, trace: Path) -> None:
    assert graph_stacks_beside(str(trace)) is None
    written(trace.with_name(name))
    result = call("report", str(trace), "--format", "json")
    assert b"model.py(12): forward" in result.stdout
    result = call("report", str(trace), "--format", "json", "--graph-stacks", str(trace.with_name(name)))
    assert b"model.py(12): forward" in result.stdout


def test_other_files_are_one_line(trace: Path, tmp_path: Path) -> None:
    of_another = written(tmp_path / "another.json.gz", {9 << 32: "a.py:1:f"})
    assert_one_line(call("report", str(trace), "--graph-stacks", str(of_another)))
    assert_one_line(call("report", str(trace), "--graph-stacks", str(trace)))
    assert_one_line(call("report", str(trace), "--graph-stacks", str(tmp_path / "none.json.gz")))
    written(tmp_path / "decode.stacks.json.gz", {9 << 32: "a.py:1:f"})
    assert call("report", str(trace)).code == 0


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"a": "b"}', '{"1": 2}', '{"' + "9" * 30 + '": "a.py:1:f"}', "[" * 9999]
)
def test_what_holds_no_stacks_is_an_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_text(text)
    with pytest.raises(UnusableInputError):
        read_graph_stacks(tmp_path / "odd.json")
