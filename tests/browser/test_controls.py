"""What a reader can do with a page: sort, filter, copy, zoom, change the theme, follow a link to a finding."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable

import pytest

from tests.browser.opened import Opened
from tests.formats.html.advised import advised
from tests.formats.samples import SOUND, TRAINING, report_of
from traceanalyzer.formats import html

pytestmark = pytest.mark.browser

CLIPBOARD = {"permissions": ["clipboard-read", "clipboard-write"]}
MODULES = next(path for path in SOUND if path.name == "modules_and_stacks.json.gz")
OPERATORS = "#section-operators"


@pytest.fixture(scope="module")
def text() -> str:
    return html.render(advised(report_of(TRAINING)))


def column(shown: Opened, number: int) -> list[str]:
    rows = shown.find(f"{OPERATORS} tbody tr:visible")
    return [row.locator("td").nth(number).inner_text().split("\n")[0] for row in rows.all()]


def raw(shown: Opened, number: int) -> list[float]:
    cells = shown.find(f"{OPERATORS} tbody tr:visible td:nth-child({number + 1})")
    return [float(cell.get_attribute("data-v") or "nan") for cell in cells.all()]


def clipboard(shown: Opened) -> str:
    return str(shown.ask("navigator.clipboard.readText()"))


# Tables


def test_sorting_with_the_mouse(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text)
    shown.unfold()
    head = shown.find(f"{OPERATORS} th").nth(1)
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert raw(shown, 1) == sorted(raw(shown, 1), reverse=True)
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert raw(shown, 1) == sorted(raw(shown, 1))
    shown.find(f"{OPERATORS} th").nth(0).locator("button").click()
    assert head.get_attribute("aria-sort") is None
    assert column(shown, 0) == sorted(column(shown, 0), key=str.lower)


def test_sorting_with_the_keyboard(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text)
    shown.unfold()
    button = shown.find(f"{OPERATORS} th").nth(2).locator("button")
    button.focus()
    shown.page.keyboard.press("Enter")
    shown.page.keyboard.press("Space")
    assert shown.find(f"{OPERATORS} th").nth(2).get_attribute("aria-sort") == "ascending"
    assert raw(shown, 2) == sorted(raw(shown, 2))
    shown.page.keyboard.press("Tab")
    assert shown.ask("document.activeElement.closest('th').cellIndex") == 3


def test_filtering(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text)
    shown.unfold()
    every = column(shown, 0)
    part = every[1][-4:]
    shown.find(f"{OPERATORS} .filter").fill(part.upper())
    wanted = [name for name in every if part.lower() in name.lower()]
    assert 0 < len(wanted) < len(every)
    assert column(shown, 0) == wanted
    assert shown.find(f"{OPERATORS} .found").inner_text() == f"{len(wanted)} of {len(every)} rows"
    shown.find(f"{OPERATORS} .filter").press("Escape")
    assert column(shown, 0) == every


def test_copying_as_csv_what_is_shown_in_its_order(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text, **CLIPBOARD)
    shown.unfold()
    shown.find(f"{OPERATORS} th").nth(1).locator("button").click()
    shown.find(f"{OPERATORS} .filter").fill("aten")
    names, calls = column(shown, 0), raw(shown, 1)
    button = shown.find(f"{OPERATORS} .csv")
    button.focus()
    shown.page.keyboard.press("Enter")
    shown.wait_until("document.querySelector('#section-operators .csv').textContent === 'Copied'")
    head, *rows = csv.reader(io.StringIO(clipboard(shown)))
    assert head[:3] == ["Operator", "Calls/step", "Device self/step [ns]"]
    assert [row[0] for row in rows] == names
    assert [float(row[1]) for row in rows] == calls
    assert [float(row[2]) for row in rows] == pytest.approx(raw(shown, 2))
    shown.wait_until("document.querySelector('#section-operators .csv').textContent === 'Copy as CSV'")


# Findings


def test_copying_the_line_of_code(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text, **CLIPBOARD)
    shown.find("#finding-dataloader-bound .copy").click()
    shown.wait_until("document.querySelector('#finding-dataloader-bound .copy').textContent === 'Copied'")
    assert clipboard(shown) == "DataLoader(dataset, num_workers=4) # Plain words"


def test_a_link_leads_to_its_finding(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text, anchor="#finding-pageable-copies")
    assert shown.ask("document.activeElement.id") == "finding-pageable-copies"
    assert shown.ask("document.getElementById('finding-pageable-copies').getBoundingClientRect().top < innerHeight")
    shown.find(".best a").first.click()
    shown.wait_until("document.activeElement.id === 'finding-dataloader-bound'")
    assert shown.page.url.endswith("#finding-dataloader-bound")


def test_a_link_opens_what_is_folded(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text)
    folded = "#section-operators-by-shape"
    assert not shown.ask(f"document.querySelector('{folded}').open")
    shown.ask(f"location.hash = '{folded}'")
    shown.wait_until(f"document.querySelector('{folded}').open")


def test_evidence_is_folded_and_opens(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text)
    inside = shown.find("#finding-dataloader-bound .evidence table")
    assert not inside.is_visible()
    shown.find("#finding-dataloader-bound .evidence summary").first.click()
    assert inside.is_visible()


# Theme


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_theme_follows_the_system_until_somebody_chooses(
    scheme: str, text: str, opened: Callable[..., Opened]
) -> None:
    other = {"light": "dark", "dark": "light"}[scheme]
    shown = opened(text, color_scheme=scheme)
    ground = "getComputedStyle(document.body).backgroundColor"
    first = shown.ask(ground)
    button = shown.find("#theme")
    assert button.inner_text().lower() == other
    button.click()
    chosen = shown.ask(ground)
    assert chosen != first
    assert button.inner_text().lower() == scheme
    shown.page.reload()
    assert shown.ask(ground) == chosen
    button.click()
    assert shown.ask(ground) == first


def test_charts_follow_the_theme(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text)
    color = "getComputedStyle(document.querySelector('.chart svg.wide text')).fill"
    light = shown.ask(color)
    shown.find("#theme").click()
    assert shown.ask(color) != light


# Timeline


def view(shown: Opened) -> str:
    return shown.find("#waterfall .view").inner_text()


def test_zooming_with_buttons_keys_and_wheel(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text)
    whole = view(shown)
    for do in ("in", "right"):
        before = view(shown)
        shown.find(f"#waterfall [data-do={do}]").click()
        assert view(shown) != before
    shown.find("#waterfall [data-do=all]").click()
    assert view(shown) == whole
    stage = shown.find("#waterfall .stage")
    stage.focus()
    for key in ("+", "Shift+ArrowRight", "Shift+ArrowLeft", "-", "0"):
        shown.page.keyboard.press(key)
    assert view(shown) == whole
    shown.page.keyboard.press("+")
    zoomed = view(shown)
    assert zoomed != whole
    stage.hover()
    shown.page.mouse.wheel(0, -400)
    shown.wait_until(f"document.querySelector('#waterfall .view').textContent !== {zoomed!r}")


def test_the_wheel_scrolls_the_page_until_somebody_clicks(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text)
    whole = view(shown)
    shown.find("#waterfall .stage").hover()
    before = shown.ask("scrollY")
    shown.page.mouse.wheel(0, 300)
    shown.wait_until(f"scrollY > {before}")
    assert view(shown) == whole


def test_walking_through_slices_with_the_keyboard(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text)
    shown.find("#waterfall .stage").focus()
    chosen = shown.find("#waterfall .chosen")
    told = []
    for key in ("ArrowDown", "ArrowRight", "ArrowDown"):
        shown.page.keyboard.press(key)
        told.append(chosen.inner_text())
    assert all(told)
    assert len(set(told)) == 3
    shown.page.keyboard.press("Escape")
    assert chosen.inner_text() == ""


def test_hovering_and_clicking_a_slice_tell_its_name(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text)
    stage = shown.find("#waterfall .stage")
    stage.scroll_into_view_if_needed()
    box = stage.bounding_box()
    assert box is not None
    path, at = ((box["x"] + box["width"] / 3, box["y"] + down) for down in (48, 88))
    shown.page.mouse.move(*path)
    tip = shown.find("#waterfall .tip")
    assert tip.is_visible()
    assert tip.inner_text().startswith("DataLoader: ")
    assert tip.inner_text().endswith("Critical path: what the step waits for")
    shown.page.mouse.move(*at)
    assert "enumerate(DataLoader)#" in tip.inner_text()
    shown.page.mouse.click(*at)
    assert shown.find("#waterfall .chosen").inner_text() == tip.inner_text()


def test_dragging_with_shift_pans(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text)
    shown.find("#waterfall [data-do=in]").click()
    before = view(shown)
    box = shown.find("#waterfall .stage").bounding_box()
    assert box is not None
    shown.page.keyboard.down("Shift")
    shown.page.mouse.move(box["x"] + 400, box["y"] + 50)
    shown.page.mouse.down()
    shown.page.mouse.move(box["x"] + 300, box["y"] + 50, steps=4)
    shown.page.mouse.up()
    shown.page.keyboard.up("Shift")
    assert view(shown) != before


# Modules


def test_the_tree_of_modules_opens_and_closes(opened: Callable[..., Opened]) -> None:
    shown = opened(html.render(report_of(MODULES)))
    states = "[...document.querySelectorAll('.tree details')].map((part) => part.open)"
    shown.find("#module-tree > summary").click()
    shown.find("[data-tree=close]").click()
    assert set(shown.ask(states)) == {False}
    shown.find("[data-tree=open]").click()
    assert set(shown.ask(states)) == {True}


# Without a script, and on paper


def test_without_a_script_everything_is_there_to_read(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text, java_script_enabled=False)
    assert shown.find(".strips").first.is_visible()
    assert shown.find(".strips path").count() > 0
    shown.find("#section-steps > summary").click()
    assert shown.find(".chart svg.wide").first.is_visible()
    assert shown.find("#finding-dataloader-bound").is_visible()
    for control in ("#theme", ".csv", ".filter", "#waterfall", ".copy"):
        assert not shown.find(control).first.is_visible(), control
    folded = shown.find("#section-operators-by-shape")
    assert not folded.locator("table").is_visible()
    folded.locator("summary").first.click()
    assert folded.locator("table").is_visible()


def test_on_paper_controls_vanish_and_the_timeline_is_a_picture(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text, color_scheme="dark")
    shown.page.emulate_media(media="print")
    assert shown.find(".strips").first.is_visible()
    for control in ("#theme", ".csv", "#waterfall", "nav"):
        assert not shown.find(control).first.is_visible(), control
    assert shown.ask("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
