"""What a document calls its tables: the nearest heading above, in the shapes that people and programs use."""

from __future__ import annotations

import re

from traceanalyzer.readers.key_averages.lines import Lines

_MARKS = "#=<-~*_P`\x1b"
"""First characters of the lines that can matter here; most lines of a log have none of them."""
_AROUND = "#<`=-["
"""First characters of lines that a `# heading` may touch; other neighbours make it a comment in a program."""
_QUOTE = "> |"
_BANNER = "=-~*#"
_UNDERLINE = frozenset("=-~*_#")
_TOP_LEVEL = "only display top-level ops"
_LONGEST = 200
_HTML_HEADING = re.compile("<h[1-6][ >]")
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
            if mark and mark in _MARKS:
                self._take(lines, i, start, stop)
        self.title = self._printed_header(lines, start, stop) or self.title or self.section

    def _take(self, lines: Lines, index: int, start: int, stop: int) -> None:
        text = _unquoted(lines, index)
        if text.startswith("```"):
            self._in_code = not self._in_code
        elif text.startswith("Profile stats for:"):  # Lightning's PyTorchProfiler
            self.title = text
        elif text.startswith("<summary") or _HTML_HEADING.match(text):
            self.title = _plain(text) or self.title
        elif text == "</summary>":
            self.title = self._text_above(lines, index, start) or self.title
        elif banner := _banner(text):
            self.title = banner
        elif _is_rule(text):
            self.title = self._text_above(lines, index, start) or self.title
        elif heading := self._markdown(lines, index, text, start):
            self.title = self.section = heading

    def _text_above(self, lines: Lines, index: int, start: int) -> str | None:
        text = _unquoted(lines, index - 1) if index > start else ""
        return _plain(text) if text and not _is_rule(text) else None

    def _markdown(self, lines: Lines, index: int, text: str, start: int) -> str | None:
        """A `# heading`; inside or amid code it is a comment."""
        words = text.lstrip("#")
        if lines[index].startswith("    "):
            return None
        if self._in_code or not 1 <= len(text) - len(words) <= 6 or not words[:1].isspace():
            return None
        above = _unquoted(lines, index - 1) if index > start else ""
        below = _unquoted(lines, index + 1)
        return _plain(words) if all(not text or text[0] in _AROUND for text in (above, below)) else None

    def _printed_header(self, lines: Lines, start: int, stop: int) -> str | None:
        """What torch was given as `header`: the lines between a line of `=` and the table."""
        words: list[str] = []
        is_double_spaced = not lines[stop + 1].strip()
        for i in range(stop - 1, max(start, stop - 8) - 1, -1):
            text = _unquoted(lines, i)
            if not text and is_double_spaced:
                continue
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


def _unquoted(lines: Lines, index: int) -> str:
    return lines[index].strip().lstrip(_QUOTE).strip()


def _is_rule(text: str) -> bool:
    """A line of one repeated character, which underlines what is above it."""
    return len(text) >= 3 and text[0] in _UNDERLINE and not text.strip(text[0])


def _banner(text: str) -> str | None:
    """The title in `==== title ====`."""
    mark = text[:1]
    if len(text) < 7 or mark not in _BANNER or not (text.startswith(3 * mark) and text.endswith(3 * mark)):
        return None
    words = text.strip(mark)
    return _plain(words) if words[:1].isspace() or words[-1:].isspace() or words[:1].isalnum() else None


def _plain(text: str) -> str | None:
    """Words without markup."""
    return " ".join(_TAG.sub(" ", text[: 4 * _LONGEST]).split()).strip("*_` ")[:_LONGEST] or None
