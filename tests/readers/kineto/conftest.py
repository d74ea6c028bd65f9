"""What tests of the reader of traces share."""

from __future__ import annotations

import pytest

from tests.readers.kineto.many_windows import SMALL
from traceanalyzer.readers.kineto import windows


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "WINDOW", SMALL)
