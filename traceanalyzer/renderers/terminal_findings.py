"""Draws the most valuable findings on the first screen."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from traceanalyzer.renderers.cards import Card, card
from traceanalyzer.renderers.language import Language
from traceanalyzer.renderers.terminal_text import paragraph
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Finding

SHOWN = 3
"""Number of findings on the screen; the other formats have them all."""

_MORE = Text(
    "terminal-more-findings",
    "{hidden:count} more findings are in the other formats.",
    one="{hidden:count} more finding is in the other formats.",
)
_STYLES = {"critical": "bold red", "high": "red", "medium": "yellow", "low": "green", "info": "dim"}


def draw(
    findings: tuple[Finding, ...], width: int, language: Language, *, is_brief: bool = False
) -> Iterator[RenderableType]:
    """Draw the first findings, and say how many there are besides.

    Args:
        findings: In the order of the report.
        width: Columns of the console.
        language: What people read is in this language.
        is_brief: What each saves and a line of code; the advice in words only where there is no code.
    """
    for number, finding in enumerate(findings[:SHOWN], 1):
        yield from _card(number, card(finding, language), _STYLES.get(finding.severity, ""), width, is_brief)
    hidden = len(findings) - SHOWN
    if hidden > 0:
        yield paragraph(language.text(_MORE, hidden=hidden), width, 2, style="dim")


def _card(number: int, shown: Card, style: str, width: int, is_brief: bool) -> Iterator[RenderableType]:
    run = f"{shown.run}: " if shown.run else ""
    title = paragraph(f"{number}. {run}{shown.title}  [{shown.severity}]", width, 2, style="bold", lines=2)
    title.highlight_words([f"[{shown.severity}]"], style)
    yield title
    if shown.saves:
        yield paragraph(shown.saves, width, 5, style="bold green")
    if not is_brief:
        yield paragraph(shown.summary, width, 5)
    if not is_brief or not shown.code:
        yield paragraph(shown.advice, width, 5, lines=2 if is_brief else None)
    for line in (shown.code or "").split("\n")[: 2 if is_brief else None]:
        if line.strip():
            indent = 7 + len(line) - len(line.lstrip(" "))
            yield paragraph(line, width, min(indent, width // 2), style="cyan", lines=2 if is_brief else None)
