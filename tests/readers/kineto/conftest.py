"""What tests of the reader of traces share. All of them run with the compiled scan, and once more without it."""

from __future__ import annotations

import pytest

from tests.readers.kineto.many_windows import SMALL
from traceanalyzer.readers.kineto import scanning, windows


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "WINDOW", SMALL)


@pytest.fixture(autouse=True, params=["scanned", "decoded"])
def way_of_reading(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "decoded":
        monkeypatch.setattr(scanning, "scan", None)
    elif scanning.scan is None:
        pytest.skip("the scan was not compiled: python hatch_build.py, with a C compiler")
