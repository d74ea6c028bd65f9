"""Lays out paragraphs on a terminal: wrapped as their script wants it, indented, and limited in length."""

from __future__ import annotations

from rich.text import Text as RichText

from traceanalyzer.renderers.names import clipped
from traceanalyzer.renderers.wrapping import wrap

_LONGEST = 2000
"""Most characters of a paragraph (own choice: a screen)."""


def paragraph(text: str, width: int, indent: int = 0, *, style: str = "", lines: int | None = None) -> RichText:
    """Wrap a text to lines of the width of the console.

    Args:
        text: What to say, which may hold names out of a trace.
        width: Columns of the console.
        indent: Blanks before each line.
        style: As rich names it.
        lines: How many there may be; None is as many as it takes.
    """
    wrapped = wrap(clipped(text, _LONGEST), max(1, width - indent))
    if lines is not None and len(wrapped) > lines:
        wrapped = wrapped[:lines]
        wrapped[-1] = wrap(wrapped[-1], max(1, width - indent - 3))[0] + "..."
    return RichText("\n".join(" " * indent + line for line in wrapped), style=style, no_wrap=True, overflow="crop")
