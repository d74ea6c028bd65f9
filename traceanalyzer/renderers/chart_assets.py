"""Draws the charts of a report as files that its Markdown shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from traceanalyzer.renderers import chart_data, chart_files, sections
from traceanalyzer.renderers.charts import Bars, Chart, Series, Stacks
from traceanalyzer.renderers.language import Language
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
    """Description of the chart for readers who do not see it."""
    data: bytes


def draw(report: Report, language: Language, form: str, stem: str) -> Iterator[Asset]:
    """Draw every chart of the report.

    Args:
        report: The report.
        language: What people read is in this language.
        form: `svg` or `png`; a PNG that lacks glyphs becomes SVG.
        stem: How the names of the files begin.
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
    """Every chart with the section that shows it; the parts of each step stand beside the mean of the parts."""
    of_parts = None
    for section in sections.build(report, 1):
        if section.parts:
            of_parts = section.id
            yield section.id, _bars(section, language)
    for id_, chart in chart_data.build(report, language):
        yield (of_parts or id_) if isinstance(chart, Stacks) else id_, chart


def _bars(section: Section, language: Language) -> Bars:
    """The parts of a whole, which are bars of text where there are no pictures."""
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
