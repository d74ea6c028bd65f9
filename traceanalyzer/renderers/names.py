"""Makes names out of a trace safe to show: they may hold escapes, markup, line breaks, and kilobytes of text."""

from __future__ import annotations

import re
import unicodedata

_CONTROL = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
_SPACE = re.compile(r"\s+")
_CODE = re.compile(r"(?<!`)`([^`|\s](?:[^`|]*[^`|\s])?)`(?!`)")
"""Code in a sentence. What holds a pipe stays text: it would end the cell of a Markdown table even in code."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""How text begins that spreadsheets take for a formula, fullwidth signs included (owasp.org, CSV Injection)."""


def clean(name: str) -> str:
    """Clean a name to one line without control characters, direction overrides and surrogates."""
    return _SPACE.sub(" ", visible(name)).strip()


def clean_code(code: str) -> str:
    """Clean each line of a piece of code; the lines keep their indentation."""
    return "\n".join(line[: len(line) - len(line.lstrip(" "))] + clean(line) for line in code.split("\n"))


def visible(name: str) -> str:
    """Replace control characters, direction overrides and surrogates; blanks and line breaks stay."""
    if name.isprintable():  # nearly every name is, and there are a million of them in a report of long ones
        return name
    return "".join("\ufffd" if unicodedata.category(c) in _CONTROL and not c.isspace() else c for c in name)


def code_parts(sentence: str) -> list[str]:
    """Split a sentence at the code in it, which stands between backticks; every second part is code."""
    return _CODE.split(sentence)


def inert(cell: str) -> str:
    """Turn text that a spreadsheet would take for a formula into plain text: names in a trace are not trusted."""
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


def shorten(name: str, width: int) -> str:
    """At most `width` characters: the beginning says what it is, the end tells variants apart."""
    if len(name) <= width:
        return name
    tail = max(0, (width - 3) // 3)
    return f"{name[: width - 3 - tail]}...{name[len(name) - tail :]}"


def clipped(name: str, width: int) -> str:
    """A clean name of at most `width` characters; of one that runs to megabytes only the ends are looked at."""
    return shorten(clean(shorten(name, 8 * width)), width)
