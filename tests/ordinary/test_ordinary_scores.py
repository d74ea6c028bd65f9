"""The score of ordinary programs, of reports that say what the test makes them say; no program is reported on here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from scripts import ordinary

pytestmark = pytest.mark.corpus

NAME = "loop_waits_for_its_loader"
RIGHT = {
    "headlines": [{"bound": "input", "message": {"id": "headline-typical-input-2", "text": "Waiting for data."}}],
    "findings": [
        {
            "rule": "dataloader-single-process",
            "severity": "critical",
            "title": {"text": "The DataLoader works in the program's own process"},
            "advice": {"text": "Raise num_workers."},
            "saving": {"wall_ns_per_step": [50_000_000, 64_000_000]},
        }
    ],
    "analyses": {"recording": {"workload": "training", "framework": None, "typical_step_ns": 79_000_000}},
}
WRONG = {"headlines": [{"bound": "host", "message": {"text": "The CPU launches kernels too slowly."}}]}


def scored(
    monkeypatch: pytest.MonkeyPatch, shared: Path, folder: Path, report: dict[str, Any], *arguments: str
) -> tuple[int, list[Path]]:
    """The exit code, and the traces that were built."""
    built: list[Path] = []

    def report_of(files: Sequence[Path]) -> dict[str, Any]:
        built.extend(files)
        return report

    monkeypatch.setenv("TRACEANALYZER_CORPUS", str(shared))
    monkeypatch.setattr(ordinary, "report_of", report_of)
    monkeypatch.setattr(ordinary, "OUT", folder)
    return ordinary.main(arguments), built


def test_a_right_report_passes(
    monkeypatch: pytest.MonkeyPatch, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, built = scored(monkeypatch, corpus, tmp_path, RIGHT, "--half", "second", NAME)
    assert code == 0
    assert [path.name for path in built] == [f"{NAME}.json"]
    assert "headline 1/1, workload 2/2, step 1/1, said 2/2, savings 1/1, must not 0" in capsys.readouterr().out


def test_a_wrong_report_does_not(
    monkeypatch: pytest.MonkeyPatch, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _ = scored(monkeypatch, corpus, tmp_path, WRONG, "--half", "second", NAME)
    assert code == 1
    out = capsys.readouterr().out
    assert "headline 0/1, workload 0/2, step 0/1, said 0/2, savings 0/1, must not 1" in out
    assert "NOT PASSED: headline, said, unsaid" in out


@pytest.mark.parametrize(("saving_ms", "found"), [(0.1, "1/1"), (0.3, "0/1")])
def test_what_a_free_gpu_saves_is_compared(
    monkeypatch: pytest.MonkeyPatch,
    corpus: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    saving_ms: float,
    found: str,
) -> None:
    """The program waits for its GPU for 2 us a pass: a label of at most 0.25 ms."""
    monkeypatch.setattr(ordinary, "saved_by_free_gpu", lambda _: (saving_ms * 1e6, saving_ms * 1e6))
    scored(monkeypatch, corpus, tmp_path, {}, "--half", "second", "waits_hardly_at_all")
    assert f"free GPU {found}" in capsys.readouterr().out


def test_building_reports_on_nothing(monkeypatch: pytest.MonkeyPatch, corpus: Path, tmp_path: Path) -> None:
    assert scored(monkeypatch, corpus, tmp_path, RIGHT, "--half", "second", "--build", NAME) == (0, [])
    assert [path.name for path in tmp_path.rglob("*.json")] == [f"{NAME}.json"]


def test_programs_of_the_other_half_are_refused(
    monkeypatch: pytest.MonkeyPatch, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert scored(monkeypatch, corpus, tmp_path, RIGHT, NAME) == (2, [])
    assert "not in the first half" in capsys.readouterr().err
