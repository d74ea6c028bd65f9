"""`traceanalyzer batch` on the command line: exit codes, printed text, and modules that must not be imported."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.batching.making import population, trace, write
from tests.cli.running import assert_one_line, call, environment, spawn

JSON = ("--format", "json")


def test_done(tmp_path: Path) -> None:
    run = call("batch", population(tmp_path / "in", 2, 0), "-o", tmp_path / "out", *JSON)
    assert run.code == 0
    assert run.stdout == b""
    first, second = run.err.splitlines()[-2:]
    assert first == "2 analyzed, 0 failed, 0 left out"
    assert second == f"Wrote {tmp_path / 'out'}/: index.html, index.md, summary.csv, summary.parquet"


def test_failures_are_one_line_each(tmp_path: Path) -> None:
    source = population(tmp_path / "in", 2, 3)
    run = call("batch", source, "-o", tmp_path / "out", *JSON)
    assert run.code == 1
    lines = [line for line in run.err.splitlines() if line.startswith("part_")]
    assert len(lines) == 3
    assert lines[0] == "part_0/000_empty.json: is empty (0 bytes)"
    assert any(line.startswith("part_1/001_cut_in_header.json: ") for line in lines)
    assert any("002_words.json: contains neither" in line for line in lines)
    assert call("batch", source, "-o", tmp_path / "out", "--allow-failures", *JSON).code == 0


def test_quiet(tmp_path: Path) -> None:
    run = call("batch", population(tmp_path / "in", 1, 2), "-o", tmp_path / "out", "-q", *JSON)
    assert (run.code, run.stdout, run.stderr) == (1, b"", b"")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("{in}", "-o", "{out}", "--memory", "lots"), "not a size"),
        (("{in}/missing", "-o", "{out}"), "no such file or folder"),
        (("{in}/*.png", "-o", "{out}"), "no file matches"),
        (("{in}",), "'-o'"),
        (("-o", "{out}"), "INPUT"),
        (("{in}", "-o", "{out}", "--jobs", "0"), "--jobs"),
        (("{in}", "-o", "{out}", "--format", "terminal"), "--format"),
        (("{in}", "-o", "{in}/x.json"), "cannot be"),
        (("{in}", "-o", "{out}", "--lang", "xx"), "no such language"),
        (("nowhere://x", "-o", "{out}"), "nowhere://x"),
    ],
)
def test_unusable(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    write(tmp_path / "in" / "x.json", trace())
    filled = [argument.format(**{"in": tmp_path / "in", "out": tmp_path / "out"}) for argument in arguments]
    assert says in assert_one_line(call("batch", *filled))


@pytest.mark.parametrize(
    ("library", "arguments", "extra"),
    [
        ("fsspec", ("s3://bucket/x", "-o", "{out}"), "s3"),
        ("s3fs", ("s3://bucket/x", "-o", "{out}"), "s3"),
        ("gcsfs", ("gs://bucket/x", "-o", "{out}"), "gs"),
        ("distributed", ("{in}", "-o", "{out}", "--cluster", "tcp://127.0.0.1:1"), "distributed"),
    ],
)
def test_a_missing_library_is_one_line(
    tmp_path: Path, library: str, arguments: tuple[str, ...], extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if library != "fsspec" and library != "distributed":
        pytest.importorskip("fsspec", reason="fsspec is not installed")
    monkeypatch.setitem(sys.modules, library, None)
    write(tmp_path / "in" / "x.json", trace())
    filled = [argument.format(**{"in": tmp_path / "in", "out": tmp_path / "out"}) for argument in arguments]
    assert f"pip install 'torch-traceanalyzer[{extra}]'" in assert_one_line(call("batch", *filled))


def test_local_files_need_no_extra(tmp_path: Path) -> None:
    """Libraries of stores and clusters are not even imported."""
    source = population(tmp_path / "in", 2, 0)
    program = (sys.executable, "-X", "importtime", "-m", "traceanalyzer")
    run = spawn("batch", source, "-o", tmp_path / "out", *JSON, program=program)
    imported = {line.rpartition("|")[2].strip() for line in run.err.splitlines() if line.startswith("import time:")}
    assert "sqlite3" in imported
    assert not imported & {"fsspec", "s3fs", "distributed", "dask", "torch", "matplotlib"}


def test_the_help_says_everything(tmp_path: Path) -> None:
    run = call("batch", "--help")
    assert run.code == 0
    for word in ("--cluster", "--memory", "--jobs", "--allow-failures", "130"):
        assert word in run.out


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_a_bar_on_a_terminal(tmp_path: Path) -> None:
    """Files, bytes, rate and time left; failures appear above the bar."""
    import pty  # noqa: PLC0415 - not on Windows
    import subprocess  # noqa: PLC0415

    source = population(tmp_path / "in", 40, 2)
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "traceanalyzer", "batch", source, "-o", tmp_path / "out", *JSON],
        stderr=theirs,
        env=environment(TERM="xterm", COLUMNS="160"),
    ) as program:
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 65536):
                shown += piece
        except OSError:  # the other end is closed
            pass
    os.close(ours)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode("utf-8", "replace"))
    assert program.returncode == 1
    assert "/41 files" in text
    assert re.search(r"\d+(\.\d+)?/\d+(\.\d+)? (bytes|KiB|kB)", text)
    assert "001_cut_in_header.json: " in text
    assert "40 analyzed, 2 failed" in text
