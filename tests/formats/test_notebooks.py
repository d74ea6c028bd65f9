"""What a cell of a notebook shows."""

from __future__ import annotations

import html
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import traceanalyzer as ta
from tests.cli.running import TRAINING


def test_a_notebook_shows_a_report_as_its_page() -> None:
    report = ta.analyze(ta.load(TRAINING))
    assert (
        repr(report) == f"<Report on {TRAINING.name}: {len(report.findings)} findings; traceanalyzer.render shows it>"
    )
    frame = report._repr_html_() or ""
    assert frame.startswith('<iframe srcdoc="&lt;!')
    assert html.unescape(frame).count(ta.render(report, "html")) == 1


def test_a_report_that_was_stored_is_shown_too(tmp_path: Path) -> None:
    """Nothing else of the package has been used then."""
    stored = tmp_path / "report"
    stored.write_bytes(pickle.dumps(ta.analyze(ta.load(TRAINING))))
    code = f"import pathlib, pickle; print(pickle.loads(pathlib.Path({str(stored)!r}).read_bytes())._repr_html_()[:9])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "<iframe s\n"


def test_reports_know_no_formats() -> None:
    """Not by the name of the module in a text either, which contracts of imports do not see."""
    files = sorted((Path(ta.__file__).parent / "report").rglob("*.py"))
    assert "model.py" in {file.name for file in files}
    assert not [file.name for file in files if "traceanalyzer.formats" in file.read_text("utf-8")]


def test_without_formats_a_notebook_shows_the_usual_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("traceanalyzer.report._RENDERERS", [])
    report = ta.analyze(ta.load(TRAINING))
    assert report._repr_html_() is None
    assert report._repr_markdown_() is None


def test_where_a_notebook_shows_no_pages_it_shows_the_short_form() -> None:
    report = ta.analyze(ta.load(TRAINING))
    whole, short = ta.render(report, "markdown"), report._repr_markdown_() or ""
    assert whole.startswith(short)
    assert "<details" in whole[len(short) :]
    assert "<details" not in short
    assert 5 < len(short.splitlines()) <= 30
    assert all(word in short for word in ("Waiting for data", "DataLoader", "up to 3,500 us"))


def test_rendering_for_the_terminal_shows_nothing_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rich would show an empty output for each piece that is measured."""
    shown: list[object] = []
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("rich.jupyter.display", lambda *pieces: shown.append(pieces))
    assert "Waiting for data: " in ta.render(ta.analyze(ta.load(TRAINING)), "terminal")
    assert shown == []
