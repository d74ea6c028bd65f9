"""Recordings of captures are distinguished from those of replays by folder, by name and by content."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import TraceBuilder
from tests.builders.graph_capture import captured, model, replayed
from traceanalyzer.inputs import capture_files, discovery, sniffing
from traceanalyzer.inputs.sniffing import SniffedFile

CAPTURE, REPLAY = captured([("", model(2))]), replayed([model(2)])


def seen(folder: Path, files: dict[str, TraceBuilder]) -> list[SniffedFile]:
    """The files of a folder as its readers see them."""
    for name, trace in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        trace.write(folder / name)
    return sniffing.that_count([sniffing.sniff(file) for file in discovery.find([str(folder)])])


def names(files: list[SniffedFile]) -> list[str]:
    return sorted(file.found.name for file in files)


@pytest.mark.parametrize(
    ("name", "trace", "is_apart"),
    [
        ("capture_traces/a.json", CAPTURE, True),
        ("capture_traces/a.json", REPLAY, True),
        ("graph_capture_profile/DecodeCudaGraphRunner_bs_24_rank0.json", CAPTURE, True),
        ("graph_capture_profile/cuda_graph_capture-DecodeCudaGraphRunner-TP-0.json", REPLAY, True),
        ("cuda_graph_capture-DecodeCudaGraphRunner-TP-0.json", CAPTURE, True),
        ("Capture_Traces/a.json", REPLAY, True),
        ("decode_capture.json", CAPTURE, True),
        ("captured-3.json", CAPTURE, True),
        ("decode_capture.json", REPLAY, False),
        ("recaptured.json", CAPTURE, False),
        ("a.json", CAPTURE, False),
    ],
)
def test_a_folder_tells_all_and_a_name_only_what_the_file_confirms(
    name: str, trace: TraceBuilder, is_apart: bool, tmp_path: Path
) -> None:
    files = seen(tmp_path, {"decode.json": REPLAY, name: trace})
    traces, captures = capture_files.set_apart(files)
    assert names(captures) == ([name] if is_apart else [])
    assert names(traces) == sorted({"decode.json", name} - set(names(captures)))


def test_a_folder_of_captures_alone_is_what_was_asked_for(tmp_path: Path) -> None:
    files = seen(tmp_path, {"capture_a.json": CAPTURE, "capture_b.json": CAPTURE})
    for told in (capture_files.set_apart(files), capture_files.set_apart_by_content(files)):
        assert [names(part) for part in told] == [["capture_a.json", "capture_b.json"], []]


def test_content_tells_where_no_name_does_and_few_files_lie(tmp_path: Path) -> None:
    few = seen(tmp_path / "few", {"first.json": CAPTURE, "second.json.gz": REPLAY})
    assert [names(part) for part in capture_files.set_apart_by_content(few)] == [["second.json.gz"], ["first.json"]]
    many = seen(tmp_path / "many", {"first.json": CAPTURE} | {f"rank{n}.json": REPLAY for n in range(16)})
    assert capture_files.set_apart_by_content(many) == (many, [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cudaStreamBeginCapture", True),
        ("hipStreamBeginCapture ... hipGraphLaunch", False),
        ("cudaGraphLaunch ... cudaStreamBeginCapture", False),
        ("cudaStreamEndCapture", False),
    ],
)
def test_a_capture_begins_captures_and_launches_no_graph(text: str, expected: bool, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)
    assert capture_files.holds_only_captures(str(tmp_path / "a.json")) is expected


def test_a_name_is_found_across_the_pieces_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.json").write_text("x" * 40 + "cudaStreamBeginCapture" + "y" * 40)
    for size in (18, 25, 45, 50):
        monkeypatch.setattr(capture_files, "_PIECE", size)
        assert capture_files.holds_only_captures(str(tmp_path / "a.json")), size


def test_what_cannot_be_read_is_no_capture(tmp_path: Path) -> None:
    (tmp_path / "a.json.gz").write_bytes(b"\x1f\x8b garbage")
    assert not capture_files.holds_only_captures(str(tmp_path / "a.json.gz"))
    assert not capture_files.holds_only_captures(str(tmp_path / "none.json"))
