"""The parts of the page around the timeline: budget, flame graph, search, the section in view, folded sections."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Locator

from tests.browser.opened import Opened
from tests.formats.html.advised import advised
from tests.formats.samples import TRAINING, report_of
from tests.rules.judging import report
from tests.rules.memory.programs import Training
from traceanalyzer.formats import html

pytestmark = pytest.mark.browser

WIDE = {"viewport": {"width": 1920, "height": 1080}}


@pytest.fixture(scope="module")
def text() -> str:
    return html.render(report_of(TRAINING))


@pytest.fixture(scope="module")
def with_findings() -> str:
    return html.render(advised(report_of(TRAINING)))


# Budget


def test_bars_of_the_budget_follow_each_other(text: str, opened: Callable[..., Opened]) -> None:
    """Each fix begins where the step ends after it, and ends where the one before it begins."""
    shown = opened(text)
    bars = shown.ask(
        "[...document.querySelectorAll('.budget .bar')].map((bar) => [...bar.querySelectorAll('rect:not(.ground)')]"
        ".at(-1).getBoundingClientRect()).map((box) => [box.left, box.right])"
    )
    assert len(bars) > 2
    today, *fixes, floor = bars
    assert [right for _, right in fixes] == pytest.approx([today[1], *(left for left, _ in fixes[:-1])], abs=1)
    assert floor[1] == pytest.approx(fixes[-1][0], abs=3)


def test_a_fix_opens_its_card(with_findings: str, opened: Callable[..., Opened]) -> None:
    shown = opened(with_findings)
    details = "document.querySelector('#finding-small-kernels > details')"
    assert not shown.ask(f"{details}.open")
    shown.find(".budget a[href='#finding-small-kernels']").click()
    shown.wait_until(f"{details}.open")
    assert shown.ask("document.activeElement.id") == "finding-small-kernels"


@pytest.mark.parametrize("width", [1440, 390])
def test_what_is_clicked_is_large_enough(
    with_findings: str, opened: Callable[..., Opened], axe: str, width: int
) -> None:
    shown = opened(with_findings, viewport={"width": width, "height": 900})
    shown.unfold()
    assert shown.violations(axe, "target-size") == []


# Flame graph


def chosen(shown: Opened) -> str:
    return shown.find("#flame-view .chosen").inner_text()


def test_the_flame_graph_zooms_by_mouse_and_back(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text)
    boxes = shown.find("#flame-view .box")
    width = shown.ask("document.querySelector('#flame-view .stage').clientWidth")
    second = boxes.nth(1)
    row = second.get_attribute("data-row")
    second.click()
    box = shown.find(f"#flame-view .box[data-row='{row}']").bounding_box()
    assert box is not None
    assert box["width"] == pytest.approx(width, abs=2)
    assert chosen(shown)
    before = boxes.count()
    shown.find("#flame-view [data-whole]").click()
    assert boxes.count() > before


def test_the_flame_graph_works_by_keys(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text)
    shown.find("#flame-view .stage").focus()
    told = []
    for key in ("ArrowDown", "ArrowDown", "ArrowUp", "ArrowRight", "Enter", "Escape"):
        shown.page.keyboard.press(key)
        told.append(chosen(shown))
    assert len({*told[:2]}) == 2
    assert told[2] == told[0]
    assert told[4] == told[3]
    assert told[5] == ""


def test_the_flame_graph_shows_other_quantities_and_is_searched(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text)
    first = shown.find("#flame-view .box").first.get_attribute("title")
    button = shown.find("#flame-view [data-graph='1']")
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    assert shown.find("#flame-view .box").first.get_attribute("title") != first
    shown.find("#flame-view .sought").fill("aten")
    assert shown.find("#flame-view .missed").count() > 0
    assert "%" in shown.find("#flame-view .found").inner_text()


def test_bottom_up_begins_with_what_takes_the_time_itself(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text)
    boxes = shown.find("#flame-view .box")
    first = boxes.first.get_attribute("title")
    button = shown.find("#flame-view [data-bottom-up]")
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    turned = boxes.first.get_attribute("title")
    assert turned
    assert turned != first
    widths = shown.ask(
        "[...document.querySelectorAll('#flame-view .box')].filter((box) => parseFloat(box.style.top) === 0)"
        ".map((box) => parseFloat(box.style.width))"
    )
    assert widths == sorted(widths, reverse=True)
    assert 95 < sum(widths) <= 100.1
    button.click()
    assert boxes.first.get_attribute("title") == first


# From the peak of memory to what holds it


@pytest.fixture(scope="module")
def of_memory() -> str:
    return html.render(report(Training().run()))


def peak_of(shown: Opened) -> Locator:
    return shown.find(".chart a:visible")


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("is_key", [True, False], ids=["key", "mouse"])
def test_the_peak_leads_to_its_holders_and_back(
    of_memory: str, opened: Callable[..., Opened], width: int, *, is_key: bool
) -> None:
    """The section is framed, the flame graph shows what holds most, and a link leads back to the curve."""
    shown = opened(of_memory, viewport={"width": width, "height": 900})
    peak = peak_of(shown)
    if is_key:
        peak.focus()
        shown.page.keyboard.press("Enter")
    else:
        peak.click()
    shown.wait_until("document.querySelector('#section-memory-lines:target') !== null")
    assert shown.ask("getComputedStyle(document.querySelector('#section-memory-lines')).outlineWidth") == "2px"
    assert shown.find("#flame-view .at").count() == 1
    assert chosen(shown).startswith("attend (me/model.py:31): 32")
    shown.find(".back a").first.click()
    shown.wait_until("document.querySelector('#section-memory-snapshot:target') !== null")
    assert not shown.find(".back").first.is_visible()
    assert shown.overflow() == 0


def test_the_peak_leads_to_its_holders_without_a_script(of_memory: str, opened: Callable[..., Opened]) -> None:
    shown = opened(of_memory, java_script_enabled=False)
    assert not shown.find(".back").first.is_visible()
    peak_of(shown).click()
    assert shown.find(".back").first.is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_of_memory_is_accessible(of_memory: str, opened: Callable[..., Opened], axe: str, scheme: str) -> None:
    shown = opened(of_memory, color_scheme=scheme)
    assert shown.violations(axe) == []


def test_a_finding_is_copied_as_markdown(with_findings: str, opened: Callable[..., Opened]) -> None:
    shown = opened(with_findings)
    card = "document.querySelector('#finding-dataloader-bound')"
    said = shown.ask(f"asMarkdown({card})")
    assert said.startswith("### Title: Plain words")
    assert "**100-130" in said
    assert "Advice: Plain words" in said
    assert said.rstrip().endswith("```")
    shown.find("#finding-dataloader-bound .as-markdown").click()


# Search


def test_search_finds_a_kernel_and_goes_there(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text)
    shown.page.keyboard.press("/")
    assert shown.find("#finder").is_visible()
    shown.page.keyboard.type("sgemm")
    assert shown.find("#finder [role=option]").count() > 0
    shown.page.keyboard.press("Enter")
    assert not shown.find("#finder").is_visible()
    assert "sgemm" in shown.ask("document.activeElement.textContent")
    assert shown.ask("document.activeElement.checkVisibility()")


def test_search_closes_with_escape_and_leaves_typing_alone(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text)
    shown.find("#flame-view .sought").focus()
    shown.page.keyboard.press("/")
    assert not shown.find("#finder").is_visible()
    shown.find("#find").click()
    shown.page.keyboard.press("Escape")
    assert not shown.find("#finder").is_visible()


# Contents, folding, width


def test_the_section_in_view_is_marked(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text)
    current = "document.querySelector('.contents [aria-current]')?.hash"
    assert shown.ask(current) == "#summary"
    shown.ask("document.getElementById('timeline').scrollIntoView({behavior: 'instant'})")
    shown.wait_until(f"{current} === '#timeline'")
    assert shown.find(".contents [aria-current]").count() == 1


def test_a_training_has_at_most_six_screens_unfolded(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text)
    assert shown.ask("document.documentElement.scrollHeight") <= 6 * 900


def test_content_has_the_width_of_a_wide_screen_and_tables_fit(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text, **WIDE)
    assert shown.ask("document.querySelector('main').clientWidth") >= 1600
    shown.unfold()
    scrolling = (
        "[...document.querySelectorAll('.grid .scroll')].filter((one) => one.scrollWidth > one.clientWidth + 1)"
        ".map((one) => one.getAttribute('aria-label'))"
    )
    assert shown.ask(scrolling) == []


def test_what_is_folded_is_on_paper_without_a_script(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text, java_script_enabled=False)
    table = shown.find("#section-operators table")
    assert not table.is_visible()
    shown.page.emulate_media(media="print")
    assert table.is_visible()
    assert shown.find(".strips.flames svg").first.is_visible()


def test_terms_tell_their_definition_on_focus(text: str, opened: Callable[..., Opened]) -> None:
    shown = opened(text)
    shown.unfold()
    term = shown.find(".summary .term").first
    term.focus()
    assert shown.find("#term-tip").is_visible()
    assert len(shown.find("#term-tip").inner_text()) > 20
    shown.page.keyboard.press("Escape")
    assert not shown.find("#term-tip").is_visible()
