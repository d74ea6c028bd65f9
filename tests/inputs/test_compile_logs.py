"""Compile logs that a person names: files, and folders that torch filled."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.builders import compile_log
from traceanalyzer.errors import UnusableInputError
from traceanalyzer.inputs import opening
from traceanalyzer.trace.compile_log import CompileLog


def broken_at(line: int) -> str:
    """A log in which one graph breaks."""
    return compile_log.broke("0/0", "train.py", line, "why")


def lines(logs: tuple[CompileLog, ...]) -> list[list[int]]:
    """Where graphs break, by log."""
    return [[each.at.line for each in log.breaks if each.at] for log in logs]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two logs, the second compressed; a note; and a folder that is named like a log."""
    filled = tmp_path / "logs"
    (filled / "old.log").mkdir(parents=True)
    (filled / "rank_0.log").write_text(broken_at(7), "utf-8")
    (filled / "rank_1.log.gz").write_bytes(gzip.compress(broken_at(8).encode()))
    (filled / "notes.txt").write_text("no log")
    return filled


def test_the_logs_of_a_folder_are_read_in_the_order_of_their_names(folder: Path) -> None:
    assert lines(opening.read_compile_logs([folder])) == [[7], [8]]


def test_files_and_folders_are_read_in_the_order_in_which_they_are_named(folder: Path) -> None:
    other = folder.parent / "anything"
    other.write_text(broken_at(9), "utf-8")
    assert lines(opening.read_compile_logs([other, str(folder), folder / "rank_0.log"])) == [[9], [7], [8], [7]]
    assert opening.read_compile_logs([]) == ()


def test_a_folder_without_a_log_says_how_to_make_one(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no log")
    with pytest.raises(UnusableInputError) as refused:
        opening.read_compile_logs([tmp_path])
    assert f"TORCH_TRACE={tmp_path}" in str(refused.value)


@pytest.mark.parametrize("name", ["missing.log", "notes.txt"])
def test_what_is_no_log_is_refused(name: str, folder: Path) -> None:
    with pytest.raises(UnusableInputError, match=name):
        opening.read_compile_logs([folder / "rank_0.log", folder / name])
