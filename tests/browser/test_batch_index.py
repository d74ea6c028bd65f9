"""The index of a batch in a browser: one table that sorts and filters, with and without scripts, for everyone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.batching.making import BAD, batch, trace, write
from tests.batching.test_history import even
from tests.browser.opened import Opened
from tests.browser.test_every_page import PHONE, check_access, check_layout
from tests.formats import test_rank_charts
from traceanalyzer.batching import ReportOptions, trends
from traceanalyzer.formats import html
from traceanalyzer.formats.language import ENGLISH
from traceanalyzer.inputs.storage import open_folder

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Twelve runs, two of them of two ranks, and a file that failed."""
    folder = tmp_path_factory.mktemp("index")
    for busy in range(5, 65, 5):
        write(folder / "in" / f"busy_{busy:02}.json", trace(busy))
    for rank in range(2):
        write(folder / "in" / "run" / f"rank{rank}.json", trace(30, rank=rank, world=2))
    write(folder / "in" / "empty.json", BAD["empty.json"])
    batch(folder / "in", folder / "out", options=ReportOptions(formats=("json", "html")))
    return (folder / "out" / "index.html").read_text("utf-8")


def test_advice_is_in_view_in_a_language_of_long_words(tmp_path: Path, looked_at: Callable[[str], Opened]) -> None:
    write(tmp_path / "in" / "busy.json", trace(20))
    batch(tmp_path / "in", tmp_path / "out", options=ReportOptions(formats=("json",), language="ru"))
    shown = looked_at((tmp_path / "out" / "index.html").read_text("utf-8"))
    assert shown.find("#runs td").last.inner_text()
    table = "document.querySelector('#runs .scroll')"
    assert shown.ask(f"{table}.scrollWidth - {table}.clientWidth") <= 0


def names(shown: Opened) -> list[str]:
    return shown.find("#runs tbody tr:not([hidden]) td:first-child code").all_inner_texts()


def test_the_table_sorts_and_filters_by_keyboard(index: str, looked_at: Callable[[str], Opened]) -> None:
    shown = looked_at(index)
    given = names(shown)
    assert given[1] == "busy_05.json"
    busy = shown.find('#runs th button:text-is("GPU busy")')
    busy.focus()
    shown.page.keyboard.press("Enter")
    assert names(shown)[0] == "busy_60.json"
    shown.page.keyboard.press("Enter")
    assert names(shown)[0] == "busy_05.json"
    shown.find("#runs .filter").focus()
    shown.page.keyboard.type("busy_4")
    assert names(shown) == ["busy_40.json", "busy_45.json"]
    shown.page.keyboard.press("Escape")
    assert sorted(names(shown)) == sorted(given)


def test_without_scripts_it_is_sorted_by_wasted_time(index: str, opened: Callable[..., Opened]) -> None:
    shown = opened(index, java_script_enabled=False)
    assert names(shown)[1:4] == ["busy_05.json", "busy_10.json", "busy_15.json"]
    assert not shown.find("#runs .filter").is_visible()
    assert shown.find("#runs td.parts svg").count() == 13


def test_it_is_accessible_and_fits(index: str, looked_at: Callable[[str], Opened], axe: str) -> None:
    shown = looked_at(index)
    assert shown.overflow() == 0
    assert shown.violations(axe) == []
    shown.page.emulate_media(color_scheme="dark")
    assert shown.violations(axe) == []
    shown.page.set_viewport_size(PHONE)
    assert shown.overflow() == 0
    assert shown.violations(axe) == []


def test_names_lead_to_pages(index: str, looked_at: Callable[[str], Opened]) -> None:
    shown = looked_at(index)
    first = shown.find("#runs tbody tr").first
    assert first.locator("td.name a").first.get_attribute("href") == "run/rank0.json.all-ranks.report.html"


def test_the_history_is_accessible_and_fits(tmp_path: Path, looked_at: Callable[[str], Opened], axe: str) -> None:
    rows = [even(f"2026-09-0{day}/train_{day}.json", day, 400 + 60 * (day > 3)) for day in range(8)]
    trends.write([*rows, even("other.json", 1, 300)], open_folder(str(tmp_path)), ENGLISH)
    shown = looked_at((tmp_path / trends.HTML).read_text("utf-8"))
    assert shown.find("#series-1 figure svg.wide").is_visible()
    check_layout(shown)
    check_access(shown, axe)


def test_pictures_of_ranks_are_accessible_and_fit(looked_at: Callable[[str], Opened], axe: str) -> None:
    shown = looked_at(html.render(test_rank_charts.report()))
    first = shown.find(".ranked figure svg.wide")
    assert first.is_visible()
    assert shown.ask("document.querySelector('.ranked svg.wide').getBoundingClientRect().bottom") <= 900
    pictures = shown.find("#section-ranks figure svg.wide")
    assert pictures.count() == 2
    assert all(pictures.nth(number).is_visible() for number in range(2))
    check_layout(shown)
    assert shown.find("#section-ranks figure svg.narrow").first.is_visible()
    check_access(shown, axe)
