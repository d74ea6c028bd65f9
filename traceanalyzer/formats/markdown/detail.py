"""Levels of detail of a document, which are reduced until it fits into a comment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

LONGEST = 64_990
"""Most characters of a document. GitHub allows 65,536 in a comment."""


@dataclass(frozen=True)
class DocumentDetail:
    """Limits of each kind of content; the rest is counted."""

    rows: int
    """Most rows of a table."""
    findings: int
    """Number of findings that are shown in full."""
    listed: int
    """Number of findings in their table."""
    places: int
    """Most places of each piece of evidence."""
    messages: int
    """Most messages of a section."""
    columns: int
    """Most columns of a table; only comparisons of many runs have more."""
    name: int
    """Most characters of a name in the trace."""
    prose: int
    """Most characters of a text."""


_FULL = DocumentDetail(rows=20, findings=20, listed=60, places=5, messages=200, columns=20, name=100, prose=1500)
_LESS = (
    DocumentDetail(rows=12, findings=12, listed=40, places=3, messages=60, columns=16, name=100, prose=1000),
    DocumentDetail(rows=7, findings=8, listed=20, places=2, messages=30, columns=14, name=80, prose=700),
    DocumentDetail(rows=4, findings=5, listed=10, places=1, messages=8, columns=10, name=60, prose=400),
    DocumentDetail(rows=2, findings=3, listed=5, places=1, messages=4, columns=6, name=40, prose=250),
)
_MANY_ROWS = (500, 200, 100, 50, 20)


def levels(top: int) -> Iterator[DocumentDetail]:
    """Levels of detail in decreasing order.

    Args:
        top: Requested number of rows of each table.
    """
    for rows in (top, *(rows for rows in _MANY_ROWS if rows < top)):
        yield replace(_FULL, rows=rows)
    for less in _LESS:
        yield replace(less, rows=min(top, less.rows))


def length(text: str) -> int:
    """Length in UTF-16 code units, which the strictest host counts: characters outside the basic plane are two."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def fits(text: str) -> bool:
    """Whether a text fits into a comment."""
    return length(text) <= LONGEST
