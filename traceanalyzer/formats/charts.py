"""Charts as plain data: values, colour roles, and texts."""

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
"""A colour for each role. All are distinct, because the HTML page identifies roles by colour."""

WIDE, NARROW = 880, 360
"""Widths in CSS pixels, for a screen and for a phone."""

SIZE = 11.5  # font size in CSS pixels


@dataclass(frozen=True)
class Series:
    """One part of a chart with its colour."""

    label: str
    role: str
    """Colour role of the part, as in `PALETTE`."""
    values: tuple[float, ...]


@dataclass(frozen=True)
class StackedBars:
    """Stacked bars in the order of time, or a line if there are too many bars."""

    id: str
    title: str
    description: str
    unit: str
    labels: tuple[str, ...]
    series: tuple[Series, ...]
    level: float
    """Value of a horizontal reference line."""
    marked: tuple[int, ...]
    """Positions of highlighted bars."""

    @property
    def is_line(self) -> bool:
        """Whether the sums are drawn as a line, because there are too many bars."""
        return len(self.labels) > MOST_BARS

    @property
    def legend(self) -> tuple[Series, ...]:
        """The parts with distinct colours; none for a line of sums."""
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
        """Empty, because each bar has its label beside it."""
        return ()


@dataclass(frozen=True)
class Curves:
    """Levels over time; each level lasts until the next."""

    id: str
    title: str
    description: str
    unit: str
    times_ns: tuple[tuple[float, ...], ...]
    """Times of each series in ns."""
    series: tuple[Series, ...]

    @property
    def legend(self) -> tuple[Series, ...]:
        """All curves with their colours."""
        return self.series


Chart = StackedBars | Bars | Curves

MOST_BARS = 150
"""Most bars of a chart; more would be thinner than their gaps (own choice)."""
