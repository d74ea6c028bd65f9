"""Draws charts as files with matplotlib, which is imported only here, and only to draw; a page draws its own.

Equal charts give equal bytes. Text stays text, so that the reader's fonts are used for all scripts. Each colour has
one role, so that another theme can replace it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import fsum
from typing import TYPE_CHECKING, Any

from traceanalyzer.formats.charts import PALETTE, SIZE, WIDE, Bars, Chart, Curves, Lanes, StackedBars
from traceanalyzer.formats.language import Language, Scale, scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontEntry

DPI = 72  # at this resolution a point is a CSS pixel
_ROW = 26
_BINS = 4

SILENT: dict[str, Any] = {"Date": None, "Creator": None, "Format": None, "Type": None}
"""Metadata of an SVG to omit, because it changes daily or is useless."""

_USUAL = "DejaVu Sans"  # included in matplotlib
_SIMPLIFIED = frozenset({"SC", "CN", "GB", "Hans"})  # codes of Chinese variants in font names
_BOXES = ("Last Resort", "LastResort", "Adobe Blank")  # fonts with placeholder glyphs for all characters


@contextmanager
def drawn(chart: Chart, language: Language, width: int, head: int = 0, fonts: Sequence[str] = ()) -> Iterator[Figure]:
    """Draw a chart as a figure, which must be saved within the block.

    Args:
        chart: The chart to draw.
        language: Language of the tick labels.
        width: Width in CSS pixels.
        head: Free space above it in pixels.
        fonts: Font families, or None for the default; for each glyph the first family that has it is used.
    """
    import matplotlib  # noqa: PLC0415 - slow to import, and only charts need it
    from matplotlib.figure import Figure  # noqa: PLC0415

    height = _height(chart, width) + head
    style: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": f"{chart.id} {width}",
        "font.size": SIZE,
        "path.simplify": False,
        "axes.unicode_minus": False,
        "text.parse_math": False,
    }
    style |= {"font.family": list(fonts)} if fonts else {}
    # Fonts of this machine may lack glyphs that the reader's fonts have.
    with matplotlib.rc_context(style), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI, facecolor=PALETTE["paper"])
        left, right, bottom, top = (2, 2, 4, 4 + head) if isinstance(chart, Bars) else (52, 8, 24, 10 + head)
        box = (left / width, bottom / height, 1 - (left + right) / width, 1 - (bottom + top) / height)
        axes = figure.add_axes(box, facecolor="none")
        _draw(chart, axes, language, width)
        yield figure


def fonts_with(characters: frozenset[str]) -> tuple[str, ...] | None:
    """Font families of this machine that together have all these glyphs, the default first; None if there are none."""
    from matplotlib import font_manager, ft2font  # noqa: PLC0415 - see `drawn`

    every = (f for f in font_manager.fontManager.ttflist if not f.name.startswith(_BOXES))
    fonts = [f for f in every if f.style == "normal" and f.weight in (400, "normal")]
    missing = {ord(character) for character in characters if not character.isspace()}
    families: list[str] = []
    for font in sorted(fonts, key=_preference):
        if not missing:
            break
        found = missing & ft2font.FT2Font(font.fname).get_charmap().keys()
        if found and font.name not in families:
            families.append(font.name)
        missing -= found
    return None if missing else tuple(families)


def _preference(font: FontEntry) -> tuple[bool, bool, bool, str, str]:
    """Sort key of fonts: the default one, then similar ones; Chinese fonts of the variant of the catalogs first."""
    words = font.name.split()
    return font.name != _USUAL, "Sans" not in words, _SIMPLIFIED.isdisjoint(words), font.name, font.fname


def _height(chart: Chart, width: int) -> int:
    if isinstance(chart, Bars):
        return 8 + 2 * _ROW * len(chart.labels) if width < WIDE else 8 + _ROW * len(chart.labels)
    if isinstance(chart, Lanes):
        return 34 + 22 * len(chart.labels)
    return 220 if width >= WIDE else 190


def _draw(chart: Chart, axes: Axes, language: Language, width: int) -> None:
    if isinstance(chart, Bars):
        _bars(chart, axes, width)
        return
    if isinstance(chart, Lanes):
        _lanes(chart, axes, language, width)
        return
    if isinstance(chart, StackedBars):
        largest = max(map(sum, zip(*(part.values for part in chart.series), strict=True)), default=0.0)
        _stacks(chart, axes, width)
    else:
        largest = max((value for part in chart.series for value in part.values), default=0.0)
        _curves(chart, axes, language)
    _frame(axes, scale(language, largest, chart.unit))


def _frame(axes: Axes, in_unit: Scale) -> None:
    """Draw faint horizontal lines at round values of the unit, with its name above the topmost."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator  # noqa: PLC0415

    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(PALETTE["muted"])
    top = axes.get_ylim()[1] / in_unit.factor
    ticks = [float(t) for t in MaxNLocator(_BINS).tick_values(0, top) if 0 <= t <= top]
    axes.set_yticks([t * in_unit.factor for t in ticks])
    digits = max((len(f"{t:g}".partition(".")[2]) for t in ticks), default=0)

    def label(value: float, position: int | None = None) -> str:
        del position
        return in_unit.text(value, digits)

    axes.yaxis.set_major_formatter(FuncFormatter(label))
    axes.tick_params(length=0, labelcolor=PALETTE["muted"], pad=4)
    axes.grid(visible=True, axis="y", color=PALETTE["grid"], linewidth=0.8)
    axes.set_axisbelow(True)


def _stacks(chart: StackedBars, axes: Axes, width: int) -> None:
    count = len(chart.labels)
    totals = [fsum(values) for values in zip(*(part.values for part in chart.series), strict=True)]
    if chart.is_line:
        axes.plot(range(count), totals, color=PALETTE["cpu_exec"], linewidth=1)
        axes.plot(chart.marked, [totals[i] for i in chart.marked], "o", color=PALETTE["runtime"], markersize=4)
    else:
        base = [0.0] * count
        for part in chart.series:
            tops = [b + v for b, v in zip(base, part.values, strict=True)]
            _rectangles(axes, range(count), base, tops, PALETTE[part.role])
            base = tops
    for position in () if chart.is_line else chart.marked[:20]:
        axes.annotate(
            "▼", (position, totals[position]), (0, 2), textcoords="offset points", ha="center", color=PALETTE["ink"]
        )
    axes.axhline(chart.level, color=PALETTE["ink"], linewidth=1, linestyle=(0, (4, 3)))
    axes.set_xlim(-0.6, count - 0.4)
    axes.set_ylim(0, max(totals) * 1.12 or 1)
    shown = max(1, -(-count * 44 // max(1, width - 60)))
    axes.set_xticks(range(0, count, shown), [chart.labels[i] for i in range(0, count, shown)])


def _rectangles(axes: Axes, at: Sequence[int], low: Sequence[float], high: Sequence[float], color: str) -> None:
    """Draw all bars of one part as one path."""
    from matplotlib.patches import PathPatch  # noqa: PLC0415
    from matplotlib.path import Path  # noqa: PLC0415

    paths: list[Any] = []
    for x, a, b in zip(at, low, high, strict=True):
        if b > a:
            paths.append(Path([(x - 0.4, a), (x + 0.4, a), (x + 0.4, b), (x - 0.4, b), (x - 0.4, a)], closed=True))
    if paths:
        axes.add_patch(PathPatch(Path.make_compound_path(*paths), facecolor=color, edgecolor="none"))


def _bars(chart: Bars, axes: Axes, width: int) -> None:
    """Draw horizontal bars. In a wide chart labels are left of the bars, in a narrow one above them."""
    axes.set_axis_off()
    wide = width >= WIDE
    begin, reach = (0.36, 0.48) if wide else (0.0, 1.0)
    axes.set_xlim(0, 1)
    axes.set_ylim(len(chart.labels), 0)
    for row, (label, text, value) in enumerate(zip(chart.labels, chart.texts, chart.series.values, strict=True)):
        length = value / chart.largest * reach
        low, high = (row + 0.2, row + 0.8) if wide else (row + 0.55, row + 0.9)
        axes.fill(
            [begin, begin + length, begin + length, begin], [low, low, high, high], color=PALETTE[chart.series.role]
        )
        line = row + (0.5 if wide else 0.3)
        axes.text(0, line, label, va="center", color=PALETTE["ink"])
        at = (begin + length + 0.01, "left") if wide else (1, "right")
        axes.text(at[0], line, text, va="center", ha=at[1], color=PALETTE["muted"])


def _lanes(chart: Lanes, axes: Axes, language: Language, width: int) -> None:
    """Rows of boxes, the first one at the top."""
    from matplotlib.patches import Rectangle  # noqa: PLC0415
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    for box in chart.boxes:
        corner, size = (box.begin, box.row + box.top), (box.end - box.begin, box.bottom - box.top)
        axes.add_patch(
            Rectangle(corner, *size, facecolor=PALETTE[box.role], alpha=box.strength, edgecolor="none", linewidth=0)
        )
    axes.set_xlim(0, chart.length or 1)
    axes.set_ylim(len(chart.labels), 0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(PALETTE["muted"])
    axes.tick_params(length=0, labelcolor=PALETTE["muted"], pad=4)
    axes.set_yticks([row + 0.5 for row in range(len(chart.labels))], list(chart.labels))
    if chart.columns:
        shown = max(1, -(-len(chart.columns) * 44 // max(1, width - 60)))
        axes.set_xticks([i + 0.5 for i in range(0, len(chart.columns), shown)], list(chart.columns[::shown]))
        return
    in_unit = scale(language, chart.length, "ns")
    ticks = [float(t) for t in MaxNLocator(_BINS).tick_values(0, chart.length / in_unit.factor)]
    digits = max(len(f"{t:g}".partition(".")[2]) for t in ticks)
    kept = [t for t in ticks if 0 <= t * in_unit.factor <= chart.length]
    axes.set_xticks([t * in_unit.factor for t in kept], [in_unit.text(t * in_unit.factor, digits) for t in kept])


def _curves(chart: Curves, axes: Axes, language: Language) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator  # noqa: PLC0415

    for times, part in zip(chart.times_ns, chart.series, strict=True):
        axes.step(times, part.values, where="post", color=PALETTE[part.role], linewidth=1.4, label=part.label)
    first = chart.series[0]
    axes.fill_between(chart.times_ns[0], first.values, step="post", color=PALETTE[first.role], alpha=0.18, linewidth=0)
    last = max(times[-1] for times in chart.times_ns)
    low = min(0.0, *(min(part.values) for part in chart.series))
    axes.set_xlim(min(times[0] for times in chart.times_ns), last)
    axes.set_ylim(low, max(max(part.values) for part in chart.series) * 1.08 or 1)
    in_unit = scale(language, last, "ns")
    ticks = MaxNLocator(5).tick_values(*(v / in_unit.factor for v in axes.get_xlim()))
    digits = max(len(f"{t:g}".partition(".")[2]) for t in ticks)
    axes.set_xticks([t * in_unit.factor for t in ticks if axes.get_xlim()[0] <= t * in_unit.factor <= last])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: in_unit.text(value, digits)))
