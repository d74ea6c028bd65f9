"""Names out of a file add no element, no attribute and no script to the page."""

from __future__ import annotations

import json
import unicodedata
from collections import Counter

import pytest
from hypothesis import given, settings

from tests.formats.html.advised import advised
from tests.formats.html.pages import Page
from tests.formats.samples import HOSTILE, marked, names
from traceanalyzer.formats import html
from traceanalyzer.formats.html import as_json
from traceanalyzer.report.names import clean

NASTY = [
    *HOSTILE,
    "</script><img src=x onerror=alert(1)>",
    "</style></title><svg onload=alert(1)>",
    "\"><iframe src='javascript:alert(1)'>",
    "' autofocus onfocus='alert(1)",
    "<!--",
    "]]>",
    "&lt;script&gt;",
    "javascript:alert(1)",
    '=HYPERLINK("http://example.com")',
]


def shape(name: str) -> Counter[tuple[str, frozenset[str]]]:
    """The elements of the page with the names of their attributes, apart from foldings of long names."""
    page = Page(html.render(advised(marked(name), name), 5))
    assert not page.unbalanced
    foldable = {
        ("details", frozenset({"class"})),
        ("summary", frozenset()),
        ("code", frozenset()),
        ("code", frozenset({"class"})),
    }
    found = Counter((tag, frozenset(attributes) - {"title"}) for tag, attributes in page.elements)
    return Counter({element: count for element, count in found.items() if element not in foldable})


@pytest.mark.parametrize("name", NASTY, ids=lambda name: ascii(name)[:30])
def test_names_are_text_and_nothing_else(name: str) -> None:
    text = html.render(advised(marked(name), name), 5)
    page = Page(text)
    assert not page.unbalanced
    assert {"img", "iframe", "b", "i"}.isdisjoint(tag for tag, _ in page.elements)
    for tag, attributes in page.elements:
        assert not [key for key in attributes if key.startswith("on") or key in ("src", "srcdoc", "autofocus")], tag
    assert text.count("<script") == 4
    assert text.count("</script") == 4
    assert not {c for c in text if unicodedata.category(c) in ("Cc", "Cs", "Co", "Zl", "Zp")} - {"\n"}


@pytest.mark.parametrize("name", NASTY[-9:], ids=lambda name: ascii(name)[:30])
def test_the_elements_are_those_of_a_benign_page(name: str) -> None:
    assert shape(name) in (shape("plain_name_of_this_size"), shape("plain name of this size"))  # a mark has blanks


@settings(max_examples=15)
@given(names)
def test_whatever_the_name_the_page_is_balanced_and_shows_it(name: str) -> None:
    page = Page(html.render(advised(marked(name), name), 2))
    assert not page.unbalanced
    assert clean(name)[:20] in page.text


@given(names)
def test_embedded_data_ends_no_element_and_reads_back(name: str) -> None:
    data = {"name": name, name: [name, 1, None]}
    text = str(as_json(data))
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == data


def test_metadata_is_not_on_the_page() -> None:
    """The page is made from the report, which contains no unknown metadata."""
    assert "secret_token_value" not in html.render(marked("plain"))
