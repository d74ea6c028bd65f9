"""Turns texts in UTF-16 and UTF-32, such as `>` writes in Windows PowerShell, into UTF-8, which all readers expect."""

from __future__ import annotations

import codecs
from collections.abc import Callable

_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32LE"),  # first: it begins with the mark of UTF-16
    (codecs.BOM_UTF32_BE, "UTF-32BE"),
    (codecs.BOM_UTF16_LE, "UTF-16LE"),
    (codecs.BOM_UTF16_BE, "UTF-16BE"),
)
_ASCII_SHARE = 0.7
"""Least share of ASCII by which a text without a mark is recognized (own choice)."""

HEAD = 4096
"""Bytes that tell the encoding of a text."""


def marked(head: bytes) -> str | None:
    """The encoding of the byte order mark that a text begins with; None for UTF-8, which needs no mark."""
    return next((encoding for mark, encoding in _MARKS if head.startswith(mark)), None)


def unmarked(head: bytes) -> str | None:
    """The encoding of a text that is UTF-16 or UTF-32 by its zeros, but has no mark that says so; None for others."""
    if b"\0" not in head or marked(head):
        return None
    return next((encoding for _, encoding in _MARKS if _is_text(head[:HEAD].decode(encoding, "replace"))), None)


def _is_text(text: str) -> bool:
    known = sum(letter.isascii() and (letter.isprintable() or letter.isspace()) for letter in text)
    return known >= _ASCII_SHARE * len(text)


def recoder(encoding: str) -> Callable[[bytes], bytes]:
    """A function that turns the pieces of a text into UTF-8 one after another, without the mark; it keeps its place.

    Args:
        encoding: As `marked` tells it. What is no text in it becomes a replacement character.
    """
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    begun = False

    def recode(piece: bytes) -> bytes:
        nonlocal begun
        text = decoder.decode(piece)
        if text and not begun:
            begun, text = True, text.removeprefix("\ufeff")
        return text.encode()

    return recode
