"""`traceanalyzer render`: a saved report gives what the trace gave."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.running import TRAINING, call
from traceanalyzer import formats


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "report.json"
    assert call("report", TRAINING, "-o", path, "-q").code == 0
    return path


@pytest.mark.parametrize("form", [*formats.FORMATS])
@pytest.mark.parametrize("lang", ["en", "ru", "zh"])
def test_is_the_same_as_the_direct_way(saved: Path, form: str, lang: str) -> None:
    direct = call("report", TRAINING, "-q", "--format", form, "-o", "-", "--lang", lang)
    later = call("render", saved, "-q", "--format", form, "-o", "-", "--lang", lang)
    assert (later.code, later.err) == (0, "")
    assert later.stdout == direct.stdout


def test_reads_standard_input(saved: Path) -> None:
    run = call("render", "-", "--format", "json", "-o", "-", stdin=saved.read_bytes())
    assert run.stdout == saved.read_bytes()


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (lambda report: b"[]", "is not a complete report of traceanalyzer"),
        (lambda report: b"{}", "is not a complete report of traceanalyzer"),
        (lambda report: TRAINING.read_bytes(), "is a trace; traceanalyzer report reports on it"),
        (
            lambda report: json.dumps({"schema_version": 1, "predicted_ns": [1]}).encode(),
            "a saved prediction of whatif",
        ),
        (lambda report: json.dumps(report)[:-100].encode(), "is not a complete report of traceanalyzer"),
        (lambda report: json.dumps(report | {"schema_version": 99}).encode(), "schema 99"),
        (lambda report: json.dumps(report | {"findings": 3}).encode(), "is not a complete report of traceanalyzer"),
        (lambda report: json.dumps(report | {"analyses": {"kernels": {"rows": 3}}}).encode(), "was changed after"),
    ],
    ids=["list", "empty", "trace", "prediction", "cut", "schema", "type", "analysis"],
)
def test_what_is_no_report_is_one_line(saved: Path, tmp_path: Path, change, wrong: str) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "x.json"
    path.write_bytes(change(json.loads(saved.read_bytes())))
    run = call("render", path, "--format", "markdown")
    assert run.code == 2
    assert wrong in run.err
    assert len(run.err.splitlines()) == 1


def test_settings_of_the_project(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    russian = call("render", saved, "--format", "markdown", "--lang", "ru")
    Path("traceanalyzer.toml").write_text('language = "ru"\n')
    assert call("render", saved, "--format", "markdown").stdout == russian.stdout
    assert call("render", saved, "--format", "markdown", "--lang", "en").stdout != russian.stdout


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ("language = 3\n", "language = 3: a code"),
        ('language = "tlh"\n', "tlh"),
        ("top = 0\n", "a whole number from 1 on"),
        ('fail-on = "bad"\n', "one of info, low, medium, high, critical"),
        ('langage = "ru"\n', "did you mean language?"),
    ],
)
def test_wrong_settings_are_one_line(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: str, wrong: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("traceanalyzer.toml").write_text(settings)
    run = call("render", saved)
    assert run.code == 2
    assert wrong in run.err


def test_fail_on_of_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("traceanalyzer.toml").write_text('fail-on = "critical"\n')
    assert call("report", TRAINING, "-q", "--format", "json").code == 1
