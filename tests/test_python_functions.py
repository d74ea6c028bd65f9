"""`ta.batch`, `ta.ranks` and `ta.diff` give as data what the commands print."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import traceanalyzer as ta
from tests.builders.ranks import Meeting, run
from tests.cli.running import call
from traceanalyzer.errors import UnusableInputError, UsageError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ranks of a run."""
    root = tmp_path_factory.mktemp("run")
    for rank, trace in enumerate(run(3, [Meeting(lambda rank, step: 1000 + 400 * (rank == 2))])):
        trace.write(root / f"rank{rank}.json.gz")
    return root


def test_ranks_is_the_report_of_the_command(folder: Path) -> None:
    answer = call("ranks", folder, "-q", "--format", "json", "-o", "-")
    assert ta.render(ta.ranks(folder), "json") == answer.out
    by_name = ta.ranks(sorted(folder.iterdir()))
    assert by_name.findings == ta.ranks(str(folder)).findings


def test_ranks_tells_what_it_left_out(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "rank9.json").write_bytes(b"")
    left_out: list[str] = []
    ta.ranks([folder, tmp_path / "rank9.json"], left_out=left_out.append)
    assert len(left_out) == 1
    assert "rank9.json" in left_out[0]
    assert "is empty" in left_out[0]
    with pytest.raises(UnusableInputError, match="is empty"):
        ta.ranks(tmp_path)


def test_ranks_follows_the_files(folder: Path) -> None:
    read: dict[str, int] = {}

    def progress(file: str):  # type: ignore[no-untyped-def]
        def add(size: int) -> None:
            read[Path(file).name] = read.get(Path(file).name, 0) + size

        return add

    ta.ranks(folder, progress=progress)
    assert sorted(read) == ["rank0.json.gz", "rank1.json.gz", "rank2.json.gz"]
    assert min(read.values()) > 0


def test_batch_gives_counts_and_pages(folder: Path, tmp_path: Path) -> None:
    first = ta.batch(folder, tmp_path, formats=["json"], jobs=1)
    assert (first.counts.done, first.counts.recalled, first.counts.failed) == (3, 0, 0)
    assert "index.html" in first.pages
    assert all((tmp_path / page).is_file() for page in first.pages)
    again = ta.batch([folder], str(tmp_path), formats=["json"], jobs=1)
    assert (again.counts.done, again.counts.recalled) == (3, 3)
    with pytest.raises(UsageError, match="no such format"):
        ta.batch(folder, tmp_path, formats=["terminal"])
    with pytest.raises(UsageError, match="no such language"):
        ta.batch(folder, tmp_path, language="xx")


def test_diff_of_what_is_named(folder: Path) -> None:
    assert ta.diff(folder, str(folder / "*.gz")).verdict.outcome == "no-change"


def test_a_batch_runs_in_a_script_that_guards_nothing(folder: Path, tmp_path: Path) -> None:
    """Worker processes of many libraries run the script again; ours need nothing of it."""
    script = tmp_path / "script.py"
    script.write_text(
        "import json, traceanalyzer as ta\n"
        f"done = ta.batch({str(folder)!r}, {str(tmp_path / 'out')!r}, formats=['json'], jobs=2)\n"
        "print(json.dumps([done.counts.done, done.counts.failed]))\n"
    )
    answer = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, timeout=120)
    assert json.loads(answer.stdout) == [3, 0]
