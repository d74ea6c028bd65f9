"""Markdown as GitHub and GitLab render it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from traceanalyzer.renderers import cards, sections
from traceanalyzer.renderers.language import ENGLISH, Language
from traceanalyzer.renderers.names import clean, shorten
from traceanalyzer.renderers.templates import environment
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Generator, Report
from traceanalyzer.report.section import Column, Section

MARK = "<!-- traceanalyzer report"
TOP = 20

_TITLE = Text("report-title", "Profile of {name}")
_MORE = Text("table-more", "{shown:count} of {total:count} rows; all are in the JSON report.")
_MORE_FINDINGS = Text(
    "markdown-more-findings",
    "{hidden:count} more findings; all are in the JSON report.",
    one="{hidden:count} more finding; it is in the JSON report.",
)
_FINDINGS = 20
"""In full; a report with more has nothing to say in them that matters."""
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&@!])")
_LINKED = re.compile(r"(?<![\w`])[@#](?=[\w-])|https?://|www\.(?=\w)", re.IGNORECASE)
"""What becomes a link, a mention or a reference after Markdown is done, escaped or not."""

_BREAK = "\u200b"
"""A blank without width: nothing to see, and nothing to link."""

_NAME_WIDTH = 100
_BAR_WIDTH = 30


def render(report: Report, top: int | None = None, *, language: Language = ENGLISH) -> str:
    """The whole report, the first screen first and the rest folded."""
    title = language.text(_TITLE, name=clean(report.source.name))
    return lay_out(MARK, report.generator, title, sections.build(report, TOP if top is None else top), language)


def lay_out(mark: str, generator: Generator, title: str, shown: Iterable[Section], language: Language) -> str:
    """A document of sections, details folded.

    Args:
        mark: How a file begins that this program wrote.
        generator: Who wrote it.
        title: Of the document, not yet escaped.
        shown: Its sections.
        language: What people read is in this language.
    """
    template = environment().get_template("report.md.j2")
    return template.render(
        mark=mark,
        version=generator.version,
        title=escape(title),
        sections=shown,
        text=lambda text: escape(language.text(text)),
        cell=lambda value, unit, column: cell(value, unit, column, language),
        align=lambda column: ":--" if column.unit == "" else "--:",
        labelled=lambda fact: escape(language.labelled(fact.label, language.quantity(fact.value, fact.unit))),
        value=lambda part: escape(language.quantity(part.value, part.unit)),
        share=lambda part: escape(language.quantity(part.share, "share")),
        bar=lambda part: "█" * round(part.share * _BAR_WIDTH) or "▏",
        **_of_findings(language),
        more=lambda table: escape(language.text(_MORE, shown=len(table.rows), total=table.total_rows)),
    )


def _of_findings(language: Language) -> dict[str, Any]:
    """What the template needs for findings."""
    titles = (cards.FINDING, cards.SEVERITY, cards.SAVING, cards.SHARE)
    words = {"advice": cards.WHAT_TO_DO, "not_when": cards.NOT_WHEN, "estimate": cards.ESTIMATE}
    return {
        "cards": lambda findings: [cards.card(finding, language) for finding in findings[:_FINDINGS]],
        "titles": ["#", *(escape(language.text(title)) for title in titles)],
        "word": {key: escape(language.text(text)) for key, text in (words | {"evidence": cards.EVIDENCE}).items()},
        "escape": escape,
        "code": code,
        "name": lambda text: shorten(clean(text), _NAME_WIDTH),
        "fenced": lambda text: clean(text).replace("```", ""),
        "more_findings": lambda count: escape(language.text(_MORE_FINDINGS, hidden=count)),
    }


def escape(text: str) -> str:
    """Text that Markdown shows as it is, and GitHub and GitLab neither link nor take for a mention."""
    inert = _LINKED.sub(lambda m: m[0][:-1] + _BREAK + m[0][-1] if len(m[0]) > 1 else m[0] + _BREAK, clean(text))
    return _SPECIAL.sub(r"\\\1", inert)


def cell(value: Any, unit: str, column: Column, language: Language = ENGLISH) -> str:
    """A table cell: names as code, so that underscores and angle brackets stay what they are."""
    if not column.is_name or value is None or isinstance(value, Text | Message):
        return escape(language.quantity(value, unit))
    return code(shorten(clean(str(value)), _NAME_WIDTH))


def code(text: str) -> str:
    """An inline code span. A pipe would end the table cell even there, so it is escaped."""
    ticks = "`" * (max(map(len, re.findall(r"`+", text)), default=0) + 1)
    pad = " " if "`" in text else ""
    return f"{ticks}{pad}{text}{pad}{ticks}".replace("|", "\\|") if text else ""
