"""Charts as plain data: what is drawn, in which role of colour, and what the chart says in words."""

from __future__ import annotations

from dataclasses import dataclass

PALETTE = {
    "kernel": "#2f7d5b",
    "memcpy": "#a8690f",
    "memset": "#857149",
    "communication": "#8a4fa8",
    "runtime": "#c2532d",
    "dataloader": "#b83262",
    "cpu_exec": "#2f6fb2",
    "other": "#75808d",
    "ink": "#1b2431",
    "muted": "#56606e",
    "grid": "#d8dde4",
    "paper": "#ffffff",
}
"""A colour for each role. No two are equal: a page tells the role by the colour."""

WIDE, NARROW = 880, 360
"""Widths in CSS pixels: for a screen, for a phone."""

SIZE = 11.5  # of text, in CSS pixels


@dataclass(frozen=True)
class Series:
    """One of the parts that a chart draws."""

    label: str
    role: str
    """Role of the part, as in `PALETTE`."""
    values: tuple[float, ...]


@dataclass(frozen=True)
class Stacks:
    """Stacked bars side by side in the order of time; or a line where there are too many for bars."""

    id: str
    title: str
    description: str
    unit: str
    labels: tuple[str, ...]
    series: tuple[Series, ...]
    level: float
    """Value that is drawn as a line across."""
    marked: tuple[int, ...]
    """Positions of bars that stand out."""

    @property
    def is_line(self) -> bool:
        """Whether there are so many bars that their sums are drawn as a line."""
        return len(self.labels) > MOST_BARS

    @property
    def legend(self) -> tuple[Series, ...]:
        """The parts that have colours of their own; a line of sums has none."""
        return () if self.is_line else self.series


@dataclass(frozen=True)
class Bars:
    """Horizontal bars, each with its label and value above it."""

    id: str
    title: str
    description: str
    labels: tuple[str, ...]
    texts: tuple[str, ...]
    """Value of each bar as text, with its unit."""
    series: Series

    @property
    def legend(self) -> tuple[Series, ...]:
        """Nothing: each bar has its label beside it."""
        return ()


@dataclass(frozen=True)
class Curves:
    """Levels over time; each holds until the next."""

    id: str
    title: str
    description: str
    unit: str
    times_ns: tuple[tuple[float, ...], ...]
    """Times of each series in ns."""
    series: tuple[Series, ...]

    @property
    def legend(self) -> tuple[Series, ...]:
        """Every curve, by its colour."""
        return self.series


Chart = Stacks | Bars | Curves

MOST_BARS = 150
"""Most bars of a chart; more would be thinner than their gaps (own choice)."""
