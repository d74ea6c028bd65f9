"""Converts printed values to exact integers: times to ns, sizes to bytes, without floating-point numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum, auto
from typing import NamedTuple

_NS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9}
_INT64 = 2**63
"""Larger values count as damage, because they do not fit into 64-bit columns."""


class ValueKind(Enum):
    """Kinds of values in the cells of a column."""

    TEXT = auto()
    SHARE = auto()
    TIME = auto()
    BYTES = auto()
    COUNT = auto()
    NODE = auto()
    SHAPES = auto()
    SOURCE = auto()
    FLOPS = auto()
    UNKNOWN = auto()


class Value(NamedTuple):
    """The value of a cell."""

    value: int | float | None
    """None if torch printed it as unknown: NaN, `--`, the bare 0 of an asynchronous event."""
    step: int | None = None
    """Weight of the last printed digit, in the unit of the value, at least 1; None for shares and counts."""


_NUMBER = r"-?[0-9]{1,15}(?:\.[0-9]{1,9})?"

PATTERNS: dict[ValueKind, str] = {
    ValueKind.SHARE: rf"{_NUMBER}%|0|[nN]a[nN]%?",
    ValueKind.TIME: rf"{_NUMBER} ?(?:ns|us|µs|μs|ms|s)",
    ValueKind.BYTES: rf"{_NUMBER} ?(?:[kKmMgGtTpP]i?)?[bB]",
    ValueKind.COUNT: r"[0-9]{1,15}",
    ValueKind.NODE: r"-?[0-9]{1,15}",
    ValueKind.FLOPS: rf"{_NUMBER}|--",
}
"""Patterns of the kinds that can be recognized by their format."""

_WHOLE = {kind: re.compile(pattern) for kind, pattern in PATTERNS.items()}
_PARTS = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))? ?(\D*)")


def read_value(kind: ValueKind, text: str, scale: int = 0) -> Value | None:
    """Read a cell of one of the numeric kinds.

    Args:
        kind: Kind of its column.
        text: The cell without surrounding blanks.
        scale: For FLOPs, the power of ten in the column's name.

    Returns:
        The value, or None if the text is not a value of that kind.
    """
    return _READERS[kind](text, scale) if _WHOLE[kind].fullmatch(text) else None


def _share(text: str, scale: int) -> Value:
    del scale
    known = text.endswith("%") and text[0] not in "nN"
    return Value(float(f"{text[:-1]}e-2") if known else None)  # as decimal text, so that 94.51% is 0.9451


def _time(text: str, scale: int) -> Value | None:
    del scale
    return _scaled(text, lambda unit: _NS[unit])


def _bytes(text: str, scale: int) -> Value | None:
    del scale
    return _scaled(text, lambda unit: 1024 ** "bkmgtp".index(unit[0].lower()))


def _flops(text: str, scale: int) -> Value | None:
    return Value(None) if text == "--" else _scaled(text, lambda _: 10**scale)


def _count(text: str, scale: int) -> Value:
    del scale
    return Value(int(text))


_READERS: dict[ValueKind, Callable[[str, int], Value | None]] = {
    ValueKind.SHARE: _share,
    ValueKind.TIME: _time,
    ValueKind.BYTES: _bytes,
    ValueKind.FLOPS: _flops,
    ValueKind.COUNT: _count,
    ValueKind.NODE: _count,
}


def _scaled(text: str, unit_of: Callable[[str], int]) -> Value | None:
    """The number times its unit, rounded half to even, and its step."""
    parts = _PARTS.fullmatch(text)
    if not parts:
        return None
    sign, whole, fraction, unit = parts[1], parts[2], parts[3] or "", unit_of(parts[4])
    divisor = 10 ** len(fraction)
    value, rest = divmod(int(whole + fraction) * unit, divisor)
    value += 2 * rest > divisor or (2 * rest == divisor and value % 2)
    if value >= _INT64:
        return None
    return Value(-value if sign else value, -(-unit // divisor))
