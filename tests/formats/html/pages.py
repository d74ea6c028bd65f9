"""Reads a page back: its elements, its texts, and whether tags are balanced."""

from __future__ import annotations

import re
from html.parser import HTMLParser

DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_INLINE = re.compile(r"</?(?:data|bdi)\b[^>]*>")
"""Figures and names in a sentence, which are part of its text."""
VOID = frozenset({"meta", "input", "br", "link", "img"})


class Page(HTMLParser):
    """Elements in the order of the document, each with its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.unbalanced: list[str] = []
        self.data: dict[str, str] = {}
        self._open: list[str] = []
        self._script: str | None = None
        self.feed(_INLINE.sub("", text))
        self.close()
        self.unbalanced += self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)
        if tag == "script":
            self._script = dict(attrs).get("id") or "script"

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.unbalanced.append(f"/{tag}")
        self._script = None

    def handle_data(self, data: str) -> None:
        if self._script:
            self.data[self._script] = self.data.get(self._script, "") + data
        elif self._open and self._open[-1] != "style":
            self.texts.append(data)

    @property
    def text(self) -> str:
        """The visible text of a page, in one line."""
        return " ".join(" ".join(self.texts).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """Attributes of every such element."""
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def ids(self) -> list[str]:
        """Every id of a page."""
        return [str(attributes["id"]) for _, attributes in self.elements if "id" in attributes]


def as_read(rendered: str) -> str:
    """The text of a rendered report, of a page without its marks, with single blanks."""
    return " ".join((Page(rendered).text if rendered.startswith("<!doctype") else rendered).split())


def unpacked(text: str) -> list[int]:
    """The numbers of a column, as the script of the page reads them."""
    found, value, shift = [], 0, 0
    for digit in map(DIGITS.index, text):
        value |= (digit & 31) << shift
        shift += 5
        if digit < 32:
            found.append(-(value >> 1) if value & 1 else value >> 1)
            value = shift = 0
    return found
