"""Folders with links out of them, odd names, and patterns that leave them: reports stay in the folder of reports."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.batching.making import batch, trace, tree, write
from tests.batching.test_batch_pages import page
from traceanalyzer.batching import Progress, ReportOptions, Request
from traceanalyzer.batching.run import run

ODD = (
    "a\nb.json",
    "..json",
    "back\\slash.json",
    "%2e%2e%2fup.json",
    "-o.json",
    " blank .json",
    "quote\"'<b>.json",
    "colon: star*?.json",
    "\u202eright-to-left.json",
    "e\u0301.json",
    "x" * 240 + ".json",
    os.fsdecode(b"no-\xff-text.json"),
)


def reports(out: Path) -> list[str]:
    return [name for name in tree(out, state=False) if name.endswith(".report.json")]


def test_links_out_of_a_folder_are_read_and_nothing_is_written_there(tmp_path: Path) -> None:
    write(tmp_path / "in" / "own.json", trace(10))
    write(tmp_path / "elsewhere" / "far.json", trace(20))
    write(tmp_path / "one.json", trace(30))
    (tmp_path / "in" / "folder").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "in" / "file.json").symlink_to(tmp_path / "one.json")
    before = tree(tmp_path)
    batch(tmp_path / "in", tmp_path / "out")
    assert reports(tmp_path / "out") == ["file.json.report.json", "folder/far.json.report.json", "own.json.report.json"]
    assert {name: data for name, data in tree(tmp_path).items() if not name.startswith("out/")} == before


def test_odd_names_have_reports_and_links(tmp_path: Path) -> None:
    for number, name in enumerate(ODD):
        if not name.startswith("."):
            write(tmp_path / "in" / name, trace(10 + number))
    counts, _ = batch(tmp_path / "in", tmp_path / "out")
    assert counts.done == len(ODD) - 1, "..json begins with a dot, so it is hidden"
    links = [link for link in page(tmp_path / "out").links if not link.startswith("#")]
    assert len(links) == counts.done
    for link in links:
        target = (tmp_path / "out" / link).resolve()
        assert target.is_file()
        assert target.is_relative_to(tmp_path / "out")


@pytest.mark.parametrize("pattern", ["in/../outside/*.json", "in/sub/../../outside/*.json", "in/../*side/*.json"])
def test_a_pattern_that_leaves_the_folder_has_names_within_the_reports(tmp_path: Path, pattern: str) -> None:
    write(tmp_path / "in" / "sub" / "own.json", trace(10))
    write(tmp_path / "outside" / "far.json", trace(20))
    inputs = (str(tmp_path / "in"), f"{tmp_path}/{pattern}")
    run(Request(inputs, str(tmp_path / "reports" / "out"), ReportOptions(formats=("json",))), Progress())
    assert reports(tmp_path / "reports" / "out") == ["in/sub/own.json.report.json", "outside/far.json.report.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "outside", "reports"]
