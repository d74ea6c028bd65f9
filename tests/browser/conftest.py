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
    from playwright.sync_api import Browser, Page

from tests.browser.opened import WINDOW, Opened

SWITCHES = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
"""Options to run as root, without a graphics card, and without network requests."""


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


@pytest.fixture(scope="session")
def tab(browser: Browser) -> Page:
    """One tab for all tests that only look at pages: a new one takes longer than most pages."""
    return _tab(browser)


def _tab(browser: Browser, **options: Any) -> Page:
    tab = browser.new_context(**{"viewport": WINDOW, **options}).new_page()
    tab.set_default_timeout(20_000)
    return tab


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    """Opens pages from files, each as in a fresh browser; nothing is said on a console or asked of the network."""
    pages: list[Opened] = []

    def open_(text: str, anchor: str = "", **options: Any) -> Opened:
        pages.append(Opened(_tab(browser, **options), text, tmp_path / f"report-{len(pages)}.html", anchor))
        return pages[-1]

    yield open_
    for page in pages:
        page.page.context.close()
        check_silence(page)


@pytest.fixture
def looked_at(tab: Page, tmp_path: Path) -> Iterator[Callable[[str], Opened]]:
    """Opens pages from files one after another, for tests that leave nothing behind; they are as quiet."""
    pages: list[Opened] = []

    def close() -> None:
        if pages:
            pages[-1].close()
            check_silence(pages[-1])

    def open_(text: str) -> Opened:
        close()
        tab.set_viewport_size(WINDOW)
        tab.emulate_media(color_scheme="light", media="screen")
        pages.append(Opened(tab, text, tmp_path / f"report-{len(pages)}.html"))
        return pages[-1]

    yield open_
    close()


def check_silence(page: Opened) -> None:
    """The console is empty, and no network request was made."""
    assert page.said == []
    assert page.requests == []
