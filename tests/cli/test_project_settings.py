"""Settings of traceanalyzer.toml apply to every command, and options override them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.running import TRAINING, assert_one_line, call


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a trace and its reports in Russian, as JSON and Markdown."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "traces").mkdir()
    shutil.copy(TRAINING, tmp_path / "traces")
    Path("traceanalyzer.toml").write_text('language = "ru"\nformat = ["markdown", "json"]\ntop = 1\n')
    return tmp_path


def _reports(folder: Path) -> dict[str, str]:
    return {path.suffix: path.read_text("utf-8") for path in folder.glob("*.report.*")}


def test_of_a_batch(project: Path) -> None:
    assert call("batch", "traces", "-o", "out", "-q").code == 0
    settled = _reports(project / "out")
    assert sorted(settled) == [".json", ".md"]
    russian = call("report", TRAINING, "--format", "markdown", "-o", "-", "--lang", "ru", "--top", 1)
    assert settled[".md"] == russian.out
    call("batch", "traces", "-o", "other", "-q", "--format", "markdown", "--lang", "en")
    assert sorted(chosen := _reports(project / "other")) == [".md"]
    assert chosen[".md"] != settled[".md"]


def test_of_a_difference() -> None:
    asked = call("diff", TRAINING, TRAINING, "--format", "markdown", "-o", "-", "--lang", "ru", "--top", 1)
    assert call("diff", TRAINING, TRAINING, "--format", "markdown", "-o", "-").stdout == asked.stdout
    english = call("diff", TRAINING, TRAINING, "--format", "markdown", "-o", "-", "--lang", "en")
    assert english.stdout != asked.stdout


def test_of_a_prediction() -> None:
    asked = call("whatif", TRAINING, "--format", "markdown", "-o", "-", "--lang", "ru", "--top", 1)
    assert call("whatif", TRAINING, "--format", "markdown", "-o", "-").stdout == asked.stdout
    assert call("whatif", TRAINING, "--format", "markdown", "-o", "-", "--top", 9).stdout != asked.stdout


def test_the_first_format_is_that_of_outputs_whose_name_says_nothing(project: Path) -> None:
    printed = call("report", TRAINING, "-o", "-")
    assert printed.out == call("report", TRAINING, "-o", "-", "--format", "markdown").out
    call("report", TRAINING, "-o", "summary", "-o", "report.json", "-q")
    assert (project / "summary").read_text("utf-8") == printed.out
    assert json.loads((project / "report.json").read_bytes())["schema_version"] == 1


def test_the_screen_stays_the_screen() -> None:
    assert call("report", TRAINING, "-q").out == call("report", TRAINING, "-q", "--format", "terminal").out


def test_a_format_that_nobody_knows_is_one_line() -> None:
    Path("traceanalyzer.toml").write_text('format = "htlm"\n')
    assert "did you mean html?" in assert_one_line(call("report", TRAINING))
