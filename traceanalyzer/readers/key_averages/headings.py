"""What a document calls its tables: the nearest heading above, in the shapes that people and printers give it."""

from __future__ import annotations

import re

from traceanalyzer.readers.key_averages.lines import Lines

_MARKS = "#=<-~*_P`>|"
"""First characters of the lines that can matter here; most lines of a log have none of them."""
_QUOTE = "> |"
_BANNER = "=-~*#"
_UNDERLINE = frozenset("=-~*_#")
_TOP_LEVEL = "only display top-level ops"
_LONGEST = 200
_TAG = re.compile(r"<[^<>]{0,200}>")


class Headings:
    """Follows the headings of a document from table to table.

    A title belongs to the first table below it, a section also to those after.
    """

    def __init__(self) -> None:
        self.title: str | None = None
        self.section: str | None = None
        self.top_level_only = False
        self._in_code = False

    def scan(self, lines: Lines, start: int, stop: int) -> None:
        """Take in the lines from `start` up to a table at `stop`, and set the three for that table."""
        self.title = None
        self.top_level_only = False
        for i in range(start, stop):
            mark = lines.raw[i].lstrip(f"{_QUOTE}\ufeff")[:1]
            if (mark and mark in _MARKS) or not mark.isascii() or not mark.isalnum():
                self._take(lines, i, start, stop)
        self.title = self._printed_header(lines, start, stop) or self.title or self.section

    def _take(self, lines: Lines, index: int, start: int, stop: int) -> None:
        text = lines[index].strip().lstrip(_QUOTE).strip()
        if text.startswith(("```", "~~~")):
            self._in_code = not self._in_code
        elif text.startswith("Profile stats for:"):  # Lightning's PyTorchProfiler
            self.title = text
        elif text.startswith("<summary") or text.endswith("</summary>"):
            self.title = _plain(text) or self.title
        elif banner := _banner(text):
            self.title = banner
        elif _is_rule(text):
            above = lines.filled(index - 1, -1)
            self.title = self._heading_over(lines, above, start) or self.title
        elif heading := self._markdown(lines, index, text, start):
            self.title = self.section = heading

    def _heading_over(self, lines: Lines, above: int | None, start: int) -> str | None:
        if above is None or above < start:
            return None
        text = lines[above].strip().lstrip(_QUOTE)
        return None if _is_rule(text) else _plain(text)

    def _markdown(self, lines: Lines, index: int, text: str, start: int) -> str | None:
        """A `# heading`; inside code, or right below another line, it is a comment."""
        words = text.lstrip("#")
        if self._in_code or not 1 <= len(text) - len(words) <= 6 or not words[:1].isspace():
            return None
        above = lines[index - 1].strip().lstrip(_QUOTE).strip() if index > start else ""
        return _plain(words) if not above or above[0] in "#<" else None

    def _printed_header(self, lines: Lines, start: int, stop: int) -> str | None:
        """What torch was given as `header`: the lines between a line of `=` and the table."""
        words: list[str] = []
        for i in range(stop - 1, max(start, stop - 8) - 1, -1):
            text = lines[i].strip().lstrip(_QUOTE).strip()
            if not text:
                break
            if _TOP_LEVEL in text:
                self.top_level_only = True
                words = []
            elif len(text) >= 20 and _is_rule(text) and text[0] == "=":
                if words:
                    return _plain(" ".join(reversed(words)))
                if not self.top_level_only:
                    break
            elif _is_rule(text) or _banner(text):
                break
            else:
                words.append(text)
        return None


def _is_rule(text: str) -> bool:
    """A line of one repeated character, which underlines what is above it."""
    return len(text) >= 3 and text[0] in _UNDERLINE and not text.strip(text[0])


def _banner(text: str) -> str | None:
    """`==== title ====`"""
    mark = text[:1]
    if len(text) < 7 or mark not in _BANNER or not (text.startswith(3 * mark) and text.endswith(3 * mark)):
        return None
    words = text.strip(mark)
    return _plain(words) if words[:1].isspace() or words[-1:].isspace() or words[:1].isalnum() else None


def _plain(text: str) -> str | None:
    """Words without markup."""
    return " ".join(_TAG.sub(" ", text[: 4 * _LONGEST]).split()).strip("*_` ")[:_LONGEST] or None
