"""The first screen of a page: few figures, no decimals, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from tests import corpus_files
from tests.browser import first_screen
from tests.browser.opened import Opened
from tests.conftest import FULL
from tests.formats.html.advised import advised
from tests.formats.samples import SOUND, TRAINING, report_of
from traceanalyzer.formats import html

pytestmark = pytest.mark.browser

MOST = 25
"""Figures with a unit that a reader takes in."""
FIELD = corpus_files.field()
SAMPLED = FIELD if FULL else FIELD[1::3]
"""Of the field a third, as of the corpus; all of it would take minutes."""


def check(shown: Opened) -> None:
    """Few figures, none with decimals, except in what the headline says of a whole run; what to do is on the screen."""
    found = first_screen.figures(shown.page)
    assert len(found) <= MOST, found
    below = first_screen.figures(shown.page, ".step-strip, .where-time-goes, .first-cards")
    assert [text for text in below if first_screen.DECIMAL.search(text)] == []
    assert all(bottom <= first_screen.HEIGHT for bottom in bottoms(shown))


def bottoms(shown: Opened) -> list[float]:
    """Where what to do ends on each card, or without a card what to do next, in pixels."""
    boxes = [part.bounding_box() for part in shown.find(".first-cards .fix, .next-steps").all()]
    assert len(boxes) >= min(1, shown.find(".first-cards > li").count())
    return [box["y"] + box["height"] for box in boxes if box is not None]


@pytest.mark.parametrize("path", SOUND[::3], ids=lambda path: path.name)
def test_fixtures_have_few_figures(path: Path, looked_at: Callable[[str], Opened]) -> None:
    check(looked_at(corpus_files.page_of(path)))


@pytest.mark.corpus
@pytest.mark.some
def test_traces_of_the_corpus_have_few_figures(
    corpus: Path, corpus_name: str, looked_at: Callable[[str], Opened]
) -> None:
    check(looked_at(corpus_files.page_of(corpus / "corpus" / f"{corpus_name}.json.gz")))


@pytest.mark.corpus
@pytest.mark.parametrize("path", SAMPLED, ids=lambda path: path.name)
def test_traces_of_the_field_have_few_figures(path: Path, looked_at: Callable[[str], Opened]) -> None:
    check(looked_at(corpus_files.page_of(path)))


def test_the_first_cards_say_what_to_do(looked_at: Callable[[str], Opened]) -> None:
    shown = looked_at(html.render(advised(report_of(TRAINING))))
    cards = shown.find(".first-cards > li")
    assert cards.count() == 3
    for card in cards.all():
        assert card.locator(".fix").inner_text()
        assert card.locator(".saving").inner_text()
        box = card.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= first_screen.HEIGHT
    assert cards.first.locator(".fix code").inner_text().startswith("DataLoader(")


def test_a_badge_tells_how_sure_a_finding_is(looked_at: Callable[[str], Opened]) -> None:
    shown = looked_at(html.render(advised(report_of(TRAINING))))
    assert "exact evidence" not in shown.find("main").inner_text()
    shown.find(".first-cards .badge").first.focus()
    assert shown.find("#term-tip").inner_text() == "measured"


def test_the_picture_of_the_step_is_below_the_findings(looked_at: Callable[[str], Opened]) -> None:
    shown = looked_at(html.render(advised(report_of(TRAINING))))
    tops = [shown.find(place).first.bounding_box() for place in (".first-cards", ".step-strip", ".where-time-goes")]
    assert None not in tops
    assert [box["y"] for box in tops if box] == sorted(box["y"] for box in tops if box)
    shares = shown.find(".where-time-goes .legend .share").all_inner_texts()
    assert sum(int(text.split("\xa0")[0]) for text in shares) in (99, 100)


def test_times_below_the_strip_have_room_on_a_phone(looked_at: Callable[[str], Opened]) -> None:
    shown = looked_at(html.render(report_of(TRAINING)))
    shown.page.set_viewport_size({"width": 390, "height": 844})
    ticks = shown.find(".strip-axis text")
    boxes = [box for tick in ticks.all() if (box := tick.bounding_box()) is not None]
    assert 4 <= ticks.count() <= 6
    assert 2 <= len(boxes) <= 3
    assert all(one["x"] + one["width"] + 8 < other["x"] for one, other in pairwise(boxes))
