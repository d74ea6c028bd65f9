"""Input shapes as torch prints them: as a Python list, in which a list of tensors is an empty list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from traceanalyzer.trace.strings import StringPool, Strings
from traceanalyzer.trace.table import I32


@dataclass(frozen=True)
class Shapes:
    """Input shapes of events: the distinct texts, and for each event the row of its own."""

    texts: list[str]
    row: I32


def printed(shapes: Strings, codes: I32) -> Shapes:
    """The texts of events, given the codes of theirs in a trace's pool."""
    pool: StringPool[str] = StringPool()
    rows = pool.codes(map(_printed, shapes), len(shapes))
    return Shapes(pool.values(), rows[codes])


def parse(text: str) -> list[list[int]]:
    """Shapes of all inputs; [] for what is not a tensor, and for what cannot be read."""
    try:
        value: Any = msgspec.json.decode(text) if text else []
    except (msgspec.DecodeError, RecursionError):
        return []
    return [_shape(item) for item in value] if isinstance(value, list) else []


def _shape(item: Any) -> list[int]:
    plain = isinstance(item, list) and all(isinstance(size, int) for size in item)
    return item if plain else []


def _printed(text: str) -> str:
    return str(parse(text))
