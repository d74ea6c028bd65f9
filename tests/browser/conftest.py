"""Debian's Chromium through Playwright, one for all tests, and axe-core out of a package."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

from tests.browser.opened import Opened

SWITCHES = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
"""As root, without a graphics card, and quiet on the network."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The browser; a missing one is a reason to skip."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    if find_spec("playwright") is None:
        pytest.skip("playwright is not installed")
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - optional

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=list(SWITCHES))
        yield started
        started.close()


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core."""
    if find_spec("axe_playwright_python") is None:
        pytest.skip("axe-playwright-python is not installed")
    return files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    """Opens a page from a file; at the end, nothing was said on its console and nothing was asked of the network."""
    pages: list[Opened] = []

    def open_(text: str, **options: Any) -> Opened:
        page = Opened(browser, text, tmp_path / f"report-{len(pages)}.html", options)
        pages.append(page)
        return page

    yield open_
    for page in pages:
        page.close()
        assert page.said == []
        assert page.requests == []
