"""`make fuzz-scan` tries the compiled scan with sanitizers, and says so where it cannot."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scripts import fuzz_scan
from tests.installing import ROOT
from tests.readers.kineto.plain_events import PLAIN
from traceanalyzer.readers.kineto import scanning


@pytest.fixture(autouse=True)
def way_of_reading() -> None:
    """These tests choose it themselves."""


def test_without_a_compiler_nothing_is_tried() -> None:
    command = [sys.executable, ROOT / "scripts" / "fuzz_scan.py", "--seconds", "1"]
    done = subprocess.run(command, env={"PATH": ""}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (fuzz_scan.NO_COMPILER, "")
    assert done.stderr == "fuzz-scan: skipped, because there is no gcc with libasan and libubsan\n"


def test_cases_are_lists_of_events_with_borders() -> None:
    text, borders = fuzz_scan.case([0, 1, len(PLAIN)], [(2, "dur", "7.5", False)], [(0.0, b"[")], [1])
    assert (text[:1], text[-1:], text.count(b'"ph"')) == (b"[", b"]", 3)
    assert b'"dur": 7.5' in text
    assert [text[border : border + 1] for border in borders] == [b"[", b",", b"]"]


def test_a_difference_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if scanning.scan is None:
        pytest.skip("the scan was not compiled: python hatch_build.py, with a C compiler")
    text, borders = fuzz_scan.case([0], [], [], [])
    assert fuzz_scan.agrees(text, borders, tmp_path / "case")
    other, _ = fuzz_scan.case([0], [(0, "dur", "7.5", False)], [], [])
    scan = scanning.scan
    monkeypatch.setattr(scanning, "scan", lambda _, __, *given: scan(memoryview(other), [0, len(other) - 1], *given))
    with pytest.raises(AssertionError, match="differs: b'"):
        fuzz_scan.agrees(text, borders, tmp_path / "case")
    assert (tmp_path / "case").read_text("utf-8") == f"{text!r}, {borders}"
