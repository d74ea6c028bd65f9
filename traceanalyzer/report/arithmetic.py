"""Calculations that are shown: operands are rounded alike, so that a reader gets the shown result."""

from __future__ import annotations

from collections.abc import Iterable

from traceanalyzer.report.message import Message
from traceanalyzer.report.model import Arithmetic, Operand

_DIGITS = 5
"""Significant digits of the largest operand (own choice: 174.76 ms is precise enough)."""


def difference(minuend: tuple[Message, float], subtrahends: Iterable[tuple[Message, float]]) -> Arithmetic:
    """Compute `minuend - max(subtrahends)`, rounded as it will be shown.

    Args:
        minuend: Its name and ns.
        subtrahends: Theirs.
    """
    subtrahends = tuple(subtrahends)
    quantum = _quantum(minuend[1])

    def rounded(ns: float) -> int:
        return round(ns / quantum) * quantum

    operands = tuple(Operand(name, rounded(ns)) for name, ns in subtrahends)
    largest = max((operand.ns for operand in operands), default=0)
    return Arithmetic(Operand(minuend[0], rounded(minuend[1])), operands, rounded(minuend[1]) - largest)


def _quantum(ns: float) -> int:
    """The power of ten that leaves a number of digits."""
    return int(10 ** max(0, len(str(int(abs(ns)))) - _DIGITS))
