"""Finds lines of dashes, whose runs are the exact widths of a table's columns.

They also show the prefix and suffix that a quotation, a log or an indentation adds to the table's lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

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
