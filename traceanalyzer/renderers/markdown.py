"""Markdown as GitHub and GitLab render it."""

from __future__ import annotations

import re
from typing import Any

from traceanalyzer.renderers import sections
from traceanalyzer.renderers.names import clean, shorten
from traceanalyzer.renderers.templates import environment
from traceanalyzer.report import units
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Column

MARK = "<!-- traceanalyzer report"
TOP = 20

_TITLE = Text("report-title", "Profile of {name}")
_MORE = Text("table-more", "{shown:count} of {total:count} rows; all are in the JSON report.")
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&@!])")
_LINKED = re.compile(r"(?<![\w`])[@#](?=[\w-])|https?://|www\.(?=\w)", re.IGNORECASE)
"""What becomes a link, a mention or a reference after Markdown is done, escaped or not."""

_BREAK = "\u200b"
"""A blank without width: nothing to see, and nothing to link."""

_NAME_WIDTH = 100
_BAR_WIDTH = 30


def render(report: Report, top: int | None = None) -> str:
    """The whole report, the first screen first and the rest folded."""
    template = environment().get_template("report.md.j2")
    return template.render(
        mark=MARK,
        version=report.generator.version,
        title=escape(_TITLE(name=clean(report.source.name)).text),
        sections=sections.build(report, TOP if top is None else top),
        escape=escape,
        cell=cell,
        align=lambda column: ":--" if column.unit == "" else "--:",
        value=lambda item: escape(units.render(item.value, item.unit)),
        share=lambda part: units.share(part.share),
        bar=lambda part: "█" * round(part.share * _BAR_WIDTH) or "▏",
        more=lambda table: _MORE(shown=len(table.rows), total=table.total_rows).text,
    )


def escape(text: str) -> str:
    """Text that Markdown shows as it is, and GitHub and GitLab neither link nor take for a mention."""
    inert = _LINKED.sub(lambda m: m[0][:-1] + _BREAK + m[0][-1] if len(m[0]) > 1 else m[0] + _BREAK, clean(text))
    return _SPECIAL.sub(r"\\\1", inert)


def cell(value: Any, unit: str, column: Column) -> str:
    """A table cell: names as code, so that underscores and angle brackets stay what they are."""
    if value is None or not column.is_name:
        return escape(units.render(value, unit))
    return code(shorten(clean(str(value)), _NAME_WIDTH))


def code(text: str) -> str:
    """An inline code span. A pipe would end the table cell even there, so it is escaped."""
    ticks = "`" * (max(map(len, re.findall(r"`+", text)), default=0) + 1)
    pad = " " if "`" in text else ""
    return f"{ticks}{pad}{text}{pad}{ticks}".replace("|", "\\|") if text else ""
