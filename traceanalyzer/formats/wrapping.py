"""Wraps text to a width in cells: Chinese at any character, other scripts at blanks.

Lines never break at no-break spaces, such as those before units.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.cells import cell_len, chop_cells

_WIDE = "\u2e80-\u303f\u3041-\u33ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef"
_CLOSING = "、。〉》」』】〕〗〙〛，．：；！？）］｝"
"""Characters that must not begin a line."""

_OPENING = "〈《「『【〔〖〘〚（［｛"
"""Characters that must not end a line."""

NO_BREAK = "\u00a0"
_PIECE = re.compile(
    rf"[{_OPENING}]*[{_WIDE}][{_CLOSING}]*|(?:{NO_BREAK}|[^\s{_WIDE}])+[{_CLOSING}]*|[^\S{NO_BREAK}]+",
)


def wrap(text: str, width: int) -> list[str]:
    """The lines of a paragraph; words longer than a line are split."""
    lines, line = [], ""
    for piece in _pieces(text, width):
        if cell_len(line + piece.rstrip()) > width and line:
            lines.append(line.rstrip())
            line = ""
        line += piece if line else piece.lstrip()
    return [*lines, line.rstrip()] if line.strip() or not lines else lines


def _pieces(text: str, width: int) -> Iterator[str]:
    """Unbreakable parts of a text, none of them longer than a line."""
    for match in _PIECE.finditer(text):
        yield from chop_cells(match[0], width) if cell_len(match[0]) > width else (match[0],)
