"""Puts tables together again that a terminal or a page broke into pieces of equal width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from traceanalyzer.readers.key_averages.cleaning import clean
from traceanalyzer.readers.key_averages.header import parse_header
from traceanalyzer.readers.key_averages.lines import Lines

_MOST_PIECES = 20


def unwrap(lines: Lines) -> Lines:
    """The same lines with each row of a wrapped table on one line; other lines stay as they are."""
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
    """Lines to one line of dashes, and to one row at least."""
    lower: int
    """First line of the dashes below the header."""
    width: int
    """Characters of a piece."""

    def rows(self) -> list[tuple[int, int]]:
        """First line and end of each row, head included, up to the closing dashes or a line too wide."""
        rows = [(self.top, self.top + self.pieces), (self.top + self.pieces, self.lower)]
        start = self.lower
        is_full = len(clean(self.raw[self.top + self.pieces - 1])) == self.width
        while start + self.pieces <= len(self.raw):
            stop = start + self.pieces
            while not is_full and stop < len(self.raw) and len(clean(self.raw[stop - 1])) == self.width:
                stop += 1  # a stack frame wider than its column; wrong if it ends with the line
            if any(len(clean(line)) > self.width for line in self.raw[start:stop]):
                break
            rows.append((start, stop))
            if start > self.lower and self.join(start, stop) == self.join(*rows[0]):
                break
            start = stop
        return rows

    def join(self, start: int, stop: int) -> str:
        """Join the pieces of one line."""
        return "".join(clean(line).ljust(self.width) for line in self.raw[start:stop]).rstrip()


def _wrapped_at(raw: Sequence[str], start: int, upper: int) -> _Wrapped | None:
    """The wrapped table whose dashes are the last of the `upper` lines from `start` on."""
    bottom = start + upper
    blank = int(bottom < len(raw) and not clean(raw[bottom]).strip())  # the two blanks at the end of a line, broken off
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
    """Lines from `start` on that are dashes only, or are not; one more than can be used at most."""
    count = 0
    while count <= _MOST_PIECES and start + count < len(raw) and _only_dashes(raw[start + count]) is dashes:
        count += 1
    return count


def _only_dashes(line: str) -> bool:
    return "-" in line and not clean(line).strip("- \t")
