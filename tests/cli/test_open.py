"""`--open`: a page is written, if need be, and the browser gets its address."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.running import ROOT, TRAINING, Run, spawn


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a trace, and a browser that notes what it is asked to open."""
    shutil.copy(TRAINING, tmp_path / "trace.json.gz")
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >> "{tmp_path}/opened"\n')
    browser.chmod(0o755)
    return tmp_path


def call(folder: Path, *arguments: str, browser: str = "browser") -> Run:
    env = {"PYTHONPATH": str(ROOT), "BROWSER": f"{folder / browser} %s"}
    return spawn(*arguments, env=env, cwd=folder)


def opened(folder: Path) -> list[str]:
    note = folder / "opened"
    return note.read_text().splitlines() if note.exists() else []


def test_the_page_that_was_asked_for(folder: Path) -> None:
    run = call(folder, "report", "trace.json.gz", "-q", "-o", "r.json", "-o", "a page.html", "--open")
    assert (run.code, run.out, run.err) == (0, "", "")
    assert opened(folder) == [(folder / "a page.html").as_uri()]


def test_without_files_a_page_is_written_here(folder: Path) -> None:
    run = call(folder, "report", "trace.json.gz", "--open")
    assert (run.code, run.out, run.err) == (0, "", "Wrote trace.html\n")
    assert opened(folder) == [(folder / "trace.html").as_uri()]
    assert (folder / "trace.html").read_text("utf-8").startswith("<!doctype html>")


def test_a_page_of_somebody_else_stays(folder: Path) -> None:
    (folder / "trace.html").write_text("mine")
    run = call(folder, "report", "trace.json.gz", "-q", "--open")
    assert run.code == 2
    assert "trace.html: exists, and nothing in it says that traceanalyzer wrote it" in run.err
    assert (folder / "trace.html").read_text() == "mine"
    assert not opened(folder)


@pytest.mark.parametrize("wanted", [("-o", "r.json"), ("--format", "json"), ("-o", "-", "--format", "html")])
def test_files_without_a_page_say_what_to_do(folder: Path, wanted: tuple[str, ...]) -> None:
    run = call(folder, "report", "trace.json.gz", *wanted, "--open")
    assert (run.code, run.out) == (2, "")
    assert run.err == "traceanalyzer: --open shows the HTML report, and none is written; add -o report.html\n"


def test_without_a_browser_the_page_is_named(folder: Path) -> None:
    run = call(folder, "report", "trace.json.gz", "-q", "--open", browser="no such program")
    assert run.code == 0
    assert run.err == "No browser was found; open trace.html in one\n"


def test_a_finding_still_decides_the_exit_code(folder: Path) -> None:
    run = call(folder, "report", "trace.json.gz", "-q", "--open", "--fail-on", "critical")
    assert run.code == 1
    assert opened(folder)


def test_of_a_saved_report(folder: Path) -> None:
    assert call(folder, "report", "trace.json.gz", "-q", "-o", "saved.json").code == 0
    assert call(folder, "render", "saved.json", "-q", "--open").code == 0
    assert opened(folder) == [(folder / "saved.html").as_uri()]


def test_of_a_batch(folder: Path) -> None:
    assert call(folder, "batch", "trace.json.gz", "-q", "-o", "out", "--open").code == 0
    assert opened(folder) == [(folder / "out" / "index.html").as_uri()]
    run = call(folder, "batch", "trace.json.gz", "-q", "-o", "memory://out", "--open")
    assert run.code == 2
    assert "--open needs reports on this machine" in run.err
