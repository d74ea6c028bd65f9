"""`scripts/new_field.py` reads another argument, and two files are all that is edited."""

from __future__ import annotations

import filecmp
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import new_field
from tests.installing import ROOT

FOLDERS = ("traceanalyzer", "tests", "scripts")


@pytest.fixture(autouse=True)
def way_of_reading() -> None:
    """The tests of the copy run both ways themselves."""


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "locales"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def edited(copy: Path) -> set[str]:
    """Files that differ from the project's."""
    files = (
        f for folder in FOLDERS for f in (copy / folder).rglob("*") if f.is_file() and "__pycache__" not in f.parts
    )
    names = (file.relative_to(copy) for file in files)
    return {
        name.as_posix()
        for name in names
        if not (ROOT / name).exists() or not filecmp.cmp(copy / name, ROOT / name, shallow=False)
    }


@pytest.mark.parametrize(
    "given",
    [
        ("device", "warps per SM", "warps_per_sm", "f8", "warps over multiprocessors"),
        ("host", "Record function id", "record_id", "i8", "number of the call, counted by the recorder of functions"),
        ("memory", "Ev Idx", "event_index", "i4", "place of the event among the events of the profiler", "events"),
    ],
    ids=lambda given: given[0],
)
def test_a_new_field_is_read_after_two_files_were_edited(given: tuple[str, ...], copy: Path) -> None:
    done = run(copy, "scripts/new_field.py", *given)
    assert done.returncode == 0, done.stderr
    assert edited(copy) == {new_field.TABLES, new_field.TEST}
    tests = ("tests/readers/kineto/test_fields.py", "tests/readers/kineto/test_ahead.py", "tests/trace/test_model.py")
    tested = run(copy, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", *tests, "-rA")
    assert tested.returncode == 0, tested.stdout
    assert f"PASSED tests/readers/kineto/test_fields.py::test_{given[2]}_of_{given[0]}[" in tested.stdout
    row = next(line for line in (copy / new_field.TABLES).read_text("utf-8").splitlines() if f" {given[2]}: " in line)
    assert len(row) <= 120


def test_wrong_arguments_edit_nothing(copy: Path) -> None:
    assert run(copy, "scripts/new_field.py", "device", "Warps", "Warps", "f8", "warps").returncode == 2
    assert run(copy, "scripts/new_field.py", "device", "warps", "warps", "text", "warps").returncode == 2
    assert edited(copy) == set()
