"""Levels of detail of a page: one that is too large is rendered again with less, and says so."""

from __future__ import annotations

from dataclasses import dataclass

LIMIT = 1_500_000
"""Most bytes of a page, which must open quickly and fit into mail and chat."""

ROWS = 200
"""Most rows of each ranking; further rows are counted."""


@dataclass(frozen=True)
class PageDetail:
    """Limits of all parts whose size depends on the trace."""

    rows: int
    name: int
    """Most characters of a full name."""
    slices: int
    """Most slices of the timeline, longest first."""
    places: int
    """Most places of the tree of modules, outermost first."""
    findings: int


def stages(top: int | None) -> tuple[PageDetail, ...]:
    """Levels of detail, from complete to one that always fits."""
    rows = ROWS if top is None else top
    full = PageDetail(rows=rows, name=2000, slices=20_000, places=1000, findings=100)
    return (
        full,
        PageDetail(rows=rows, name=400, slices=6000, places=400, findings=100),
        PageDetail(rows=rows, name=160, slices=3000, places=200, findings=100),
        PageDetail(rows=min(rows, 100), name=160, slices=3000, places=200, findings=60),
        PageDetail(rows=min(rows, 50), name=160, slices=1500, places=100, findings=40),
        PageDetail(rows=min(rows, 20), name=160, slices=800, places=50, findings=20),
        PageDetail(rows=min(rows, 5), name=80, slices=200, places=10, findings=5),
    )
