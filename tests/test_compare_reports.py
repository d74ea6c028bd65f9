"""The script that compares reports of two versions finds every difference but wording and version."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scripts import compare_reports
from tests.formats.samples import TRAINING, report_of
from traceanalyzer.formats import render


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Two folders with the report of one fixture."""
    text = render(report_of(TRAINING), "json")
    found = tmp_path / "before", tmp_path / "after"
    for folder in found:
        folder.mkdir()
        (folder / "training.json").write_text(text, "utf-8")
    return found


def change(folder: Path, how: Callable[[Any], Any]) -> None:
    path = folder / "training.json"
    document = json.loads(path.read_text("utf-8"))
    how(document)
    path.write_text(json.dumps(document), "utf-8")


def run(folders: tuple[Path, Path], *options: str) -> int:
    return compare_reports.main([*map(str, folders), *options])


def test_equal_reports_are_equal(folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folders) == 0
    assert capsys.readouterr().out == "1 reports, 0 of them differ\n"


def reword(document: Any) -> None:
    document["generator"]["version"] = "9.9"
    document["findings"][0]["title"]["text"] = "Other words."


def test_wording_and_version_may_differ(folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    change(folders[1], reword)
    assert run(folders) == 0
    assert run(folders, "--texts") == 1
    assert '"Other words." after' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("how", "found"),
    [
        (lambda d: d["trace"].update(events=3), "training.json: trace.events: 1664 before, 3 after"),
        (lambda d: d["trace"].pop("rank"), "training.json: trace.rank: null before, nothing after"),
        (lambda d: d["trace"].update(new=True), "training.json: trace.new: nothing before, true after"),
        (lambda d: d["findings"].pop(), "training.json: findings: has "),
        (lambda d: d["findings"][0].update(rule="x"), "training.json: findings[0].rule: "),
        (lambda d: d["trace"].update(events=1664.0), "training.json: trace.events: 1664 before, 1664.0 after"),
        (lambda d: d.update(schema_version=d.pop("schema_version")), "training.json: is written differently"),
        (lambda d: d["generator"].update(name="x"), 'training.json: generator.name: "traceanalyzer" before'),
    ],
)
def test_everything_else_may_not(
    folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str], how: Any, found: str
) -> None:
    change(folders[1], how)
    assert run(folders) == 1
    assert found in capsys.readouterr().out


def test_a_report_that_is_only_in_one_folder_differs(
    folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    (folders[0] / "more.json").write_text("{}", "utf-8")
    assert run(folders) == 1
    assert f"more.json: is not in {folders[1]}" in capsys.readouterr().out


def test_nothing_to_compare_is_no_proof(tmp_path: Path) -> None:
    assert run((tmp_path, tmp_path)) == 1


def test_what_is_compared_is_left_as_it_was() -> None:
    document = {"generator": {"version": "1"}, "message": {"id": "a", "params": {"text": 3}, "text": "b"}}
    before = copy.deepcopy(document)
    found = compare_reports.masked(document)
    assert document == before
    assert found["message"] == {"id": "a", "params": {"text": 3}, "text": compare_reports.MASK}
