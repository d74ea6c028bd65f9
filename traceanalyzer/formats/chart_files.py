"""Charts of a report as files with title and legend: SVG, or PNG where fonts of this machine have all glyphs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from traceanalyzer import sections
from traceanalyzer._version import __version__
from traceanalyzer.formats import charts, png, report_charts, svg
from traceanalyzer.formats.charts import Bars, Chart, Series, StackedBars
from traceanalyzer.formats.language import Language
from traceanalyzer.formats.pictures import SIZE, Label, Picture, Placed, Shape, box_path, lay_out
from traceanalyzer.formats.terminal.elements import wrap
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section

MARGIN = 24
"""Pixels at both sides of a chart, into which the labels of its axes may reach."""
_TITLE, _LINE, _GAP = 26, 18, 6
_CELL = 7.2
"""Most pixels of one cell of text; a Chinese character takes two cells."""
_SQUARE = 9
"""Side of a square of the legend in pixels."""
_SHARP = 2
"""PNG pixels per CSS pixel."""


def draw(chart: Chart, language: Language, form: str) -> tuple[str, bytes]:
    """Draw a chart as a file. Returns the actual format, and the content.

    Args:
        chart: The chart to draw.
        language: Language of the tick labels.
        form: `svg` or `png`; SVG is drawn instead of PNG if no font of this machine has all glyphs.
    """
    head = _head(chart)
    picture = lay_out(chart, language, charts.WIDE)
    pieces = (Placed(MARGIN, 0, head), Placed(MARGIN, head.height, picture))
    size = charts.WIDE + 2 * MARGIN, head.height + picture.height
    data = png.paint(size, pieces, _SHARP) if form == "png" else None
    if data is not None:
        return "png", data
    text = svg.document(chart.title, chart.description, size, pieces)
    return "svg", f"<!-- traceanalyzer chart {__version__} -->\n{text}".encode()


def _head(chart: Chart) -> Picture:
    """Title, description and legend of a chart."""
    width = int((charts.WIDE - 4) / _CELL)
    labels = [Label(2, 18, chart.title, "ink", size=SIZE + 2, is_bold=True)]
    squares = []
    y = _TITLE + 12
    for line in wrap(chart.description, width):
        labels.append(Label(2, y, line, "muted"))
        y += _LINE
    for row in _rows(chart.legend, width):
        x = 2.0
        for part in row:
            squares.append(Shape(part.role, box_path(x, x + _SQUARE, y - _SQUARE, y)))
            labels.append(Label(x + 2 * _CELL, y, part.label, "ink"))
            x += _cells(part) * _CELL
        y += _LINE
    return Picture(y - 12 + _GAP, areas=tuple(squares), labels=tuple(labels))


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
    language = language.of_report(report)
    taken: set[str] = set()
    for section, chart in _charts(report, language):
        suffix, data = draw(chart, language, form)
        base = _WORD.sub("-", f"{stem}-{chart.id.removeprefix('chart-')}")
        name = f"{base}.{suffix}"
        number = 2
        while name in taken:
            name = f"{base}-{number}.{suffix}"
            number = number + 1
        taken.add(name)
        yield Asset(section, name, f"{chart.title} – {chart.description}", data)


def _charts(report: Report, language: Language) -> Iterator[tuple[str, Chart]]:
    """All charts with their sections; the chart of parts of each step follows that of the mean parts."""
    of_parts = None
    for section in sections.build(report, 1):
        if section.parts:
            of_parts = section.id
            yield section.id, _parts(section, language)
    for id_, chart in report_charts.of_report(report, language):
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
