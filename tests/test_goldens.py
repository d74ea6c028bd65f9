"""The goldens are what the formats write, and the check of them finds every change."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import goldens
from traceanalyzer.formats import FORMATS
from traceanalyzer.formats import difference as difference_formats


def test_the_goldens_are_up_to_date() -> None:
    assert goldens.differences(goldens.goldens()) == [], "run: python scripts/goldens.py, and read what changed"


def test_every_format_of_text_has_a_golden() -> None:
    found = {path.name for path in goldens.FOLDER.glob("*/*.*")}
    assert len(found) == len(FORMATS) + len(difference_formats.FORMATS)
    assert list((goldens.FOLDER / "report" / "csv").glob("*.csv"))


def test_a_change_would_be_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(goldens, "FOLDER", tmp_path)
    for name, text in (("report.txt", "a\n"), ("old.txt", "b\n")):
        (tmp_path / name).write_text(text)
    expected = {"report.txt": "changed\n", "new.txt": "c\n"}
    assert goldens.differences(expected) == ["missing: new.txt", "unknown: old.txt", "differs: report.txt"]


def test_a_page_keeps_all_but_scripts_styles_and_hashes() -> None:
    page = (
        "<meta content=\"style-src 'sha256-ab+/c='\"><style>a{}</style>\n"
        '<script type="application/json">{"a":\n1}</script><p>seen</p><script>x</script>'
    )
    assert goldens.without_assets(page) == (
        "<meta content=\"style-src 'sha256-...'\"><style>...</style>\n"
        '<script type="application/json">...</script><p>seen</p><script>...</script>'
    )
