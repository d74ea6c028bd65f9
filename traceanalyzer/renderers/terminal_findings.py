"""The most valuable findings on the first screen."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text as RichText

from traceanalyzer.renderers.cards import Card, card
from traceanalyzer.renderers.language import Language
from traceanalyzer.renderers.names import clean
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Finding

SHOWN = 3
"""More do not fit a screen; the other formats have them all."""

_MORE = Text(
    "terminal-more-findings",
    "{hidden:count} more findings are in the other formats.",
    one="{hidden:count} more finding is in the other formats.",
)
_STYLES = {"critical": "bold red", "high": "red", "medium": "yellow", "low": "green", "info": "dim"}


def draw(findings: tuple[Finding, ...], language: Language) -> Iterator[RenderableType]:
    """The first ones in full, and how many there are besides."""
    for number, finding in enumerate(findings[:SHOWN], 1):
        yield _card(number, card(finding, language), _STYLES[finding.severity])
    hidden = len(findings) - SHOWN
    if hidden > 0:
        yield _indented(RichText(language.text(_MORE, hidden=hidden), style="dim"), 2)


def _card(number: int, shown: Card, style: str) -> RenderableType:
    run = f"{shown.run}: " if shown.run else ""
    title = RichText(f"{number}. {clean(run + shown.title)}", style="bold")
    title.append(f"  [{shown.severity}]", style=style)
    lines: list[RenderableType] = [_indented(title, 2)]
    if shown.saves:
        lines.append(_indented(RichText(clean(shown.saves), style="bold green"), 5))
    lines += [_indented(RichText(clean(text)), 5) for text in (shown.summary, shown.advice)]
    if shown.code:
        lines.append(_indented(RichText(clean(shown.code), style="cyan"), 7))
    return Group(*lines)


def _indented(text: RichText, columns: int) -> RenderableType:
    return Padding(text, (0, 0, 0, columns), expand=False)
