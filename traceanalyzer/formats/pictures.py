"""The layout of charts: positions, ticks, colours and texts are chosen here, once for pages and for files.

A picture consists of paths in the syntax of SVG and of labels, at positions in CSS pixels. Whatever paints it
(`picture.svg.j2` for pages and files, `png` for files) only moves and scales it. Colours are roles, because a page
follows its theme, and a file that of its reader.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from traceanalyzer.formats.charts import WIDE, Bars, Chart, Curves, Lanes, StackedBars
from traceanalyzer.formats.language import Language, scale
from traceanalyzer.report.names import shorten

SIZE = 11.5
"""Font size of labels in CSS pixels."""
_ROW = 26
"""Height in pixels of a horizontal bar with its label."""
_EDGE = 2
_LEAST = 1
"""Least length of a horizontal bar in pixels, so that small values are visible."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 8, 10, 24
"""Margins for labels around vertical bars, in pixels."""
_BASELINE = 4
"""Distance from the middle of a line of text to its baseline."""
_HALF = 0.4
"""Half the width of a vertical bar, in steps; the rest is the gap."""
_LETTER = 6.5
"""Width of a letter or digit in pixels, in the mean."""
_CAPITAL = 7.5
"""That of a capital letter."""
_LEAST_LETTERS = 8
"""Letters for which a column has room, so that each column has its name, shortened if need be."""
_LANE, _LANE_NAMES = 22, 20
"""Height of a row of boxes, and what its name needs in a wide picture beyond the usual margin, in pixels."""
_ABOVE, _SIGN = 18, 16
"""Heights of a row of boxes above curves, and of what stands above a mark, in pixels."""
_FINGER, _POINTER = 14, 3
"""Half the width of the area around a mark that can be clicked, and least width of a box with a title, in pixels."""
_MOST_TICKS = 4
_ROUND = (1, 2, 2.5, 5, 10, 20)
_MOST_MARKS = 20


@dataclass(frozen=True)
class Label:
    """A text at a position in the picture; y is its baseline."""

    x: float
    y: float
    text: str
    role: str
    anchor: str = "start"
    size: float = SIZE
    is_bold: bool = False


@dataclass(frozen=True)
class Shape:
    """An area or a line of one colour."""

    role: str
    path: str
    """Path data of SVG: of its commands only M, L, H, V and Z, with absolute positions."""
    is_dashed: bool = False
    opacity: str | None = None
    """How opaque an area is, from 0 to 1; None for opaque."""
    title: str = ""
    """What a pointer on it shows, where the painter can."""


@dataclass(frozen=True)
class Picture:
    """All that is painted, from back to front."""

    height: int
    grid: tuple[Shape, ...] = ()
    """Fine lines behind everything else."""
    areas: tuple[Shape, ...] = ()
    lines: tuple[Shape, ...] = ()
    labels: tuple[Label, ...] = ()
    way: tuple[Label, str] | None = None
    """A label that leads somewhere, and the path of the area around it that does, too."""


@dataclass(frozen=True)
class Placed:
    """A picture in a file, and where its upper left corner is."""

    x: int
    y: int
    picture: Picture


def lay_out(chart: Chart, language: Language, width: int) -> Picture:
    """The picture of a chart.

    Args:
        chart: The chart.
        language: Language of the labels of its axes.
        width: Width in CSS pixels.
    """
    if isinstance(chart, Bars):
        return _horizontal(chart, width)
    if isinstance(chart, Lanes):
        return _lanes(chart, language, width)
    if isinstance(chart, Curves):
        return _curves(chart, language, width)
    return _Stacks(chart, width).picture(language)


@dataclass(frozen=True)
class _Row:
    """Where a horizontal bar and its label are: places in shares of the row, lengths in pixels."""

    height: int
    begin: float
    reach: float
    """Length of the longest bar."""
    top: float
    bottom: float
    line: float
    """Middle of the label."""


def _horizontal(chart: Bars, width: int) -> Picture:
    """Horizontal bars. In a wide chart labels are left of the bars, in a narrow one above them."""
    is_wide = width >= WIDE
    inside = width - 2 * _EDGE
    if is_wide:
        row = _Row(_ROW, _EDGE + 0.36 * inside, 0.48 * inside, 0.2, 0.8, 0.5)
    else:
        row = _Row(2 * _ROW, _EDGE, inside, 0.55, 0.9, 0.3)
    labels: list[Label] = []
    boxes = ""
    top = 2 * _EDGE
    for label, text, value in zip(chart.labels, chart.texts, chart.series.values, strict=True):
        end = row.begin + max(_LEAST, value / chart.largest * row.reach)
        boxes += box_path(row.begin, end, top + row.top * row.height, top + row.bottom * row.height)
        y = top + row.line * row.height + _BASELINE
        labels.append(Label(_EDGE, y, label, "ink"))
        if is_wide:  # behind the bar
            labels.append(Label(end + 0.01 * inside, y, text, "muted", "start"))
        else:
            labels.append(Label(width - _EDGE, y, text, "muted", "end"))
        top += row.height
    area = Shape(chart.series.role, boxes)
    return Picture(4 * _EDGE + row.height * len(chart.labels), areas=(area,), labels=tuple(labels))


def _lanes(chart: Lanes, language: Language, width: int) -> Picture:
    """Rows of boxes with their names at the left, and times or names of columns below."""
    longest = max(map(len, chart.labels), default=0)
    left = max(_LEFT + (_LANE_NAMES if width >= WIDE else 0), math.ceil(longest * _LETTER) + 10)
    reach = width - left - _RIGHT
    bottom = _TOP + _LANE * len(chart.labels)
    scaled = reach / (chart.length or 1.0)
    names = [
        Label(left - 6, _TOP + _LANE * (row + 0.5) + _BASELINE, label, "muted", "end")
        for row, label in enumerate(chart.labels)
    ]
    below = [
        Label(left + position * scaled, bottom + 14, text, "muted", "middle")
        for position, text in _lane_marks(chart, language, reach)
    ]
    inside = [
        Label(
            left + (box.begin + box.end) / 2 * scaled,
            _TOP + _LANE * (box.row + 0.5) + _BASELINE,
            box.text,
            "paper",
            "middle",
        )
        for box in chart.boxes
        if box.text and len(box.text) * _LETTER <= (box.end - box.begin) * scaled
    ]
    ground = Shape("muted", f"M{left} {px(bottom + 1)}H{px(width - _RIGHT)}")
    areas = tuple(_lane_areas(chart, left, scaled))
    return Picture(bottom + _BOTTOM, areas=areas, lines=(ground,), labels=(*names, *below, *inside))


def _lane_areas(chart: Lanes, left: float, scaled: float) -> Iterator[Shape]:
    """All boxes of one colour and strength as one path."""
    paths: dict[tuple[str, float], str] = {}
    for box in chart.boxes:
        top = _TOP + _LANE * box.row
        key = (box.role, box.strength)
        begin = left + box.begin * scaled
        end = left + box.end * scaled
        path = box_path(begin, end, top + _LANE * box.top, top + _LANE * box.bottom)
        paths[key] = paths.get(key, "") + path
    for (role, strength), path in paths.items():
        yield Shape(role, path, opacity=None if strength >= 1 else f"{strength:.2f}")


def _lane_marks(chart: Lanes, language: Language, reach: int) -> Iterator[tuple[float, str]]:
    """Positions and texts below the rows: as many names of columns as fit, or times."""
    if not chart.columns:
        yield from _ticks(language, 0.0, chart.length, chart.length, "ns")
        return
    letters = int((reach / len(chart.columns) - 8) / _CAPITAL)
    if letters >= _LEAST_LETTERS:
        yield from ((column + 0.5, shorten(text, letters)) for column, text in enumerate(chart.columns))
        return
    room = len(chart.columns) * 44
    every = max(1, -(-room // max(1, reach)))
    for column in range(0, len(chart.columns), every):
        yield column + 0.5, chart.columns[column]


class _Axes:
    """The area of a chart between margins for labels."""

    def __init__(self, width: int, low: float, top: float, *, begin: int = _TOP) -> None:
        self.width = width
        self.begin = begin
        """Where the area begins, in pixels from the upper edge."""
        self.height = (220 if width >= WIDE else 190) + begin - _TOP
        self._low, self._top = low, top

    def x(self, share: float) -> float:
        """Horizontal position of a share of the width."""
        return _LEFT + share * (self.width - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        """Vertical position of a value."""
        share = (value - self._low) / (self._top - self._low)
        return self.height - _BOTTOM - share * (self.height - self.begin - _BOTTOM)

    def levels(self, language: Language, largest: float, unit: str) -> tuple[tuple[Shape, ...], list[Label]]:
        """Lines at round values from 0 on, in the unit of the largest value, and their labels."""
        right = px(self.width - _RIGHT)
        ticks = list(_ticks(language, 0.0, self._top, largest, unit))
        grid = tuple(Shape("grid", f"M{_LEFT} {px(self.y(value))}H{right}") for value, _ in ticks)
        return grid, [Label(_LEFT - 4, self.y(v) + _BASELINE, text, "muted", "end") for v, text in ticks]

    def ground(self) -> Shape:
        """The line below the area."""
        return Shape("muted", f"M{_LEFT} {px(self.height - _BOTTOM)}H{px(self.width - _RIGHT)}")

    def below(self, x: float, text: str) -> Label:
        """A label below the area."""
        anchor = "start" if x <= _LEFT else "middle"  # beside the label of the level 0, not below it
        return Label(x, self.height - _BOTTOM + 13, text, "muted", anchor)


def _ticks(language: Language, low: float, top: float, largest: float, unit: str) -> Iterator[tuple[float, str]]:
    """Round values in one unit, with their texts."""
    in_unit = scale(language, largest, unit)
    step = round_step((top - low) / in_unit.factor)
    digits = len(f"{step:g}".partition(".")[2])
    first = math.ceil(low / in_unit.factor / step)
    last = int(top / in_unit.factor / step)
    for number in range(first, last + 1):
        value = number * step * in_unit.factor
        yield value, in_unit.text(value, digits)


def _curves(chart: Curves, language: Language, width: int) -> Picture:
    """Levels over time, the area below the first one in its parts, or faintly filled."""
    highest = max(level for part in chart.series for level in part.values)
    lowest = min(level for part in chart.series for level in part.values)
    lanes = 1 + max((box.row for box in chart.above), default=-1)
    begin = _TOP + _ABOVE * lanes + (_SIGN if chart.mark else 0)
    axes = _Axes(width, min(0.0, lowest), highest * 1.08 or 1.0, begin=begin)
    span = _Span.of(chart)
    curves = []
    for times, part in zip(chart.times_ns, chart.series, strict=True):
        curves.append(Shape(part.role, _curve(times, part.values, span, axes)))
    if chart.stacked:
        areas = tuple(_areas(chart, span, axes))
    else:
        left = px(axes.x(span.share(chart.times_ns[0][0])))
        areas = (Shape(chart.series[0].role, f"{curves[0].path}V{px(axes.y(0.0))}H{left}Z", opacity="0.18"),)
    way = None
    if chart.mark_ns is not None:
        x = axes.x(span.share(chart.mark_ns))
        curves.append(Shape("ink", f"M{px(x)} {begin}V{px(axes.y(0.0))}", is_dashed=True))
        way = _way(chart.mark, x, axes)
    grid, labels = axes.levels(language, highest, chart.unit)
    for time, text in _ticks(language, span.begin, span.begin + span.length, span.end, "ns"):
        labels.append(axes.below(axes.x(span.share(time)), text))
    over, names = _above(chart, span, axes)
    labels += names
    if way is not None and not chart.mark_link:
        labels.append(way[0])
    lines = (*curves, axes.ground())
    return Picture(axes.height, grid, (*areas, *over), lines, tuple(labels), way if chart.mark_link else None)


def _way(text: str, x: float, axes: _Axes) -> tuple[Label, str]:
    """What stands above a mark, within the picture, and the area that can be clicked."""
    half = len(text) * _LETTER / 2
    middle = max(half, min(x, axes.width - half))
    label = Label(middle, axes.begin - 5, text, "ink", "middle")
    low, high = max(0.0, x - _FINGER), min(x + _FINGER, float(axes.width))
    return label, box_path(low, high, axes.begin - _SIGN, axes.y(0.0))


def _above(chart: Curves, span: _Span, axes: _Axes) -> tuple[list[Shape], list[Label]]:
    """The boxes above the curves, and their names where they fit; those too narrow for either as one path."""
    shapes: list[Shape] = []
    labels: list[Label] = []
    narrow: dict[str, str] = {}
    for box in chart.above:
        left, right = (axes.x(span.share(time)) for time in (box.begin, box.end))
        top = _EDGE + _ABOVE * box.row
        path = box_path(left, max(left + _LEAST, right - 0.5), top, top + _ABOVE - 2)
        if right - left < _POINTER:
            narrow[box.role] = narrow.get(box.role, "") + path
            continue
        shapes.append(Shape(box.role, path, title=box.title))
        letters = int((right - left - 4) / _LETTER)
        if letters >= min(_LEAST_LETTERS, len(box.text)):
            name = shorten(box.text, letters)
            labels.append(Label((left + right) / 2, top + _ABOVE - 6, name, "paper", "middle"))
    return [*shapes, *(Shape(role, path) for role, path in narrow.items())], labels


def _areas(chart: Curves, span: _Span, axes: _Axes) -> Iterator[Shape]:
    """The parts of the first curve, one on top of the other."""
    across = [px(axes.x(span.share(time))) for time in chart.stacked_ns]
    low = [0.0] * len(across)
    for part in chart.stacked:
        below = _corners(across, low, axes)
        low = list(map(sum, zip(low, part.values, strict=True)))
        above = _stairs(_corners(across, low, axes))
        back = "".join(f"V{y}H{x}" for x, y in reversed(below))
        yield Shape(part.role, f"{above}H{across[-1]}{back}Z", opacity="0.6")


def _corners(across: Sequence[str], levels: Sequence[float], axes: _Axes) -> list[tuple[str, str]]:
    """The points of stairs at which the height changes."""
    points = list(zip(across, (px(axes.y(level)) for level in levels), strict=True))
    return points[:1] + [point for before, point in pairwise(points) if before[1] != point[1]]


def _curve(times: Sequence[float], levels: Sequence[float], span: _Span, axes: _Axes) -> str:
    """The path of one curve."""
    across = [px(axes.x(span.share(time))) for time in times]
    heights = [px(axes.y(level)) for level in levels]
    return _stairs(list(zip(across, heights, strict=True)))


@dataclass(frozen=True)
class _Span:
    """The time that all curves of a chart cover."""

    begin: float
    end: float

    @classmethod
    def of(cls, chart: Curves) -> _Span:
        """From the first point of any curve to the last one."""
        begin = min(times[0] for times in chart.times_ns)
        end = max(times[-1] for times in chart.times_ns)
        return cls(begin, end)

    @property
    def length(self) -> float:
        """Its length, or 1 where it has none."""
        return self.end - self.begin or 1.0

    def share(self, time: float) -> float:
        """Where a time is, from 0 at the begin to 1 at the end."""
        return (time - self.begin) / self.length


def _stairs(points: Sequence[tuple[str, str]]) -> str:
    """A path through positions that keeps each level until the next one."""
    (left, first), *others = points
    return f"M{left} {first}" + "".join(f"H{x}V{y}" for x, y in others)


class _Stacks:
    """Vertical stacked bars with axes, or a line if there are too many bars."""

    def __init__(self, chart: StackedBars, width: int) -> None:
        self.chart = chart
        self.totals = [math.fsum(values) for values in zip(*(part.values for part in chart.series), strict=True)]
        self.axes = _Axes(width, 0.0, max(self.totals, default=0.0) * 1.12 or 1.0)

    def picture(self, language: Language) -> Picture:
        """The bars with axes, the reference line, and marks on highlighted bars."""
        axes = self.axes
        grid, labels = axes.levels(language, max(self.totals, default=0.0), self.chart.unit)
        right = px(axes.width - _RIGHT)
        level = Shape("ink", f"M{_LEFT} {px(axes.y(self.chart.level))}H{right}", is_dashed=True)
        lines = [axes.ground(), level]
        if self.chart.is_line:
            marks = "".join(box_path(x - 2, x + 2, y - 2, y + 2) for x, y in self._marked())
            areas = [Shape("runtime", marks)] if marks else []
            lines.insert(0, self._curve())
        else:
            areas = list(self._stacks())
            labels += [Label(x, y - 3, "▼", "ink", "middle") for x, y in self._marked()[:_MOST_MARKS]]
        return Picture(axes.height, grid, tuple(areas), tuple(lines), (*labels, *self._names()))

    def _curve(self) -> Shape:
        points = (f"{px(self._x(i))} {px(self.axes.y(total))}" for i, total in enumerate(self.totals))
        return Shape("cpu_exec", "M" + "L".join(points))

    def _x(self, position: float) -> float:
        """Horizontal position of the middle of a bar; both margins have an extra half gap."""
        return self.axes.x((position + 0.6) / (len(self.totals) + 0.2))

    def _marked(self) -> list[tuple[float, float]]:
        return [(self._x(i), self.axes.y(self.totals[i])) for i in self.chart.marked]

    def _stacks(self) -> Iterator[Shape]:
        """All bars of one part as one path."""
        base = [0.0] * len(self.totals)
        for part in self.chart.series:
            tops = [low + value for low, value in zip(base, part.values, strict=True)]
            boxes = (
                box_path(self._x(i - _HALF), self._x(i + _HALF), self.axes.y(high), self.axes.y(low))
                for i, (low, high) in enumerate(zip(base, tops, strict=True))
                if high > low
            )
            yield Shape(part.role, "".join(boxes))
            base = tops

    def _names(self) -> Iterator[Label]:
        """Names below the bars, as many as fit."""
        labels: Sequence[str] = self.chart.labels
        every = max(1, -(-len(labels) * 44 // max(1, self.axes.width - 60)))
        yield from (self.axes.below(self._x(i), labels[i]) for i in range(0, len(labels), every))


def round_step(top: float) -> float:
    """The smallest round step of which at most four fit below `top`."""
    exponent = math.floor(math.log10(top / _MOST_TICKS))
    steps = (float(f"{step}e{exponent}") for step in _ROUND)  # as text, because powers are inexact
    return next(step for step in steps if step * _MOST_TICKS >= top)


def box_path(left: float, right: float, top: float, bottom: float) -> str:
    """The path of a rectangle."""
    return f"M{px(left)} {px(top)}H{px(right)}V{px(bottom)}H{px(left)}Z"


def px(value: float) -> str:
    """A position, to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")
