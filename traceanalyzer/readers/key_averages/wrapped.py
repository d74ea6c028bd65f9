"""Tables that a terminal or a page broke into pieces of equal width, put together again."""

from __future__ import annotations

from collections.abc import Sequence

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
        pieces = _pieces(lines.raw, index) if "--" in lines.raw[index] else 0
        if pieces and (rows := _rows(lines.raw, index, pieces)):
            joined += [*lines.raw[done:index], *rows]
            numbers += [
                *range(done + 1, index + 1),
                *range(index + 1, index + 1 + pieces * len(rows), pieces),
            ]
            index = done = index + pieces * len(rows)
        else:
            index += max(pieces, 1)
    if not done:
        return lines
    return Lines(joined + list(lines.raw[done:]), numbers + list(range(done + 1, len(lines) + 1)))


def _pieces(raw: Sequence[str], index: int) -> int:
    """Number of lines that one line of dashes was broken into; 0 if the lines here are no wrapped head of a table."""
    pieces = 0
    while pieces <= _MOST_PIECES and index + pieces < len(raw) and _only_dashes(raw[index + pieces]):
        pieces += 1
    lower = index + 2 * pieces
    head = [clean(line).rstrip() for line in raw[index : lower + pieces]]
    is_head = 2 <= pieces <= _MOST_PIECES and head[:pieces] == head[2 * pieces :]
    return pieces if is_head and not any(_only_dashes(line) for line in head[pieces : 2 * pieces]) else 0


def _rows(raw: Sequence[str], index: int, pieces: int) -> list[str]:
    """The joined lines of the table at `index` up to its closing dashes, or to the first line that is too wide."""
    width = max(len(clean(line)) for line in raw[index : index + 3 * pieces])
    rows: list[str] = []
    for start in range(index, len(raw) - pieces + 1, pieces):
        part = [clean(line) for line in raw[start : start + pieces]]
        if max(map(len, part)) > width:
            break
        rows.append("".join(line.ljust(width) for line in part).rstrip())
        if len(rows) > 3 and rows[-1] == rows[0]:
            break
    return rows if len(rows) > 3 and parse_header(rows[1]) else []


def _only_dashes(line: str) -> bool:
    return "--" in line and not line.strip("- \t\r")
