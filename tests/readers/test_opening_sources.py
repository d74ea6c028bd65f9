"""Where bytes come from: files, pipes and standard input, and what is wrong with them."""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.readers.inflating import TEXT, library  # noqa: F401 - every test runs with both libraries
from traceanalyzer.errors import UnusableInputError
from traceanalyzer.readers.source import Source, open_source


class Pipe(io.RawIOBase):
    """Delivers a few bytes at a time, as a pipe may."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = min(len(buffer), 1 + len(self._data) % 977, len(self._data))
        buffer[:count], self._data = self._data[:count], self._data[count:]
        return count


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_pipes(pack: Any) -> None:
    source = Source(io.BufferedReader(Pipe(pack(TEXT))), "stdin", None, lambda _: None)  # type: ignore[arg-type]
    assert source.read(len(TEXT) + 1) == TEXT
    assert not source.losses


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_standard_input(pack: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(pack(TEXT))))
    with open_source("-") as source:
        assert (source.name, source.size_bytes) == ("stdin", None)
        assert source.read(len(TEXT) + 1) == TEXT
    assert not sys.stdin.closed


def test_empty_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(UnusableInputError, match=r"^stdin: is empty"), open_source("-"):
        pass


def test_files_know_their_name_and_size(tmp_path: Path) -> None:
    path = tmp_path / "some.json"
    path.write_bytes(gzip.compress(TEXT))
    with open_source(path) as source:
        assert (source.name, source.size_bytes) == ("some.json", path.stat().st_size)
        assert source.read(9) == TEXT[:9]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: None, "no such file"),
        (lambda path: path.mkdir(), "is a directory; give a file in it"),
        (lambda path: path.write_bytes(b""), r"is empty \(0 bytes\)"),
    ],
    ids=["missing", "folder", "empty"],
)
def test_what_cannot_be_read_is_said_in_one_line(make: Any, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "some.json"
    make(path)
    with pytest.raises(UnusableInputError, match=rf"some\.json: {reason}$") as error, open_source(path):
        pass
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("runs/trace.jsn.gz", "runs/trace.json.gz"),
        ("runs/Trace.json.gz", "runs/trace.json.gz"),
        ("rums/trace.json.gz", "runs"),
        ("runs/other.txt", None),
        ("elsewhere/at/all", None),
    ],
)
def test_a_mistyped_path_is_told_the_one_that_is_there(
    typed: str, meant: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    for name in ("trace.json.gz", "unlike"):
        Path("runs", name).write_bytes(b"{}")
    for path in (Path(typed), tmp_path / typed):
        shown = None if meant is None else Path(meant) if path == Path(typed) else tmp_path / meant
        with pytest.raises(UnusableInputError) as error, open_source(path):
            pass
        assert str(error.value) == f"{path}: no such file" + (f"; did you mean {shown}?" if shown else "")


def test_errors_of_the_file_system_are_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "some.json"
    path.write_bytes(b"{}")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UnusableInputError, match="cannot be read: Permission denied"), open_source(path):
        pass
