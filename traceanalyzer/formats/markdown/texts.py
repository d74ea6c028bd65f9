"""Escapes texts for GitHub and GitLab, so that no name becomes markup, a link, a mention or a command."""

from __future__ import annotations

import html
import re

from traceanalyzer.formats.names import clean, clean_code, code_parts

_ESCAPES = str.maketrans({character: f"\\{character}" for character in "\\`*_{}[]<>#|~&@!$"})
_FIRST = re.compile(r"^(?:[-+](?=\s|$)|/|\d+(?=[.)](?:\s|$))|[-=]+$)")
"""Starts of lines that are a list, a rule, the underline of a heading, or a GitLab command such as /close."""

_LINKED = re.compile(
    r"@(?=[\w-])|[#!](?=\d)|(?<![\w`])[#!~%&^$](?=[\w\"-])|(?<=[a-z])://|www\.(?=\w)|(?<!:):(?=[a-z0-9_+-]+:(?!:))",
    re.IGNORECASE,
)
"""Texts that hosts replace after Markdown, even if escaped: links, mentions, references, images."""

_BREAK = "\u200b"
"""A zero-width space, which prevents such replacements."""

_TICKS = re.compile(r"`+")


def escape(text: str) -> str:
    """Escape a text so that it is shown literally, without links and mentions on GitHub and GitLab."""
    return _FIRST.sub(_guarded, _plain(clean(text)))


def prose(text: str) -> str:
    """Escape a sentence except the code in it."""
    parts = code_parts(clean(text))
    return _FIRST.sub(_guarded, "".join(span(part) if i % 2 else _plain(part) for i, part in enumerate(parts)))


def raw(text: str) -> str:
    """Escape text in a line of HTML, where Markdown escapes do not work."""
    return html.escape(_inert(clean(text)), quote=False)


def _plain(text: str) -> str:
    return _inert(text).translate(_ESCAPES)


def _inert(text: str) -> str:
    return _LINKED.sub(lambda m: m[0][:-1] + _BREAK + m[0][-1] if len(m[0]) > 1 else m[0] + _BREAK, text)


def _guarded(match: re.Match[str]) -> str:
    """Escape a number after its digits, and everything else before."""
    return f"{match[0]}\\" if match[0].isdigit() else f"\\{match[0]}"


def span(text: str) -> str:
    """Format a code span in running text."""
    ticks = "`" * (_longest_run(text) + 1)
    pad = " " if "`" in text else ""
    return f"{ticks}{pad}{text}{pad}{ticks}" if text else ""


def code(text: str) -> str:
    """Format a code span in a table cell, where a pipe must be escaped even in code."""
    return span(text).replace("|", "\\|")


def fenced(text: str) -> str:
    """Format Python lines as a code block that none of the lines can end; indentation is kept."""
    body = "\n".join(line.rstrip() for line in clean_code(text).split("\n"))
    fence = "`" * max(3, _longest_run(body) + 1)
    return f"{fence}python\n{body}\n{fence}"


def _longest_run(text: str) -> int:
    return max(map(len, _TICKS.findall(text)), default=0)
