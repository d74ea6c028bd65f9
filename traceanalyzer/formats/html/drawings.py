"""Charts as elements of the page, in its colours, so that they follow its theme.

Bars are drawn by a template; only curves use matplotlib, which is slow to import. The page's policy blocks style
attributes, so the styles of its drawings become presentation attributes, and parts that only a standalone document
needs are removed: metadata, background, unused ids.
"""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from markupsafe import Markup

from traceanalyzer.formats import charts, environment, plots
from traceanalyzer.formats.charts import SIZE, WIDE, Bars, Chart, StackedBars
from traceanalyzer.formats.language import Language, scale

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
_MOST_TICKS = 4
_ROUND = (1, 2, 2.5, 5, 10, 20)
_MOST_MARKS = 20


@dataclass(frozen=True)
class ChartLabel:
    """A text at a position in the picture."""

    x: str
    y: str
    text: str
    tone: str
    anchor: str = "start"


@dataclass(frozen=True)
class ChartPath:
    """An area or a line of one colour."""

    tone: str
    path: str
    is_dashed: bool = False


@dataclass(frozen=True)
class ChartPicture:
    """All elements that the template draws, from back to front."""

    height: int
    grid: tuple[ChartPath, ...]
    areas: tuple[ChartPath, ...]
    lines: tuple[ChartPath, ...]
    labels: tuple[ChartLabel, ...]


def draw_bars(chart: StackedBars | Bars, language: Language, width: int) -> Markup:
    """Draw bars as an element of the page, in its colours."""
    picture = _horizontal(chart, width) if isinstance(chart, Bars) else _Frame(chart, width).picture(language)
    template = environment(autoescape=True).get_template("html/bar_chart.svg.j2")
    text = template.render(
        chart=chart,
        picture=picture,
        width=width,
        prefix=f"{chart.id}-{width}-",
        font_size=SIZE,
        shape="wide" if width == WIDE else "narrow",
    )
    return Markup(text)  # noqa: S704 - the template has escaped every text


def _horizontal(chart: Bars, width: int) -> ChartPicture:
    """Horizontal bars. In a wide chart labels are left of the bars, in a narrow one above them."""
    is_wide = width >= WIDE
    row_height = _ROW if is_wide else 2 * _ROW
    inside = width - 2 * _EDGE
    begin, reach = (_EDGE + 0.36 * inside, 0.48 * inside) if is_wide else (_EDGE, inside)
    largest = max(chart.series.values, default=0) or 1
    labels, areas = [], []
    for row, (label, text, value) in enumerate(zip(chart.labels, chart.texts, chart.series.values, strict=True)):
        top = 2 * _EDGE + row * row_height
        low, high, line = (0.2, 0.8, 0.5) if is_wide else (0.55, 0.9, 0.3)
        end = begin + max(_LEAST, value / largest * reach)
        areas.append(_box(begin, end, top + low * row_height, top + high * row_height))
        y = _px(top + line * row_height + _BASELINE)
        labels.append(ChartLabel(_px(_EDGE), y, label, "ink"))
        at, anchor = (end + 0.01 * inside, "start") if is_wide else (width - _EDGE, "end")
        labels.append(ChartLabel(_px(at), y, text, "muted", anchor))
    area = ChartPath(_tone(chart.series.role), "".join(areas))
    return ChartPicture(4 * _EDGE + row_height * len(chart.labels), (), (area,), (), tuple(labels))


class _Frame:
    """Vertical stacked bars with axes, or a line if there are too many bars."""

    def __init__(self, chart: StackedBars, width: int) -> None:
        self.chart = chart
        self.width = width
        self.height = 220 if width >= WIDE else 190
        self.totals = [math.fsum(values) for values in zip(*(part.values for part in chart.series), strict=True)]
        self.top = max(self.totals, default=0.0) * 1.12 or 1.0

    def picture(self, language: Language) -> ChartPicture:
        """The bars with axes, the reference line, and marks on highlighted bars."""
        right, ground = _px(self.width - _RIGHT), _px(self._y(0))
        ticks = list(self._ticks(language))
        grid = tuple(ChartPath("grid", f"M{_LEFT} {_px(self._y(value))}H{right}") for value, _ in ticks)
        labels = [ChartLabel(_px(_LEFT - 4), _px(self._y(v) + _BASELINE), text, "muted", "end") for v, text in ticks]
        level = ChartPath("ink", f"M{_LEFT} {_px(self._y(self.chart.level))}H{right}", is_dashed=True)
        lines = [ChartPath("muted", f"M{_LEFT} {ground}H{right}"), level]
        if self.chart.is_line:
            curve = "M" + "L".join(f"{_px(self._x(i))} {_px(self._y(v))}" for i, v in enumerate(self.totals))
            marks = "".join(_box(x - 2, x + 2, y - 2, y + 2) for x, y in self._marked())
            areas = [ChartPath("runtime", marks)] if marks else []
            lines = [ChartPath("cpu-exec", curve), *lines]
        else:
            areas = list(self._stacks())
            labels += [ChartLabel(_px(x), _px(y - 3), "▼", "ink", "middle") for x, y in self._marked()[:_MOST_MARKS]]
        return ChartPicture(self.height, grid, tuple(areas), tuple(lines), (*labels, *self._names()))

    def _x(self, position: float) -> float:
        """Horizontal position of the middle of a bar; both margins have an extra half gap."""
        inside = self.width - _LEFT - _RIGHT
        return _LEFT + (position + 0.6) / (len(self.totals) + 0.2) * inside

    def _y(self, value: float) -> float:
        return self.height - _BOTTOM - value / self.top * (self.height - _TOP - _BOTTOM)

    def _marked(self) -> list[tuple[float, float]]:
        return [(self._x(i), self._y(self.totals[i])) for i in self.chart.marked]

    def _ticks(self, language: Language) -> Iterator[tuple[float, str]]:
        """Round values in one unit, with their texts."""
        in_unit = scale(language, max(self.totals, default=0.0), self.chart.unit)
        step = round_step(self.top / in_unit.factor)
        digits = len(f"{step:g}".partition(".")[2])
        for number in range(int(self.top / in_unit.factor / step) + 1):
            value = number * step * in_unit.factor
            yield value, in_unit.text(value, digits)

    def _stacks(self) -> Iterator[ChartPath]:
        """All bars of one part as one path."""
        base = [0.0] * len(self.totals)
        for part in self.chart.series:
            tops = [low + value for low, value in zip(base, part.values, strict=True)]
            boxes = (
                _box(self._x(i - _HALF), self._x(i + _HALF), self._y(high), self._y(low))
                for i, (low, high) in enumerate(zip(base, tops, strict=True))
                if high > low
            )
            yield ChartPath(_tone(part.role), "".join(boxes))
            base = tops

    def _names(self) -> Iterator[ChartLabel]:
        """Names below the bars, as many as fit."""
        labels: Sequence[str] = self.chart.labels
        every = max(1, -(-len(labels) * 44 // max(1, self.width - 60)))
        for i in range(0, len(labels), every):
            yield ChartLabel(_px(self._x(i)), _px(self.height - _BOTTOM + 13), labels[i], "muted", "middle")


def round_step(top: float) -> float:
    """The smallest round step of which at most four fit below `top`."""
    exponent = math.floor(math.log10(top / _MOST_TICKS))
    steps = (float(f"{step}e{exponent}") for step in _ROUND)  # as text, because powers are inexact
    return next(step for step in steps if step * _MOST_TICKS >= top)


def _box(left: float, right: float, top: float, bottom: float) -> str:
    return f"M{_px(left)} {_px(top)}H{_px(right)}V{_px(bottom)}H{_px(left)}Z"


def _px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _tone(role: str) -> str:
    return role.replace("_", "-")


_ROLES = {color: role for role, color in charts.PALETTE.items()}
_KEPT = frozenset({
    "fill", "fill-opacity", "opacity", "stroke", "stroke-dasharray", "stroke-dashoffset", "stroke-opacity",
    "stroke-width", "stroke-linejoin", "stroke-linecap", "font-size", "text-anchor",
})  # fmt: skip
_NUMBER = re.compile(r"-?(?<!\d)\d++\.\d+")
_REFERENCE = re.compile(r"url\(#([^()]+)\)|^#(.+)$")
_GEOMETRY = ("d", "x", "y", "width", "height", "transform", "points")


@lru_cache(maxsize=64)
def draw_curves(chart: Chart, language: Language, width: int) -> Markup:
    """Draw curves as an element of the page; cached, because a page rendered with less detail has the same charts."""
    # The XML was just written by matplotlib, so it is trusted.
    root = ET.fromstring(plots.svg(chart, language, width))  # noqa: S314
    _strip(root)
    prefix = f"{chart.id}-{width}-"
    used = {reference for element in root.iter() for reference in _references(element)}
    for element in root.iter():
        _attributes(element, prefix, used)
    root.attrib.pop("version", None)
    root.set("viewBox", root.get("viewBox", ""))
    root.set("class", "wide" if width == charts.WIDE else "narrow")
    root.set("role", "img")
    root.set("aria-labelledby", f"{prefix}title {prefix}desc")
    for name, text in (("desc", chart.description), ("title", chart.title)):
        element = ET.Element(name, {"id": prefix + name})
        element.text = text
        root.insert(0, element)
    return Markup(ET.tostring(root, encoding="unicode"))  # noqa: S704 - ElementTree has escaped every text


def _strip(root: ET.Element) -> None:
    """Remove elements that are not drawn, and XML namespaces."""
    for parent in list(root.iter()):
        parent.tag = parent.tag.rpartition("}")[2]
        for child in list(parent):
            name = child.tag.rpartition("}")[2]
            if name in ("metadata", "style") or child.get("id") == "patch_1":
                parent.remove(child)


def _references(element: ET.Element) -> list[str]:
    found = [_REFERENCE.search(value) for name, value in element.items() if name != "id"]
    return [match[1] or match[2] for match in found if match]


def _attributes(element: ET.Element, prefix: str, used: set[str]) -> None:
    for name, value in list(element.items()):
        del element.attrib[name]
        short = name.rpartition("}")[2]
        if short == "style":
            for item in value.split(";"):
                key, _, setting = (part.strip() for part in item.partition(":"))
                if key in _KEPT:
                    element.set(key, _themed(setting))
        elif short == "id":
            if value in used:
                element.set("id", prefix + value)
        elif short in _GEOMETRY:
            if not (short == "transform" and value.startswith("rotate(-0 ")):
                element.set(short, " ".join(_NUMBER.sub(_rounded, value).split()))
        else:
            element.set(short, _REFERENCE.sub(lambda match: match[0].replace("#", "#" + prefix), value))


def _rounded(match: re.Match[str]) -> str:
    return f"{float(match[0]):.1f}".removesuffix(".0")


def _themed(setting: str) -> str:
    """Replace a colour of the palette by the page's colour for that role."""
    return f"var(--{_ROLES[setting].replace('_', '-')})" if setting in _ROLES else setting
