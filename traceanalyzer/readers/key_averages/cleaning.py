"""Removes colours, markup and special blanks from the lines of a file."""

from __future__ import annotations

import codecs
import html
import re
import unicodedata

_TERMINAL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z^_=>])")
"""Control sequences (ECMA-48): colours, cursor moves, window titles and hyperlinks."""

_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|apos|nbsp|ensp|emsp|#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6});")
"""HTML entities with their semicolon, because `Tensor const&, int` is C++."""

_TAGS = re.compile(r"</?(?:pre|code|span|br|div|p|td|tr|font|samp|tt)(?:\s[^<>]*)?/?>", re.IGNORECASE)

_TEMPLATE = re.compile(r"\w$")
"""The character before `<` in a C++ template, so that `foo<p>` is not taken for a paragraph."""

_ODD = {ord(c): " " for c in "\v\f"} | dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff\0"))
_ODD |= {code: " " for code in range(0xA0, 0x3001) if unicodedata.category(chr(code)) == "Zs"}

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),  # written by > in PowerShell
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def decode(data: bytes) -> str:
    """Decode a document in UTF-8, or in the encoding of its byte order mark; undecodable bytes are replaced."""
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            return data[len(bom) :].decode(encoding, errors="replace")
    return data.decode("utf-8", errors="replace")


def split_lines(text: str) -> list[str]:
    """Split into lines as editors count them; a text without line feeds is split at carriage returns."""
    return text.split("\n" if "\n" in text else "\r")


def clean(line: str) -> str:
    """Clean one line, as a terminal would show it, but keep tabs."""
    line = line.rstrip("\r")
    if "\r" in line:
        line = line.rpartition("\r")[2]  # a progress bar, overwritten by later output
    if "\x1b" in line:
        line = _TERMINAL.sub("", line)
    if "<" in line:
        line = _TAGS.sub(_without_tag, line)
    if "&" in line:
        line = _ENTITY.sub(lambda match: html.unescape(match[0]), line)
    return line if line.isascii() and line.isprintable() else line.translate(_ODD)


def _without_tag(match: re.Match[str]) -> str:
    before = match.string[max(match.start() - 1, 0) : match.start()]
    opens_template = not match[0].startswith("</") and len(match[0]) < 5 and _TEMPLATE.match(before)
    return match[0] if opens_template else ""
