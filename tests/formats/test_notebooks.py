"""What a cell of a notebook shows."""

from __future__ import annotations

import html

import pytest

import traceanalyzer as ta
from tests.cli.running import TRAINING


def test_a_notebook_shows_a_report_as_its_page() -> None:
    report = ta.analyze(ta.load(TRAINING))
    assert (
        repr(report) == f"<Report on {TRAINING.name}: {len(report.findings)} findings; traceanalyzer.render shows it>"
    )
    frame = report._repr_html_()
    assert frame.startswith('<iframe srcdoc="&lt;!')
    assert html.unescape(frame).count(ta.render(report, "html")) == 1
    assert report._repr_markdown_() == ta.render(report, "markdown")


def test_rendering_for_the_terminal_shows_nothing_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rich would show an empty output for each piece that is measured."""
    shown: list[object] = []
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("rich.jupyter.display", lambda *pieces: shown.append(pieces))
    assert "What bounds it" in ta.render(ta.analyze(ta.load(TRAINING)), "terminal")
    assert shown == []
