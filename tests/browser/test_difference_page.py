"""The page of a difference in a browser: quiet, accessible, within the window, and on paper."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.opened import Opened
from tests.browser.test_every_page import check_access, check_layout
from tests.formats.samples import FIXTURES, TRAINING, report_of
from traceanalyzer.comparison import diff
from traceanalyzer.formats import language
from traceanalyzer.formats.difference import answer

pytestmark = pytest.mark.browser


def page(code: str = "en") -> str:
    """A training before and after its loader got more workers."""
    fed = FIXTURES / "synthetic" / "gpu_training_fed.json.gz"
    return answer(diff(report_of(TRAINING), report_of(fed)), language.of(code)).render("html", 3)


@pytest.mark.parametrize("code", language.CODES)
def test_it_fits_the_window_and_axe_finds_nothing(code: str, looked_at: Callable[[str], Opened], axe: str) -> None:
    shown = looked_at(page(code))
    check_layout(shown)
    shown.page.set_viewport_size({"width": 1440, "height": 900})
    check_access(shown, axe)


def test_bars_of_both_sides_have_one_scale(looked_at: Callable[[str], Opened]) -> None:
    shown = looked_at(page())
    widths = shown.ask(
        "[...document.querySelectorAll('svg.stack')].map((bar) => [...bar.children].reduce((sum, part) => "
        "sum + part.getBoundingClientRect().width, 0) / bar.getBoundingClientRect().width)"
    )
    assert widths[0] == pytest.approx(1, abs=0.02)
    assert 0 < widths[1] < widths[0]


def test_pictures_are_on_the_first_screens_and_on_paper(looked_at: Callable[[str], Opened]) -> None:
    shown = looked_at(page())
    assert shown.ask("document.querySelector('svg.stack').getBoundingClientRect().bottom") < 500
    assert shown.ask("[...document.querySelectorAll('.lane svg')].at(-1).getBoundingClientRect().bottom") < 1400
    shown.page.emulate_media(media="print")
    assert shown.find("svg.stack").first.is_visible()
    assert shown.find(".lane path").first.is_visible()
