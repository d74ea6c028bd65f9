"""Splits the texts after the numbers of a row without column alignment: shapes, source, FLOPs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from traceanalyzer.readers.key_averages.values import PATTERNS, ValueKind

_FLOPS = re.compile(rf"(?<!\S)(?:{PATTERNS[ValueKind.FLOPS]})(?!\S)")
_AFTER_CUT_SHAPES = re.compile(
    r"(?<!\S)(?:--|[0-9]+\.[0-9]{3})(?!\S)|(?<= )\S+\([0-9]+\): |(?<= )(?:\.\.\.|<built-in )"
)
"""Pattern of the text after a list of shapes whose brackets do not close."""


def split_tail(text: str, kinds: Sequence[ValueKind]) -> list[str | None]:
    """Texts by column, in the order of `kinds`; FLOPs beside a source are recognized by their format."""
    found: dict[ValueKind, str] = {}
    if ValueKind.SHAPES in kinds:
        end = _end_of_shapes(text) if len(kinds) > 1 else len(text)
        found[ValueKind.SHAPES], text = text[:end].strip(), text[end:].strip()
    if ValueKind.FLOPS in kinds and (match := _FLOPS.match(text) or _at_end(text)):
        found[ValueKind.FLOPS], text = match[0], (text[: match.start()] + text[match.end() :]).strip()
    if ValueKind.SOURCE in kinds:
        found[ValueKind.SOURCE] = text
    return [found.get(kind) for kind in kinds]


def shapes_are_cut(shapes: str) -> bool:
    """Whether the brackets of a printed list do not close."""
    return shapes.count("[") != shapes.count("]")


def _end_of_shapes(text: str) -> int:
    depth = 0
    for match in re.finditer(r"[\[\]]", text):
        depth += 1 if match[0] == "[" else -1
        if depth == 0:
            return match.end()
    after = _AFTER_CUT_SHAPES.search(text)
    return after.start() if after else len(text)


def _at_end(text: str) -> re.Match[str] | None:
    last = text.rfind(" ") + 1
    return _FLOPS.fullmatch(text, last)
