"""The one writer of files: whole or not at all, and never over what is not ours."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.builders import TraceBuilder
from traceanalyzer import output
from traceanalyzer.errors import OutputError
from traceanalyzer.formats import render
from traceanalyzer.inputs.opening import load
from traceanalyzer.pipeline import analyze

OLD = "<!-- traceanalyzer report 0.0.1 -->\nold\n"
NEW = "<!-- traceanalyzer report 0.0.2 -->\nnew\n"
FOREIGN = "# My notes\n"


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


@contextmanager
def mask(value: int) -> Iterator[None]:
    before = os.umask(value)
    try:
        yield
    finally:
        os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# Whole or not at all


def test_the_text_is_written_as_utf8(tmp_path: Path) -> None:
    output.write(tmp_path / "x.md", "ядро 核心 █\n")
    assert (tmp_path / "x.md").read_bytes() == "ядро 核心 █\n".encode()
    assert names(tmp_path) == ["x.md"]


def test_lines_end_the_same_way_everywhere(tmp_path: Path) -> None:
    output.write(tmp_path / "x.md", "a\nb\r\n")
    assert (tmp_path / "x.md").read_bytes() == b"a\nb\r\n"


def test_half_a_character_does_not_stop_the_report(tmp_path: Path) -> None:
    output.write(tmp_path / "x.md", "caf\udce9\n")
    assert (tmp_path / "x.md").read_bytes() == b"caf?\n"


def fail_with(error: OSError) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


class _FullDisk:
    """A file that takes some bytes and then no more."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __enter__(self) -> _FullDisk:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)

    def write(self, data: bytes) -> int:
        os.write(self._handle, data[:5])
        raise OSError(28, "No space left on device")


FAILURES = {
    "the rename fails": ("replace", fail_with(OSError(5, "Input/output error")), "Input/output error"),
    "the disk is full": ("fdopen", lambda handle, *_, **__: _FullDisk(handle), "No space left on device"),
}
"""A function of `os` that fails, and the reason that users read."""


@pytest.mark.parametrize(("step", "broken", "reason"), FAILURES.values(), ids=FAILURES.keys())
def test_a_failure_in_the_middle_leaves_everything_as_it_was(
    step: str, broken: Callable[..., Any], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.md").write_text(OLD)
    monkeypatch.setattr(os, step, broken)
    for name in ("x.md", "y.md"):
        with pytest.raises(OutputError, match=reason) as caught:
            output.write(tmp_path / name, NEW)
        assert name in str(caught.value)
        assert "\n" not in str(caught.value)
    monkeypatch.undo()
    assert names(tmp_path) == ["x.md"]
    assert (tmp_path / "x.md").read_text() == OLD


def test_a_mode_that_cannot_be_set_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.md").write_text(OLD)
    monkeypatch.setattr(os, "chmod", fail_with(PermissionError(1, "Operation not permitted")))
    with pytest.raises(OutputError, match="Operation not permitted"):
        output.write(tmp_path / "x.md", NEW)
    monkeypatch.undo()
    assert names(tmp_path) == ["x.md"]
    assert (tmp_path / "x.md").read_text() == OLD


def test_ctrl_c_in_the_middle_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / "x.md").write_text(OLD)
    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        output.write(tmp_path / "x.md", NEW)
    monkeypatch.undo()
    assert names(tmp_path) == ["x.md"]
    assert (tmp_path / "x.md").read_text() == OLD


def test_a_reader_of_the_old_file_keeps_it_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.md"
    path.write_text(OLD)
    with path.open() as reader:
        output.write(path, NEW)
        assert reader.read() == OLD
    assert path.read_text() == NEW


# What it does to the file system


@pytest.mark.parametrize("bits", [0o600, 0o644, 0o664, 0o400])
def test_the_mode_of_a_file_is_kept(bits: int, tmp_path: Path) -> None:
    path = tmp_path / "x.md"
    path.write_text(OLD)
    path.chmod(bits)
    output.write(path, NEW)
    assert (path.read_text(), mode(path)) == (NEW, bits)


@pytest.mark.parametrize(("umask", "bits"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_new_file_has_the_usual_mode(umask: int, bits: int, tmp_path: Path) -> None:
    with mask(umask):
        output.write(tmp_path / "x.md", NEW)
        assert mode(tmp_path / "x.md") == bits
        assert os.umask(umask) == umask, "the mask of the process stays"


def test_a_link_still_points_to_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    (folder / "2024.md").write_text(OLD)
    link = tmp_path / "latest.md"
    link.symlink_to(Path("reports", "2024.md"))
    output.write(link, NEW)
    assert link.is_symlink()
    assert (folder / "2024.md").read_text() == NEW
    assert names(folder) == ["2024.md"]


def test_a_link_to_nothing_creates_what_it_names(tmp_path: Path) -> None:
    link = tmp_path / "latest.md"
    link.symlink_to(tmp_path / "new.md")
    output.write(link, NEW)
    assert link.is_symlink()
    assert (tmp_path / "new.md").read_text() == NEW


def test_a_link_to_a_foreign_file_protects_it(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text(FOREIGN)
    (tmp_path / "link.md").symlink_to(tmp_path / "notes.md")
    with pytest.raises(OutputError, match="--force"):
        output.write(tmp_path / "link.md", NEW)
    assert (tmp_path / "notes.md").read_text() == FOREIGN


def test_a_loop_of_links_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "loop.md").symlink_to(tmp_path / "loop.md")
    with pytest.raises(OutputError, match=r"loop\.md"):
        output.write(tmp_path / "loop.md", NEW)


def test_a_name_as_long_as_the_system_allows(tmp_path: Path) -> None:
    path = tmp_path / f"{'x' * 252}.md"
    output.write(path, NEW)
    assert path.read_text() == NEW


def test_many_writers_leave_one_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "x.md"
    texts = [NEW + letter * 100_000 for letter in "abcdefgh"]
    writers = [threading.Thread(target=output.write, args=(path, text)) for text in texts]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert path.read_text() in texts
    assert names(tmp_path) == ["x.md"]


# What is ours


@pytest.mark.parametrize("form", ["markdown", "json"])
def test_what_the_formats_write_is_ours(form: str, tmp_path: Path) -> None:
    trace = TraceBuilder(devices=())
    trace.op("aten::mm", 0, 5)
    text = render(analyze(load(trace.write(tmp_path / "trace.json"))), form)
    output.write(tmp_path / "report", text)
    output.write(tmp_path / "report", NEW)
    assert (tmp_path / "report").read_text() == NEW


def test_an_empty_file_is_nobodys(tmp_path: Path) -> None:
    (tmp_path / "x.md").write_bytes(b"")
    output.write(tmp_path / "x.md", NEW)
    assert (tmp_path / "x.md").read_text() == NEW


STRANGERS = {
    "notes": FOREIGN,
    "one blank": " ",
    "binary": "\x00\xff",
    "other json": '{\n "generator": {\n  "name": "other"\n }\n}\n',
    "a page that quotes a report": f"# How we profile\n\n```\n{OLD}```\n",
    "a mark far down": "x" * 5000 + OLD,
    "notes that name us": "traceanalyzer report trace.json\n",
}


@pytest.mark.parametrize("text", STRANGERS.values(), ids=STRANGERS.keys())
def test_a_foreign_file_is_overwritten_only_by_force(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.md"
    path.write_text(text, "utf-8")
    with pytest.raises(OutputError, match="--force"):
        output.write(path, NEW)
    assert path.read_text("utf-8") == text
    output.write(path, NEW, force=True)
    assert path.read_text() == NEW


@pytest.mark.parametrize("force", [False, True])
def test_a_folder_is_never_overwritten(force: bool, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="is a directory"):
        output.write(tmp_path, NEW, force=force)
    assert tmp_path.is_dir()
    assert names(tmp_path) == []


def test_a_missing_folder_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"there is no folder .*/no; create it"):
        output.write(tmp_path / "no" / "x.md", NEW)
    assert names(tmp_path) == []
