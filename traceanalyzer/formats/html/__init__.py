"""Renders a self-contained HTML page that needs no network and no other file, and opens quickly."""

from __future__ import annotations

from traceanalyzer.formats.html import page
from traceanalyzer.formats.html.cells import LIMIT, stages
from traceanalyzer.formats.language import ENGLISH, Language
from traceanalyzer.report.model import Report


def render(report: Report, top: int | None = None, *, language: Language = ENGLISH) -> str:
    """Render the whole report as HTML, in the most detail that fits `LIMIT`."""
    text = ""
    for detail in stages(top):
        text = page.assemble(report, language, detail)
        if len(text.encode("utf-8", "replace")) <= LIMIT:
            break
    return text
