"""Escapes texts for GitHub and GitLab: no name becomes markup, a link, a mention or a command."""

from __future__ import annotations

import html
import re

from traceanalyzer.renderers.names import clean, clean_code, code_parts

_ESCAPES = str.maketrans({character: f"\\{character}" for character in "\\`*_{}[]<>#|~&@!$"})
_FIRST = re.compile(r"^(?:[-+](?=\s|$)|/|\d+(?=[.)](?:\s|$))|[-=]+$)")
"""What begins a list, a rule, the underline of a heading, or a command of GitLab, such as /close."""

_LINKED = re.compile(
    r"@(?=[\w-])|[#!](?=\d)|(?<![\w`])[#!~%&^$](?=[\w\"-])|(?<=[a-z])://|www\.(?=\w)|(?<!:):(?=[a-z0-9_+-]+:(?!:))",
    re.IGNORECASE,
)
"""What becomes a link, a mention, a reference or a picture after Markdown is done, escaped or not."""

_BREAK = "\u200b"
"""A blank without width: nothing to see, and nothing to link."""

_TICKS = re.compile(r"`+")


def escape(text: str) -> str:
    """Text that Markdown shows as it is, and GitHub and GitLab neither link nor take for a mention."""
    return _FIRST.sub(_guarded, _plain(clean(text)))


def prose(text: str) -> str:
    """Escape a sentence, but for the code in it."""
    parts = code_parts(clean(text))
    return _FIRST.sub(_guarded, "".join(span(part) if i % 2 else _plain(part) for i, part in enumerate(parts)))


def raw(text: str) -> str:
    """Text within a line of HTML, where Markdown's escapes are not escapes."""
    return html.escape(_inert(clean(text)), quote=False)


def _plain(text: str) -> str:
    return _inert(text).translate(_ESCAPES)


def _inert(text: str) -> str:
    return _LINKED.sub(lambda m: m[0][:-1] + _BREAK + m[0][-1] if len(m[0]) > 1 else m[0] + _BREAK, text)


def _guarded(match: re.Match[str]) -> str:
    """A number is escaped after its digits, everything else before."""
    return f"{match[0]}\\" if match[0].isdigit() else f"\\{match[0]}"


def span(text: str) -> str:
    """A code span in running text."""
    ticks = "`" * (_longest_run(text) + 1)
    pad = " " if "`" in text else ""
    return f"{ticks}{pad}{text}{pad}{ticks}" if text else ""


def code(text: str) -> str:
    """A code span in a table cell: a pipe would end the cell even there, so it is escaped."""
    return span(text).replace("|", "\\|")


def fenced(text: str) -> str:
    """Lines of Python in a block, indented as they are; no line of theirs ends the block."""
    body = "\n".join(line.rstrip() for line in clean_code(text).split("\n"))
    fence = "`" * max(3, _longest_run(body) + 1)
    return f"{fence}python\n{body}\n{fence}"


def _longest_run(text: str) -> int:
    return max(map(len, _TICKS.findall(text)), default=0)
