"""Finds the numbers of iterations in the program printed above a table, such as `for _ in range(100):`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from traceanalyzer.readers.key_averages.lines import Lines

_LOOP = re.compile(r"\bfor\s+\w{1,40}\s+in\s+range\(\s*([0-9][0-9_]{0,8})\s*\)")
_NEAR = 60
"""Number of lines above a table that may contain its program (own choice: one screen)."""
_SEARCHED = 500
"""Number of characters of a line that are searched."""


def read_loops(lines: Lines, spans: Sequence[tuple[int, int]]) -> list[tuple[int, ...]]:
    """For each table, the numbers of iterations of the loops after the previous table, nearest first.

    Args:
        lines: The document.
        spans: First line and end of each table, in order.
    """
    before = [0, *(end for _, end in spans)]
    return [_above(lines, max(end, top - _NEAR), top) for end, (top, _) in zip(before, spans, strict=False)]


def _above(lines: Lines, first: int, top: int) -> tuple[int, ...]:
    found = (_LOOP.search(lines.raw[index][:_SEARCHED]) for index in range(top - 1, first - 1, -1))
    return tuple(int(match[1].replace("_", "")) for match in found if match is not None)
