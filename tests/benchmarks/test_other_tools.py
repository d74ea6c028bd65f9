"""Other tools beside ours: where they are looked for, and how the report stands against them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks import peers
from benchmarks.measure import CommandError, Measurement, Run
from benchmarks.results import BASELINE, OURS, READING, TWO_JOBS, Outcome, Replica


def took(cpu_s: float, peak_bytes: int, wall_s: float = 1.0) -> Measurement:
    return Measurement((Run(cpu_s, wall_s, peak_bytes),))


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("Other=python", "--peer takes NAME=PYTHON, NAME one of torch-tb-profiler, .*; not Other=python"),
        ("TraceLens", "--peer takes NAME=PYTHON"),
        (f"TraceLens={sys.executable}", "has no TraceLens"),
        ("TraceLens=/no/python", "/no/python: cannot be run: No such file or directory"),
    ],
)
def test_a_tool_that_cannot_be_run_is_refused(named: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        peers.find([named])


def test_a_project_of_the_same_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "tracelens-0.7.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tracelens\nVersion: 0.7.0\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(ValueError, match="has no TraceLens"):
        peers.find([f"TraceLens={sys.executable}"])
    (tmp_path / "TraceLens").mkdir()
    (tmp_path / "TraceLens" / "__init__.py").touch()
    (found,) = peers.find([f"TraceLens={sys.executable}"])
    assert (found.name, found.version) == ("TraceLens", "0.7.0")
    assert found.command(Path("x.json"))[0] == sys.executable
    assert found.command(Path("x.json"))[-1] == "x.json"


def test_the_report_is_held_against_the_best_peer() -> None:
    outcomes: dict[str, Outcome] = {
        OURS[0]: took(2.0, 100, wall_s=2.0),
        OURS[1]: took(2.5, 100),
        TWO_JOBS: took(2.2, 100, wall_s=1.4),
        READING: took(1.0, 80),
        BASELINE: took(5.0, 400),
        "fast": took(10.0, 1000),
        "lean": took(40.0, 500),
        "broken": CommandError("exit code 1"),
    }
    replica = Replica("kin", 100_000_000, 1000, outcomes, ("fast", "lean", "broken"))
    found = {
        verdict.name.removeprefix("kin 100 MB, "): (verdict.value, verdict.passed) for verdict in replica.verdicts()
    }
    assert found == {
        "read: CPU / json.load": (0.2, True),
        "report JSON: CPU / json.load": (0.4, False),
        "report JSON: memory / json.load": (0.25, False),
        "report Markdown: CPU / json.load": (0.5, False),
        "report Markdown: memory / json.load": (0.25, False),
        "report JSON, 2 processes: wall time / 1 process": (0.7, True),
        "report JSON: CPU / fastest peer": (0.2, False),
        "report JSON: memory / leanest peer": (0.2, True),
    }


def test_without_peers_nothing_is_said_of_them() -> None:
    outcomes: dict[str, Outcome] = dict.fromkeys((*OURS, TWO_JOBS, READING, BASELINE), took(1.0, 1))
    assert not [v.name for v in Replica("kin", 1, 1, outcomes).verdicts() if "peer" in v.name]
