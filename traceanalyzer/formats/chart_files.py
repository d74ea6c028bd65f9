"""Draws the charts of a report as standalone image files, with title and legend, and readable on a dark background.

SVG uses the fonts and the theme of the reader. PNG is drawn with the fonts of this machine.
"""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from traceanalyzer import sections
from traceanalyzer._version import __version__
from traceanalyzer.formats import charts, plots
from traceanalyzer.formats.charts import PALETTE, Bars, Chart, Series, StackedBars
from traceanalyzer.formats.language import Language
from traceanalyzer.formats.terminal.elements import wrap
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DARK = {
    "kernel": "#4fb487",
    "memcpy": "#d9a23c",
    "memset": "#b8a47a",
    "communication": "#c48be0",
    "runtime": "#e8875f",
    "dataloader": "#ef7aa4",
    "cpu_exec": "#6ba8e8",
    "other": "#8d98a6",
    "ink": "#e3e8ee",
    "muted": "#a5afbc",
    "grid": "#323b46",
    "paper": "#191f26",
}
"""The colours of `PALETTE` on a dark background, as on the HTML page."""

_TITLE, _LINE, _GAP = 26, 18, 6
_CELL = 7.2
"""Most pixels of one cell of text; a Chinese character takes two cells."""

_SHARP = 2
"""PNG pixels per CSS pixel."""

_SOFTWARE = f"traceanalyzer {__version__}"
_BESIDE_SVG = "<svg xmlns:xlink"
"""Start of the `svg` element; the declarations before it only repeat defaults."""


@dataclass(frozen=True)
class Words:
    """Texts above a chart."""

    title: str
    lines: tuple[str, ...]
    legend: tuple[tuple[Series, ...], ...]
    """Entries of the legend by row."""

    @property
    def height(self) -> int:
        """Height of the texts in pixels."""
        return _TITLE + _LINE * (len(self.lines) + len(self.legend)) + _GAP


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress what matplotlib says about fonts without a bold face, and about where it keeps its cache."""
    logger = logging.getLogger("matplotlib")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


@quiet()
def draw(chart: Chart, language: Language, form: str) -> tuple[str, bytes]:
    """Draw a chart as a file. Returns the actual format, and the content.

    Args:
        chart: The chart to draw.
        language: Language of the tick labels.
        form: `svg` or `png`; SVG is drawn instead of PNG if no font of this machine has all glyphs.
    """
    fonts = plots.fonts_with(_characters(chart, language)) if form == "png" else None
    words = _words(chart)
    with plots.drawn(chart, language, charts.WIDE, words.height, fonts or ()) as figure:
        _write(words, figure)
        if fonts:
            data = io.BytesIO()
            figure.savefig(data, format="png", dpi=_SHARP * plots.DPI, metadata={"Software": _SOFTWARE})
            return "png", data.getvalue()
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata=plots.SILENT)
    return "svg", _alone(text.getvalue(), chart).encode("utf-8")


def _characters(chart: Chart, language: Language) -> frozenset[str]:
    """All characters that may occur: texts, labels, and the numbers and units of ticks."""
    series = (chart.series,) if isinstance(chart, Bars) else chart.series
    texts = [chart.title, chart.description, *(part.label for part in series), "■▼0123456789.,- "]
    texts += [language.quantity(10**power, unit) for unit in ("ns", "bytes") for power in range(0, 13, 3)]
    if not isinstance(chart, charts.Curves):
        texts += chart.labels
    if isinstance(chart, charts.Lanes):
        texts += chart.columns
    if isinstance(chart, Bars):
        texts += chart.texts
    return frozenset("".join(texts))


def _words(chart: Chart) -> Words:
    width = int((charts.WIDE - 4) / _CELL)
    return Words(chart.title, tuple(wrap(chart.description, width)), tuple(_rows(chart.legend, width)))


def _rows(series: tuple[Series, ...], width: int) -> Iterator[tuple[Series, ...]]:
    """Split legend entries into rows of the given width."""
    row: list[Series] = []
    for part in series:
        if row and sum(_cells(other) for other in (*row, part)) > width:
            yield tuple(row)
            row = []
        row.append(part)
    if row:
        yield tuple(row)


def _cells(part: Series) -> int:
    """Width of an entry of the legend in cells, with its square and the gap after it."""
    from rich.cells import cell_len  # noqa: PLC0415 - slow to import

    return cell_len(part.label) + 5


def _write(words: Words, figure: Figure) -> None:
    width, height = (inches * plots.DPI for inches in figure.get_size_inches())

    def put(x: float, y: float, text: str, color: str, weight: str = "normal") -> None:
        size = charts.SIZE + (2 if weight == "bold" else 0)
        figure.text(x / width, 1 - y / height, text, color=PALETTE[color], weight=weight, size=size, va="baseline")

    put(2, 18, words.title, "ink", "bold")
    y = _TITLE + 12
    for line in words.lines:
        put(2, y, line, "muted")
        y += _LINE
    for row in words.legend:
        x = 2.0
        for part in row:
            put(x, y, "■", part.role)
            put(x + 2 * _CELL, y, part.label, "ink")
            x += _cells(part) * _CELL
        y += _LINE


def _alone(svg: str, chart: Chart) -> str:
    """Make an SVG standalone: remove redundant attributes, and add an accessible name and dark-theme colours."""
    size, _, rest = svg[svg.index(_BESIDE_SVG) :].partition(">")
    dark = "".join(
        f'[style*="{kind}: {light}"]{{{kind}:{DARK[role]}!important}}'
        for role, light in PALETTE.items()
        for kind in ("fill", "stroke")
    )
    return (
        f"<!-- traceanalyzer chart {__version__} -->\n"
        f'{size.replace("pt", "")} role="img" aria-labelledby="title desc">\n'
        f'<title id="title">{escape(chart.title)}</title>\n<desc id="desc">{escape(chart.description)}</desc>\n'
        f"<style>@media (prefers-color-scheme: dark){{{dark}}}</style>{rest}"
    )


_WORD = re.compile(r"[^\w.-]+")


@dataclass(frozen=True)
class Asset:
    """One chart as a file."""

    section: str
    """Id of the section that shows it."""
    name: str
    """Name of the file without its folder."""
    text: str
    """Alternative text of the chart."""
    data: bytes


def draw_all(report: Report, language: Language, form: str, stem: str) -> Iterator[Asset]:
    """Draw every chart of the report.

    Args:
        report: The report.
        language: Language of the texts.
        form: `svg` or `png`; SVG is drawn instead of a PNG without all glyphs.
        stem: Common prefix of the file names.
    """
    taken: set[str] = set()
    for section, chart in _charts(report, language):
        suffix, data = draw(chart, language, form)
        base = _WORD.sub("-", f"{stem}-{chart.id.removeprefix('chart-')}")
        name, number = f"{base}.{suffix}", 2
        while name in taken:
            name, number = f"{base}-{number}.{suffix}", number + 1
        taken.add(name)
        yield Asset(section, name, f"{chart.title} – {chart.description}", data)


def _charts(report: Report, language: Language) -> Iterator[tuple[str, Chart]]:
    """All charts with their sections; the chart of parts of each step follows that of the mean parts."""
    of_parts = None
    for section in sections.build(report, 1):
        if section.parts:
            of_parts = section.id
            yield section.id, _parts(section, language)
    for id_, chart in charts.of_report(report, language):
        yield (of_parts or id_) if isinstance(chart, StackedBars) else id_, chart


def _parts(section: Section, language: Language) -> Bars:
    """The parts of a whole as a bar chart, in place of the text bars of documents without images."""
    title = language.text(section.title)
    return Bars(
        f"chart-{section.id}",
        title,
        " ".join(map(language.say, section.messages)),
        tuple(language.text(part.label) for part in section.parts),
        tuple(
            f"{language.quantity(part.value, part.unit)}, {language.quantity(part.share, 'share')}"
            for part in section.parts
        ),
        Series(title, "cpu_exec", tuple(part.value for part in section.parts)),
    )
