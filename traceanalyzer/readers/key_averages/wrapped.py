"""Restores tables whose lines a terminal or a page wrapped at equal width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from traceanalyzer.readers.key_averages.cleaning import clean
from traceanalyzer.readers.key_averages.header import parse_header
from traceanalyzer.readers.key_averages.lines import Lines

_MOST_PIECES = 20


def unwrap(lines: Lines) -> Lines:
    """Join each row of wrapped tables into one line; other lines are unchanged."""
    joined: list[str] = []
    numbers: list[int] = []
    done = index = 0
    while index < len(lines):
        dashes = _count(lines.raw, index, dashes=True) if "--" in lines.raw[index] else 0
        if dashes > 1 and (wrapped := _wrapped_at(lines.raw, index, dashes)):
            joined += lines.raw[done : wrapped.top]
            numbers += range(done + 1, wrapped.top + 1)
            for start, done in wrapped.rows():
                joined.append(wrapped.join(start, done))
                numbers.append(start + 1)
        index = max(index + dashes, index + 1, done)
    if not done:
        return lines
    return Lines(joined + list(lines.raw[done:]), numbers + list(range(done + 1, len(lines) + 1)))


@dataclass(frozen=True, slots=True)
class _Wrapped:
    """A wrapped table that begins at the line `top`."""

    raw: Sequence[str]
    top: int
    pieces: int
    """Number of wrapped lines of the dashes, which is the least number of a row."""
    lower: int
    """Index of the first line of dashes below the header."""
    width: int
    """Number of characters of a wrapped line."""

    def rows(self) -> list[tuple[int, int]]:
        """First line and end of each row, including the head, up to the closing dashes or a line that is too wide."""
        rows = [(self.top, self.top + self.pieces), (self.top + self.pieces, self.lower)]
        start = self.lower
        is_full = len(clean(self.raw[self.top + self.pieces - 1])) == self.width
        while start + self.pieces <= len(self.raw):
            stop = start + self.pieces
            while not is_full and stop < len(self.raw) and len(clean(self.raw[stop - 1])) == self.width:
                stop += 1  # a stack frame wider than its column; not detected if it ends at the wrap width
            if any(len(clean(line)) > self.width for line in self.raw[start:stop]):
                break
            rows.append((start, stop))
            if start > self.lower and self.join(start, stop) == self.join(*rows[0]):
                break
            start = stop
        return rows

    def join(self, start: int, stop: int) -> str:
        """Join the wrapped lines of one row."""
        return "".join(clean(line).ljust(self.width) for line in self.raw[start:stop]).rstrip()


def _wrapped_at(raw: Sequence[str], start: int, upper: int) -> _Wrapped | None:
    """The wrapped table whose upper dashes end the `upper` lines from `start` on, or None."""
    bottom = start + upper
    blank = int(bottom < len(raw) and not clean(raw[bottom]).strip())  # the two blanks at the end of a line, wrapped
    lower = bottom + blank + _count(raw, bottom + blank, dashes=False)
    dashes = _count(raw, lower, dashes=True)
    top, pieces = bottom - dashes, dashes + blank
    if not 2 <= dashes <= min(upper, _MOST_PIECES):
        return None
    width = max(len(clean(line)) for line in raw[top:lower])
    wrapped = _Wrapped(raw, top, pieces, lower, width)
    same = wrapped.join(top, top + pieces) == wrapped.join(lower, lower + pieces)
    return wrapped if same and parse_header(wrapped.join(top + pieces, lower)) else None


def _count(raw: Sequence[str], start: int, *, dashes: bool) -> int:
    """Number of consecutive lines from `start` that are (or are not) only dashes; stops above `_MOST_PIECES`."""
    count = 0
    while count <= _MOST_PIECES and start + count < len(raw) and _only_dashes(raw[start + count]) is dashes:
        count += 1
    return count


def _only_dashes(line: str) -> bool:
    return "-" in line and not clean(line).strip("- \t")
