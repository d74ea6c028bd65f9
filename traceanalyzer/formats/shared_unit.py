"""Writes several quantities in one unit: the operands of a sum, the ticks of an axis."""

from __future__ import annotations

import re
from dataclasses import dataclass

from traceanalyzer.formats.language import Language

_FACTORS = {"ns": (10**9, 10**6, 10**3, 1), "bytes": (2**40, 2**30, 2**20, 2**10, 1)}
_NUMERIC = re.compile(r"[\d.,\s\u00a0\u202f]+")


@dataclass(frozen=True)
class Scale:
    """A unit for several quantities."""

    factor: int
    label: str
    """The unit's name in the reader's language."""
    decimal: str
    """The decimal separator."""

    def number(self, value: float, digits: int) -> str:
        """The value in this unit, without its name."""
        return f"{value / self.factor:.{digits}f}".replace(".", self.decimal)

    def text(self, value: float, digits: int) -> str:
        """The value with the name of this unit, such as `174.76 ms`."""
        return f"{self.number(value, digits)} {self.label}"


def scale(language: Language, largest: float, unit: str) -> Scale:
    """Choose the unit in which the largest quantity is at least one.

    Args:
        language: The reader's language.
        largest: The largest quantity by absolute value.
        unit: `ns` or `bytes`.
    """
    factor = next((f for f in _FACTORS[unit] if abs(largest) >= f), _FACTORS[unit][-1])
    label = _NUMERIC.sub("", language.quantity(factor, unit))
    return Scale(factor, label, language.quantity(1.5, "number")[1])


def unit_names(language: Language, unit: str) -> list[tuple[int, str]]:
    """Factor and name of each unit, largest first."""
    return [(factor, scale(language, factor, unit).label) for factor in _FACTORS[unit]]
