"""Numbers with units, as exact integers of ns."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

_NS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "sec": 10**9, "seconds": 10**9}
_CELL = re.compile(
    r"(?P<number>[0-9][0-9,]*(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?) ?(?P<unit>ns|us|µs|μs|ms|s)?", re.IGNORECASE
)
_LARGEST = 2**62


def number(text: str) -> Decimal | None:
    """The number in a cell, without thousands separators; None if it is none."""
    try:
        value = Decimal(text.replace(",", "").removesuffix("%").strip())
    except InvalidOperation:
        return None
    return value if value.is_finite() else None


def count(text: str) -> int | None:
    """A number of calls; of cProfile's `12/3`, the calls in all."""
    value = number(text.partition("/")[0])
    return int(value) if value is not None and 0 <= value < _LARGEST and value == value.to_integral_value() else None


def share(text: str) -> float | None:
    """The fraction that a percentage is."""
    value = number(text)
    return None if value is None else float(value.scaleb(-2))


def time_ns(text: str, unit: str | Decimal) -> int | None:
    """A time in ns; None if it is none.

    Args:
        text: The cell, which may have a unit of its own.
        unit: The unit of the column, as a name or as seconds; empty where each cell must have its own.
    """
    match = _CELL.fullmatch(text.strip())
    if match is None:
        return None
    own = (match["unit"] or "").lower()
    known = _NS.get(own) or (unit * 10**9 if isinstance(unit, Decimal) else _NS.get(unit))
    value = number(match["number"])
    if known is None or value is None or value * known >= _LARGEST:
        return None
    return round(value * known)
