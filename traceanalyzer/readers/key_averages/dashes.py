"""Finds lines of dashes, whose runs are the exact widths of a table's columns.

They also show what a quotation, a log or an indentation put around the table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

Span = tuple[int, int]

_RUN = re.compile("-+")
_SHORTEST = 3
"""Dashes of a first run. Shorter ones are a list item, or the dash in the prefix of a log."""
_LONGEST_SUFFIX = 8
"""Characters behind a line of dashes that may be decoration, such as a frame or the end of a JSON text."""
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
        """Take away from another line of the table what surrounds this one.

        A line without that prefix is returned from its start: loggers put it before the first line only.
        """
        if self.after and line.rstrip().endswith(self.after):
            line = line.rstrip()[: -len(self.after)]
        if match := self._prefix.match(line):
            return line[match.end() :]
        return "" if self._bare_prefix.fullmatch(line.rstrip()) else line


def _counting(prefix: str) -> re.Pattern[str]:
    """A pattern of a prefix that also matches where it counts on, as line numbers and time stamps do."""
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
