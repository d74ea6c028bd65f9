"""Draws the charts of a report as image files for its Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from traceanalyzer import sections
from traceanalyzer.formats import chart_data, chart_files
from traceanalyzer.formats.charts import Bars, Chart, Series, StackedBars
from traceanalyzer.formats.language import Language
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section

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


def draw(report: Report, language: Language, form: str, stem: str) -> Iterator[Asset]:
    """Draw every chart of the report.

    Args:
        report: The report.
        language: Language of the texts.
        form: `svg` or `png`; SVG is drawn instead of a PNG without all glyphs.
        stem: Common prefix of the file names.
    """
    taken: set[str] = set()
    for section, chart in _charts(report, language):
        suffix, data = chart_files.draw(chart, language, form)
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
            yield section.id, _bars(section, language)
    for id_, chart in chart_data.build(report, language):
        yield (of_parts or id_) if isinstance(chart, StackedBars) else id_, chart


def _bars(section: Section, language: Language) -> Bars:
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
