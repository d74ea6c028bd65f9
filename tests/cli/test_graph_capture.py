"""`report --graph-capture`, and captures that lie in the folder of a trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import traceanalyzer as ta
from tests.builders import TraceBuilder
from tests.builders.graph_capture import captured, model, replayed
from tests.cli.running import FIXTURES, assert_one_line, call
from traceanalyzer.errors import UnusableInputError, UsageError

NODES = model(4)


@pytest.fixture
def replay(tmp_path: Path) -> Path:
    return replayed([NODES] * 3).write(tmp_path / "decode.json.gz")


def capture(path: Path, layers: int = 4, rank: int | None = None) -> Path:
    path.parent.mkdir(exist_ok=True)
    return captured([("", model(layers))], rank=rank).write(path)


def report(*arguments: str | Path) -> dict[str, Any]:
    run = call("report", *arguments, "--format", "json", "-o", "-")
    assert run.code == 0, run.err
    found: dict[str, Any] = json.loads(run.out)
    return found


def accepted(found: dict[str, Any]) -> dict[str, bool]:
    return {entry["name"]: entry["accepted"] for entry in found["analyses"]["graph_join"]["captures"]}


def warnings(found: dict[str, Any]) -> dict[str, str]:
    return {warning["id"]: warning["message"]["text"] for warning in found["warnings"]}


def test_a_named_capture_is_joined_and_every_format_says_so(replay: Path, tmp_path: Path) -> None:
    named = capture(tmp_path / "capture.json.gz")
    found = report(replay, "--graph-capture", named)
    assert accepted(found) == {"capture.json.gz": True}
    assert found["analyses"]["graph_join"]["joined_share"] == 1.0
    assert found["analyses"]["joined_operators"]["rows"][0]["name"] == "aten::mm"
    assert "q-graph-opaque" not in warnings(found)
    assert "were joined with the operators of capture.json.gz" in warnings(found)["q-graph-joined"]
    for form in ("markdown", "html"):
        assert (
            "Operators in graphs (joined)"
            in call("report", replay, "--graph-capture", named, "--format", form, "-o", "-").out
        )
    assert "Operators in graphs (joined)" in call("report", replay, "--graph-capture", named).out
    folder = tmp_path / "tables"
    assert call("report", replay, "--graph-capture", named, "--format", "csv", "-o", folder).code == 0
    assert {"joined_operators.csv", "joined_operators_by_shape.csv", "joined_modules_tree.csv"} <= {
        file.name for file in folder.iterdir()
    }


def test_a_single_file_never_looks_beside_itself(replay: Path, tmp_path: Path) -> None:
    capture(tmp_path / "capture_traces" / "graph.json.gz")
    found = report(replay)
    assert "graph_join" not in found["analyses"]
    assert "q-graph-opaque" in warnings(found)


@pytest.mark.parametrize("where", ["capture_traces/graph.json.gz", "decode_capture.json.gz", "first.json.gz"])
def test_a_capture_in_the_folder_is_found(replay: Path, tmp_path: Path, where: str) -> None:
    capture(tmp_path / where)
    assert accepted(report(replay.parent)) == {where.rpartition("/")[2]: True}


def test_a_capture_that_was_found_and_does_not_agree_is_a_warning(replay: Path, tmp_path: Path) -> None:
    capture(tmp_path / "capture_traces" / "other.json.gz", layers=30)
    found = report(replay.parent)
    assert accepted(found) == {"other.json.gz": False}
    assert warnings(found)["q-capture-refused"] == (
        "other.json.gz was not joined with the graphs of the trace: none of its graphs has the length of what ran: "
        "the closest has 92 kernels, not 14."
    )
    assert "joined_operators" not in found["analyses"]
    assert "q-graph-opaque" in warnings(found)


def test_a_damaged_capture_in_the_folder_is_a_warning(replay: Path, tmp_path: Path) -> None:
    capture(tmp_path / "capture_traces" / "good.json.gz")
    (tmp_path / "capture_traces" / "trace_bad.json").write_text('{"traceEvents": 7}', "utf-8")
    found = report(replay.parent)
    assert accepted(found) == {"good.json.gz": True, "trace_bad.json": False}
    assert (
        "trace_bad.json was not joined with the graphs of the trace: it cannot be read"
        in (warnings(found)["q-capture-refused"])
    )


def test_the_ranks_of_a_run_are_reported_on_without_the_captures_beside_them(tmp_path: Path) -> None:
    for rank in range(2):
        replayed([NODES], rank=rank).write(tmp_path / f"rank{rank}.json.gz")
        capture(tmp_path / "capture_traces" / f"rank{rank}.json.gz", rank=rank)
    found = report(tmp_path)
    assert [row["rank"] for row in found["analyses"]["ranks"]["ranks"]] == [0, 1]


def test_of_named_captures_one_must_agree(replay: Path, tmp_path: Path) -> None:
    good, other = capture(tmp_path / "good.json.gz"), capture(tmp_path / "other.json.gz", layers=30)
    found = report(replay, "--graph-capture", other, "--graph-capture", good)
    assert accepted(found) == {"other.json.gz": False, "good.json.gz": True}
    assert assert_one_line(call("report", replay, "--graph-capture", other)) == (
        "traceanalyzer: other.json.gz: is not the capture of these graphs: none of its graphs has the length of what "
        "ran: the closest has 92 kernels, not 14\n"
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "no such file"),
        ("", "is empty"),
        ("Nothing to see here.", "contains"),
        ('{"traceEvents": 7}', "trace"),
    ],
)
def test_a_named_capture_that_cannot_be_read_is_one_line(
    replay: Path, tmp_path: Path, content: str | None, said: str
) -> None:
    named = tmp_path / "capture.json"
    if content is not None:
        named.write_text(content, "utf-8")
    line = assert_one_line(call("report", replay, "--graph-capture", named))
    assert "capture.json" in line
    assert said in line


def test_a_report_is_no_capture(replay: Path, tmp_path: Path) -> None:
    saved = tmp_path / "saved.json"
    assert call("report", replay, "-o", saved).code == 0
    assert "is not a trace" in assert_one_line(call("report", replay, "--graph-capture", saved))
    line = assert_one_line(call("report", saved, "--graph-capture", capture(tmp_path / "capture.json.gz")))
    assert "is a saved report; captures can only be joined with a trace" in line


def test_captures_need_a_trace_that_launches_graphs(tmp_path: Path) -> None:
    eager = TraceBuilder()
    eager.launch_kernel("a", 10, 5, at=0)
    line = assert_one_line(
        call("report", eager.write(tmp_path / "a.json"), "--graph-capture", capture(tmp_path / "capture.json.gz"))
    )
    assert "the trace launches no graphs" in line
    printed = ta.load(FIXTURES / "captured" / "two_threads.key_averages.txt")
    with pytest.raises(UsageError, match="captures of graphs are joined only with traces"):
        ta.analyze(printed, graph_captures=["capture.json.gz"])


def test_captures_can_be_given_in_python(replay: Path, tmp_path: Path) -> None:
    named = capture(tmp_path / "capture.json.gz")
    by_path = ta.analyze(ta.load(replay), graph_captures=[named])
    by_trace = ta.analyze(ta.load(replay), graph_captures=[ta.load(named)])
    assert by_path == by_trace
    with pytest.raises(UnusableInputError, match="is not the capture"):
        ta.analyze(ta.load(replay), graph_captures=[capture(tmp_path / "other.json.gz", layers=30)])
