"""Cleans the lines of a file to what a person sees: no colours, no markup, no odd blanks."""

from __future__ import annotations

import codecs
import html
import re
import unicodedata

_TERMINAL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z^_=>])")
"""Control sequences (ECMA-48): colours, cursor moves, window titles and hyperlinks."""

_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|apos|nbsp|ensp|emsp|#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6});")
"""Only with the semicolon: `Tensor const&, int` is C++, not HTML."""

_TAGS = re.compile(r"</?(?:pre|code|span|br|div|p|td|tr|font|samp|tt)(?:\s[^<>]*)?/?>", re.IGNORECASE)

_TEMPLATE = re.compile(r"\w$")
"""What stands before `<` in a C++ template, where `foo<p>` is not a paragraph."""

_ODD = {ord(c): " " for c in "\v\f"} | dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff\0"))
_ODD |= {code: " " for code in range(0xA0, 0x3001) if unicodedata.category(chr(code)) == "Zs"}

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),  # what PowerShell's > writes
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def decode(data: bytes) -> str:
    """Text of a document in UTF-8, or in what its byte order mark names; undecodable bytes are replaced."""
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            return data[len(bom) :].decode(encoding, errors="replace")
    return data.decode("utf-8", errors="replace")


def split_lines(text: str) -> list[str]:
    """Lines as editors count them; a text without line feeds has the carriage returns of old."""
    return text.split("\n" if "\n" in text else "\r")


def clean(line: str) -> str:
    """One line as it looks on a screen, except that tabs stay tabs."""
    line = line.rstrip("\r")
    if "\r" in line:
        line = line.rpartition("\r")[2]  # a progress bar that the next print wrote over
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
