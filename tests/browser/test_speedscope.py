"""Files for speedscope, opened in speedscope's own page and held against its own schema.

SPEEDSCOPE_PAGE is the `index.html` of the package `speedscope` of npm, version 1.25.0 or later.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from tests.cli.running import TRAINING, call
from tests.formats.test_flame_files import SITUATIONS, speedscope_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page_file() -> Path:
    """The page of speedscope."""
    named = os.environ.get("SPEEDSCOPE_PAGE")
    if named is None:
        pytest.skip("speedscope is not installed: SPEEDSCOPE_PAGE is not set")
    return Path(named)


@pytest.fixture
def page(browser: Browser, page_file: Path) -> Iterator[Page]:
    """The page, which reads nothing but its own files and says nothing of an error."""
    errors: list[str] = []
    asked: list[str] = []
    with browser.new_context(viewport={"width": 1440, "height": 900}) as context:
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(page_file.as_uri())
        yield page
        assert errors == []
        assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []


@pytest.mark.parametrize("name", SITUATIONS)
def test_files_fit_the_schema_of_speedscope(name: str, page_file: Path) -> None:
    (schema,) = page_file.parent.glob("file-format-schema*.json")
    file = speedscope_of(name)
    jsonschema.Draft7Validator(json.loads(schema.read_text("utf-8"))).validate(file)
    assert file["profiles"]


def test_a_file_opens_with_its_names_and_times(page: Page, tmp_path: Path) -> None:
    target = tmp_path / "training.speedscope.json"
    assert call("report", TRAINING, "-o", target).code == 0
    file = json.loads(target.read_text("utf-8"))
    page.locator("input[type=file]").set_input_files(target, timeout=20_000)
    titles = [profile["name"] for profile in file["profiles"]]
    for number, profile in enumerate(file["profiles"]):
        page.get_by_text(f"{titles[number]} ({number + 1}/{len(titles)})").wait_for()
        page.keyboard.press("3")  # the table of functions
        page.get_by_text("Symbol Name").wait_for()
        rows, wanted = shown(page), expected(profile, file["shared"]["frames"])
        assert len(rows) >= min(len(wanted), 20), "the table draws the rows that fit the window"
        assert {name: wanted[name] for name in rows} == {name: pytest.approx(ns, rel=0.01) for name, ns in rows.items()}
        page.keyboard.press("n")
    assert page.title().startswith(file["name"])


def shown(page: Page) -> dict[str, float]:
    """Total time in ns of the functions in the table, by name; three digits or more of it."""
    rows = page.locator("table").last.locator("tr")  # its head is a table of its own
    cells = [row.locator("td").all_inner_texts() for row in rows.all()]
    return {name.strip(): nanoseconds(total.split()[0]) for total, _, name in cells}


def nanoseconds(text: str) -> float:
    """A time as speedscope writes it, such as 34.26ms."""
    number = text.rstrip("nµms")
    return float(number) * {"s": 1e9, "ms": 1e6, "µs": 1e3, "ns": 1}[text[len(number) :]]


def expected(profile: dict[str, Any], frames: list[dict[str, Any]]) -> dict[str, int]:
    """Time of each function, computed from the file."""
    total: dict[str, int] = {}
    for stack, weight in zip(profile["samples"], profile["weights"], strict=True):
        for frame in set(stack):
            name = frames[frame]["name"]
            total[name] = total.get(name, 0) + weight
    return total
