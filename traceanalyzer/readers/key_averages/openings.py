"""Finds where tables begin: a line of dashes beside a header that names the profiler's columns.

It searches for the dashes, because few lines have them. The header distinguishes a profiler table from a list of
packages, a psql result or a horizontal rule.
"""

from __future__ import annotations

from dataclasses import dataclass

from traceanalyzer.readers.key_averages.dashes import Dashes, find_dashes
from traceanalyzer.readers.key_averages.header import Header, parse_header
from traceanalyzer.readers.key_averages.lines import REACH, Lines


@dataclass(frozen=True, slots=True)
class TableOpening:
    """The head of a table, as line indices."""

    top: int
    """First line: the upper dashes, or the header if they are missing."""
    header_at: int
    body: int
    """First line below the head."""
    dashes: Dashes
    """The dashes nearest to the rows."""
    header: Header


def next_opening(lines: Lines, start: int) -> TableOpening | None:
    """The first table that begins at or after the line `start`."""
    for i in range(start, len(lines)):
        if "--" in lines.raw[i] and _name_is_near(lines, i) and (opening := opening_at(lines, i, start)):
            return opening
    return None


def _name_is_near(lines: Lines, index: int) -> bool:
    """Whether `Name` is near a line; a cheap test for logs with many dashes."""
    return any("Name" in line for line in lines.raw[max(index - REACH, 0) : index + REACH + 1])


def opening_at(lines: Lines, index: int, start: int) -> TableOpening | None:
    """The table whose first line of dashes is at `index`, or None; its header is not searched before `start`."""
    dashes = table_dashes(lines[index])
    if not dashes:
        return None
    below = lines.filled(index + 1)
    if below is not None and "Name" in lines.raw[below]:
        second = lines.filled(below + 1)
        inner = table_dashes(lines[second]) if second is not None else None
        if header := parse_header((inner or dashes).strip(lines[below])):
            body = second if inner and second is not None else below
            return TableOpening(index, below, body + 1, inner or dashes, header)
    above = lines.filled(index - 1, -1)
    if above is not None and above >= start and (header := parse_header(dashes.strip(lines[above]))):
        return TableOpening(above, above, index + 1, dashes, header)
    return None


def table_dashes(line: str) -> Dashes | None:
    """The dashes of a line if they frame several columns, or None."""
    dashes = find_dashes(line)
    return dashes if dashes and len(dashes.runs) > 1 else None
