"""Names that would be markup or script anywhere else are text in the browser."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable

import pytest

from tests.browser.opened import Opened
from tests.formats.html.advised import advised
from tests.formats.samples import marked
from traceanalyzer.formats import html
from traceanalyzer.report.names import clean

pytestmark = pytest.mark.browser

INJECTIONS = {
    "script": "</script><script>document.title='owned'</script>",
    "image": "</script><img src=x onerror=\"document.title='owned'\">",
    "svg": "<svg onload=\"document.title='owned'\"><style>body{display:none}</style>",
    "attribute": "\" autofocus onfocus=\"document.title='owned'\" x='",
    "comment": "<!--<script>",
    "template": "{{ 7 * 7 }}{% raw %} ${7*7} `",
    "terminal": "\x1b[31mred\x1b[0m\x07",
    "direction": "\u202egnp.exe\u2066",
    "separator": "a\u2028b\u2029c",
    "formula": '=HYPERLINK("http://example.com","x"),"y',
}
every_injection = pytest.mark.parametrize("name", INJECTIONS.values(), ids=INJECTIONS.keys())


@every_injection
def test_a_hostile_name_is_shown_as_text(name: str, looked_at: Callable[[str], Opened]) -> None:
    shown = looked_at(html.render(advised(marked(name), name)))
    shown.unfold()
    assert shown.page.title().startswith(("Limited by ", "Waiting for data"))
    assert shown.find("img, iframe, [onload], [onerror], [onfocus], [autofocus]").count() == 0
    assert shown.find("script").count() == 4
    names = shown.find("#section-operators td.name code").all_text_contents()
    assert clean(name) in names
    assert shown.overflow() == 0


@every_injection
def test_the_timeline_tells_a_hostile_name_as_text(name: str, looked_at: Callable[[str], Opened]) -> None:
    shown = looked_at(html.render(marked(name)))
    shown.find("#waterfall .stage").focus()
    told = set()
    for key in ("ArrowDown", *["ArrowRight"] * 6, "ArrowDown", "ArrowDown", "ArrowDown"):
        shown.page.keyboard.press(key)
        told.add(shown.find("#waterfall .chosen").text_content())
    assert any(text and text.startswith(clean(name)[:20]) for text in told)
    assert shown.find("#waterfall .chosen *, #waterfall .tip *").count() == 0


def test_a_name_that_begins_like_a_formula_is_no_formula_in_a_spreadsheet(opened: Callable[..., Opened]) -> None:
    name = INJECTIONS["formula"]
    shown = opened(html.render(marked(name)), permissions=["clipboard-read", "clipboard-write"])
    shown.unfold()
    shown.find("#section-operators .csv").click()
    shown.wait_until("document.querySelector('#section-operators .csv').textContent === 'Copied'")
    rows = list(csv.reader(io.StringIO(shown.ask("navigator.clipboard.readText()"))))
    assert "'" + clean(name) in [row[0] for row in rows]
