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


def test_where_a_notebook_shows_no_pages_it_shows_the_short_form() -> None:
    report = ta.analyze(ta.load(TRAINING))
    whole, short = ta.render(report, "markdown"), report._repr_markdown_()
    assert whole.startswith(short)
    assert "<details" in whole[len(short) :]
    assert "<details" not in short
    assert 5 < len(short.splitlines()) <= 30
    assert all(word in short for word in ("Bound by input", "DataLoader", "up to 3.5 ms"))


def test_rendering_for_the_terminal_shows_nothing_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rich would show an empty output for each piece that is measured."""
    shown: list[object] = []
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("rich.jupyter.display", lambda *pieces: shown.append(pieces))
    assert "What bounds it" in ta.render(ta.analyze(ta.load(TRAINING)), "terminal")
    assert shown == []
