"""Exact times and raw JSON texts: the two kinds of value that Python's own JSON writer cannot express."""

from __future__ import annotations

from decimal import Decimal

Time = int | str | Decimal
"""Microseconds: `12`, `"12.345"` or `Decimal("12.345")`. Floats are refused, they are not exact."""

Event = dict[str, object]
"""One entry of `traceEvents`; times are `Decimal` or `int`, never `float`."""


class Raw(str):
    """Text that is written verbatim, for values that JSON forbids: `Raw("NaN")`, `Raw("inf")`, `Raw("N/A")`."""

    __slots__ = ()


def ns(time: Time) -> int:
    """Nanoseconds of a time in microseconds, exactly."""
    if isinstance(time, bool | float):
        raise TypeError(f"times are int, str or Decimal, not {type(time).__name__}: {time!r}")
    scaled = Decimal(time).scaleb(3)
    if scaled != int(scaled):
        raise ValueError(f"finer than a nanosecond: {time!r}")
    return int(scaled)


def micros(nanoseconds: int) -> Decimal:
    """Microseconds with three decimals, as kineto writes them since 2024."""
    return Decimal(nanoseconds).scaleb(-3)
