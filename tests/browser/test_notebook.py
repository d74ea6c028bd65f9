"""A report in a cell of a notebook: its first screen, in a frame."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import traceanalyzer as ta
from tests.browser.opened import Opened
from tests.cli.running import TRAINING

pytestmark = pytest.mark.browser


def test_a_cell_shows_the_first_screen(opened: Callable[..., Opened]) -> None:
    report = ta.analyze(ta.load(TRAINING))
    width = {"width": 900, "height": 1200}  # of a notebook's column
    page = opened(f"<!doctype html><title>cell</title><div>{report._repr_html_()}</div>", viewport=width)
    frame = page.page.frame_locator("iframe")
    height = page.find("iframe").bounding_box()["height"]
    headline = frame.get_by_text("Waiting for data", exact=False).first.bounding_box()
    finding = frame.get_by_text("Steps wait for the DataLoader", exact=False).first.bounding_box()
    top = page.find("iframe").bounding_box()["y"]
    assert 300 <= height <= 900
    assert top < headline["y"] < finding["y"]
    assert headline["y"] + headline["height"] < top + height
