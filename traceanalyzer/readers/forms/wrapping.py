"""Joins the lines of tables without separators that a terminal cut at its width.

It shows by a header that only several lines together are, and by rows that end at the same width.
"""

from __future__ import annotations

from collections.abc import Sequence

from traceanalyzer.readers.forms.descriptions import Form, forms
from traceanalyzer.readers.key_averages.lines import Lines

_LONGEST = 1000
"""Most characters of a line of a cut table (own choice: no terminal is as wide)."""
_MOST_PIECES = 4
"""Most lines of a header (own choice: those of nsys have 150 characters, and nothing is as narrow as 40)."""
_BELOW = 12
"""Lines below a header that show the width of the others (own choice: a rule and a row)."""
_FIRST = frozenset({"share", "calls", "label"})
"""What the first column of such tables holds."""


def unwrapped(lines: Lines) -> Lines:
    """The lines, cut tables with one line for each row."""
    known = [form for form in forms()["table"] if form.header and form.columns[0].holds in _FIRST]
    changed: dict[int, tuple[str, ...]] = {}
    index = 0
    while index < len(lines):
        pieces = _pieces(lines, index, known)
        width = _width(lines, index, pieces) if pieces > 1 else None
        if width is None:
            index += 1
            continue
        end = index + pieces
        while end > index:
            changed[index] = ("".join(lines[at] for at in range(index, end)),)
            changed |= dict.fromkeys(range(index + 1, end), ())
            index, end = end, _end(lines, end, width)
    return lines.replaced(changed) if changed else lines


def _pieces(lines: Lines, index: int, known: Sequence[Form]) -> int:
    """Number of lines that only together are a header of a form; 1 if there is none."""
    if "Time" not in lines[index] and "ncalls" not in lines[index]:
        return 1
    texts: list[str] = []
    for at in range(index, min(index + _MOST_PIECES, len(lines))):
        text = lines[at][:_LONGEST]
        if not text.strip() or "|" in text or _is_header(text, known):
            return 1
        texts.append(text)
        if _is_header("".join(texts), known):
            return len(texts)
    return 1


def _is_header(text: str, known: Sequence[Form]) -> bool:
    return any(form.header and form.header.search(text.rstrip()) for form in known)


def _width(lines: Lines, index: int, pieces: int) -> int | None:
    """The width at which the lines of a table were cut; None if they were not, but broken between words.

    A cut line is as wide as the terminal, also in rows, and no line below it is wider.
    """
    widths = {len(lines[at]) for at in range(index, index + pieces - 1)}
    below = [lines[at] for at in range(index + pieces, min(index + pieces + _BELOW, len(lines)))]
    lengths = [len(line) for line in below if line.strip(" -=")]
    width = max(widths)
    return width if len(widths) == 1 and max(lengths, default=0) == width else None


def _end(lines: Lines, at: int, width: int) -> int:
    """The line after the last one of a row; the same line where no row is."""
    if at >= len(lines) or not lines[at].strip() or len(lines[at]) > width or lines[at].startswith("```"):
        return at
    end = at + 1
    while end < len(lines) and len(lines[end - 1]) == width and lines[end].strip():
        end += 1
    return end
