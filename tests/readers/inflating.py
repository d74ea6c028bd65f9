"""Text for tests of sources, and both libraries that inflate it."""

from __future__ import annotations

import zlib
from types import ModuleType
from typing import Any

import pytest

from traceanalyzer.readers import source as source_module

try:
    from isal import isal_zlib
except ImportError:
    isal_zlib = None

TEXT = b"".join(b"line %d of a text that repeats itself\n" % number for number in range(5000))


def libraries() -> list[Any]:
    missing = pytest.mark.skip(reason="isal is not installed")
    faster = pytest.param(isal_zlib, id="isal") if isal_zlib else pytest.param(None, id="isal", marks=missing)
    return [pytest.param(zlib, id="zlib"), faster]


@pytest.fixture(params=libraries(), autouse=True)
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Every test runs with both libraries."""
    monkeypatch.setattr(source_module, "inflate_library", request.param)
    return request.param
