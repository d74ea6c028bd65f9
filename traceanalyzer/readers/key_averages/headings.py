"""Finds the titles of tables in a document: the nearest heading above, in all usual forms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from traceanalyzer.readers.key_averages.lines import Lines
from traceanalyzer.readers.key_averages.openings import TableOpening

_MARKS = "#=<-~*_P`\x1b"
"""First characters of lines that can be part of a heading; most lines of a log begin with none of them."""
_AROUND = "#<`=-["
"""First characters allowed in the lines beside a `# heading`; beside others it is a comment in a program."""
_QUOTE = "> |"
_BANNER = "=-~*#"
_UNDERLINE = frozenset("=-~*_#")
_TOP_LEVEL = "only display top-level ops statistics"
_HEADER_LINES = 8
_LONGEST = 200
_HTML_HEADING = re.compile("<h[1-6][ >]")
_TAG = re.compile(r"<[^<>]{0,200}>")


class Headings:
    """Follows the headings of a document from table to table.

    A title applies to the first table below it, a section to all tables below it.
    """

    def __init__(self) -> None:
        self.title: str | None = None
        self.section: str | None = None
        self.top_level_only = False
        self._in_code = False

    def scan(self, lines: Lines, start: int, opening: TableOpening) -> None:
        """Read the lines from `start` up to a table, and set title, section and scope for that table."""
        above = _Above(lines, start, opening)
        self.title = None
        for index in above.candidates():
            self._take(above, index)
        header, self.top_level_only = _printed_header(above)
        self.title = header or self.title or self.section

    def _take(self, above: _Above, index: int) -> None:
        text = above.text(index)
        if text.startswith("```"):
            self._in_code = not self._in_code
        elif text.startswith("Profile stats for:"):  # printed by Lightning's PyTorchProfiler
            self.title = text
        elif text.startswith("<summary") or _HTML_HEADING.match(text):
            self.title = _plain(text) or self.title
        elif banner := _banner(text):
            self.title = banner
        elif _is_rule(text) or text == "</summary>":
            before = above.text(index - 1)
            self.title = (None if _is_rule(before) else _plain(before)) or self.title
        elif not self._in_code and (heading := _markdown(above, index)):
            self.title = self.section = heading


@dataclass(frozen=True, slots=True)
class _Above:
    """The lines above a table, without the prefix and suffix of the table's lines."""

    lines: Lines
    start: int
    opening: TableOpening

    def candidates(self) -> Iterator[int]:
        """Indices of lines that may be part of a heading."""
        has_prefix = bool(self.opening.dashes.before.strip())
        for index in range(self.start, self.opening.top):
            mark = self.text(index)[:1] if has_prefix else self.lines.raw[index].lstrip(f"{_QUOTE}\ufeff")[:1]
            if mark and mark in _MARKS:
                yield index

    def text(self, index: int) -> str:
        """A line without prefix, quotation marks and blanks around it; empty before the first one."""
        return self.indented(index).strip().lstrip(_QUOTE) if index >= self.start else ""

    def indented(self, index: int) -> str:
        """A line without the prefix of the table's lines, but with its indentation."""
        line = self.lines[index]
        return self.opening.dashes.strip(line) if self.opening.dashes.before.strip() else line


def _markdown(above: _Above, index: int) -> str | None:
    """The text of a `# heading`, or None: if indented or between other lines, it is a comment in a program."""
    text = above.text(index)
    words = text.lstrip("#")
    if above.indented(index).startswith("    ") or len(text) - len(words) > 6 or not words[:1].isspace():
        return None
    neighbours = (above.text(index - 1), above.text(index + 1))
    return _plain(words) if all(not other or other[0] in _AROUND for other in neighbours) else None


def _printed_header(above: _Above) -> tuple[str | None, bool]:
    """The text of the `header` argument of torch, and whether torch notes that nested events are left out."""
    words: list[str] = []
    top_level_only = False
    top = above.opening.top
    is_double_spaced = not above.lines[top + 1].strip()
    for index in range(top - 1, max(above.start, top - _HEADER_LINES) - 1, -1):
        text = above.text(index)
        if not text and is_double_spaced:
            continue
        if text.endswith(_TOP_LEVEL):
            top_level_only, words = True, []
        elif len(text) >= 20 and _is_rule(text) and text[0] == "=":
            if words or not top_level_only:
                return _plain(" ".join(reversed(words))), top_level_only
        elif not text or _is_rule(text) or _banner(text):
            break
        else:
            words.append(text)
    return None, top_level_only


def _is_rule(text: str) -> bool:
    """Whether a line is one repeated character, which underlines the line above."""
    return len(text) >= 3 and text[0] in _UNDERLINE and not text.strip(text[0])


def _banner(text: str) -> str | None:
    """The title in `==== title ====`."""
    mark = text[:1]
    if len(text) < 7 or mark not in _BANNER or not (text.startswith(3 * mark) and text.endswith(3 * mark)):
        return None
    words = text.strip(mark)
    return _plain(words) if words[:1].isspace() or words[-1:].isspace() or words[:1].isalnum() else None


def _plain(text: str) -> str | None:
    """The words of a text without markup."""
    return " ".join(_TAG.sub(" ", text[: 4 * _LONGEST]).split()).strip("*_` ")[:_LONGEST] or None
