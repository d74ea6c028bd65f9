"""Charts as plain data: values, colour roles, and texts; `pictures` lays them out."""

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
    "host_code": "#7aa7d6",
    "other": "#75808d",
    "ink": "#1b2431",
    "muted": "#56606e",
    "grid": "#d8dde4",
    "paper": "#ffffff",
}
"""A colour for each role. All are distinct, because the HTML page identifies roles by colour."""
DARK = {
    "kernel": "#4fb487",
    "memcpy": "#d9a23c",
    "memset": "#b8a47a",
    "communication": "#c48be0",
    "runtime": "#e8875f",
    "dataloader": "#ef7aa4",
    "cpu_exec": "#6ba8e8",
    "host_code": "#b5d5f7",
    "other": "#8d98a6",
    "ink": "#e3e8ee",
    "muted": "#a5afbc",
    "grid": "#323b46",
    "paper": "#191f26",
}
"""The colours of `PALETTE` on a dark background, as on a page."""

WIDE, NARROW = 880, 360
"""Widths in CSS pixels, for a screen and for a phone."""

MOST_BARS = 150
"""Most bars of a chart; more would be thinner than their gaps (own choice)."""


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
    whole: float = 0.0
    """Least value that a bar of full length stands for: 1 where values are shares of a whole."""

    @property
    def largest(self) -> float:
        """The value that a bar of full length stands for."""
        return max((*self.series.values, self.whole)) or 1.0

    @property
    def legend(self) -> tuple[Series, ...]:
        """Empty, because each bar has its label beside it."""
        return ()


@dataclass(frozen=True)
class LaneBox:
    """A box in a row: of a chart of lanes, or above curves."""

    row: int
    top: float
    """Upper edge as a share of the row."""
    bottom: float
    begin: float
    end: float
    role: str
    strength: float = 1.0
    """How opaque it is, from 0 to 1."""
    text: str = ""
    """What stands in it, if it fits."""
    title: str = ""
    """What a pointer on it shows."""


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
    stacked_ns: tuple[float, ...] = ()
    """Times of the areas."""
    stacked: tuple[Series, ...] = ()
    """Areas below the first curve, the lowest first, which together are as high as it; none: it is faintly filled."""
    mark_ns: float | None = None
    """A moment that is marked."""
    mark: str = ""
    """What is at this moment, in a few words."""
    mark_link: str = ""
    """Address that the mark leads to, on a page; empty: it leads nowhere."""
    above: tuple[LaneBox, ...] = ()
    """Boxes in rows above the curves, on the same axis."""

    @property
    def legend(self) -> tuple[Series, ...]:
        """All curves with their colours, and the areas as they lie, the highest first."""
        return (*self.series, *reversed(self.stacked))


@dataclass(frozen=True)
class Lanes:
    """Rows of boxes on a common axis: times, or named columns of width 1."""

    id: str
    title: str
    description: str
    labels: tuple[str, ...]
    """Name of each row."""
    length: float
    """End of the axis, which begins at 0: a time in ns, or the number of columns."""
    columns: tuple[str, ...]
    """Names of the columns; none where the axis is time."""
    boxes: tuple[LaneBox, ...]
    series: tuple[Series, ...]
    """Colours and what they stand for."""

    @property
    def legend(self) -> tuple[Series, ...]:
        """What the colours stand for."""
        return self.series


Chart = StackedBars | Bars | Curves | Lanes
