"""The lines of a document, cleaned on access and numbered as in the file, and the lines of dashes among them.

Cleaning removes colours, markup and special blanks. The runs of dashes are the exact widths of a table's columns; they
also show the prefix and suffix that a quotation, a log or an indentation adds to the table's lines.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from traceanalyzer.readers import encodings

_TERMINAL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z^_=>])")
"""Control sequences (ECMA-48): colours, cursor moves, window titles and hyperlinks."""

_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|apos|nbsp|ensp|emsp|#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6});")
"""HTML entities with their semicolon, because `Tensor const&, int` is C++."""

_TAGS = re.compile(r"</?(?:pre|code|span|br|div|p|td|tr|font|samp|tt)(?:\s[^<>]*)?/?>", re.IGNORECASE)

_TEMPLATE = re.compile(r"\w$")
"""The character before `<` in a C++ template, so that `foo<p>` is not taken for a paragraph."""

_ODD = {ord(c): " " for c in "\v\f"} | dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff\0"))
_ODD |= {code: " " for code in range(0xA0, 0x3001) if unicodedata.category(chr(code)) == "Zs"}


def decode(data: bytes) -> str:
    """Decode a document in UTF-8, or in the encoding of its byte order mark; undecodable bytes are replaced."""
    return data.decode(encodings.marked(data) or "utf-8", errors="replace").removeprefix("\ufeff")


def split_lines(text: str) -> list[str]:
    """Split into lines as editors count them; a text without line feeds is split at carriage returns."""
    return text.split("\n" if "\n" in text else "\r")


_PROGRESS = re.compile(r"[0-9]%\||[0-9]it \[[0-9]|\?it/s\]|[0-9] ?(?:it/s|s/it)\b")
"""A progress bar, as tqdm draws it."""


def shown(line: str) -> str:
    """What is left of a line with carriage returns: the last output, but not a progress bar that overwrote a row."""
    if "\r" not in line:
        return line
    parts = line.rstrip("\r").split("\r")
    return next((part for part in reversed(parts) if part.strip() and not _PROGRESS.search(part)), parts[-1])


def clean(line: str) -> str:
    """Clean one line, as a terminal would show it, but keep tabs."""
    line = shown(line)
    if "\x1b" in line:
        line = _TERMINAL.sub("", line)
    if "<" in line:
        line = _TAGS.sub(_without_tag, line)
    if "&" in line:
        line = _ENTITY.sub(lambda match: html.unescape(match[0]), line)
    return line if line.isascii() and line.isprintable() else line.translate(_ODD)


def _without_tag(match: re.Match[str]) -> str:
    before = match.string[max(match.start() - 1, 0) : match.start()]
    opens_template = not match[0].startswith("</") and len(match[0]) < 5 and _TEMPLATE.match(before)
    return match[0] if opens_template else ""


REACH = 3
"""Most distance between two consecutive lines of a table, because copying may insert blank lines."""


class Lines:
    """A sequence of cleaned lines."""

    def __init__(self, raw: Sequence[str], numbers: Sequence[int] | None = None) -> None:
        self.raw = raw
        self._numbers = numbers or range(1, len(raw) + 1)

    @classmethod
    def of(cls, text: str) -> Lines:
        """The lines of a text."""
        return cls(split_lines(text))

    def __len__(self) -> int:
        return len(self.raw)

    def __getitem__(self, index: int) -> str:
        return clean(self.raw[index])

    def replaced(self, texts: Mapping[int, Sequence[str]]) -> Lines:
        """The same lines, with others in the place of some, by index; these keep the number of the line."""
        parts = [(self.number(index), texts.get(index, (line,))) for index, line in enumerate(self.raw)]
        return Lines([text for _, lines in parts for text in lines], [number for number, lines in parts for _ in lines])

    def number(self, index: int) -> int:
        """1-based line number in the file."""
        return self._numbers[index]

    def filled(self, index: int, step: int = 1) -> int | None:
        """Index of the first line from `index` on that is not blank, after at most two blank lines, or None."""
        for i in range(index, index + step * REACH, step):
            if not 0 <= i < len(self.raw):
                return None
            if self[i].strip():
                return i
        return None


Span = tuple[int, int]

_RUN = re.compile("-+")
_SHORTEST = 3
"""Least length of the first run. Shorter ones are a list item, or a dash in the prefix of a log."""
_LONGEST_SUFFIX = 8
"""Most characters after a line of dashes that may be decoration, such as a frame or the end of a JSON text."""
_LONGEST_PREFIX = 1000


@dataclass(frozen=True)
class Dashes:
    """A line of dashes and blanks that frames a table."""

    runs: tuple[Span, ...]
    """Start and end of each run, counted from the first dash."""
    before: str
    after: str

    @cached_property
    def _prefix(self) -> re.Pattern[str]:
        return _counting(self.before)

    @cached_property
    def _bare_prefix(self) -> re.Pattern[str]:
        return _counting(self.before.rstrip())

    def strip(self, line: str) -> str:
        """Remove the prefix and suffix of this line from another line of the table.

        A line without the prefix is kept from its start, because loggers print it only before the first line.
        """
        if self.after and line.rstrip().endswith(self.after):
            line = line.rstrip()[: -len(self.after)]
        if match := self._prefix.match(line):
            return line[match.end() :]
        return "" if self._bare_prefix.fullmatch(line.rstrip()) else line


@lru_cache(maxsize=128)
def _counting(prefix: str) -> re.Pattern[str]:
    """A pattern that matches a prefix with any digits, because line numbers and time stamps change."""
    parts = re.split("([0-9]+)", prefix)
    return re.compile("".join("[0-9]+" if i % 2 else re.escape(part) for i, part in enumerate(parts)))


def find_dashes(line: str) -> Dashes | None:
    """Parse a line as a line of dashes, or return None."""
    if "--" not in line:
        return None
    end = line.rfind("-") + 1
    after = line[end:].strip()
    start = len(line[:end].rstrip("- \t"))
    runs = [match.span() for match in _RUN.finditer(line, start, end)]
    first = next((a for a, b in runs if b - a >= _SHORTEST), None)
    if first is None or first > _LONGEST_PREFIX or len(after) > _LONGEST_SUFFIX:
        return None
    return Dashes(tuple((a - first, b - first) for a, b in runs if a >= first), line[:first], after)
