"""Table values for other programs, such as spreadsheets: plain numbers, with the unit in the column head."""

from __future__ import annotations

from traceanalyzer.formats.language import Language
from traceanalyzer.formats.names import clean
from traceanalyzer.report.message import Text
from traceanalyzer.report.section import SectionColumn, SectionTable

_WITH_UNIT = Text("spreadsheet-column", "{title} [{unit}]", note="head of a column; unit is ns, bytes or share")
_UNITS = ("ns", "bytes", "share")
"""Units to name in column heads; shares are fractions of 1."""
_DECIMALS = {"ns": 3, "bytes": 3}
"""Decimals of means by unit: a thousandth of the integers that were measured."""
_OTHER_DECIMALS = 6


def head(column: SectionColumn, table: SectionTable, language: Language) -> str:
    """Title of a column with the unit of its values, if all have one unit."""
    title = clean(language.text(column.title))
    return title if table.row_units else with_unit(title, column.unit, language)


def with_unit(title: str, unit: str, language: Language) -> str:
    """A title with a unit."""
    return language.text(_WITH_UNIT, title=title, unit=unit) if unit in _UNITS else title


def number(value: float, unit: str) -> int | float:
    """A number without floating-point noise: 0.3 for 0.30000000000000004, and 12 for 12.0."""
    if isinstance(value, int):
        return value
    decimals = _DECIMALS.get(unit, _OTHER_DECIMALS)
    rounded = round(value, decimals) if abs(value) >= 1 else float(f"{value:.{decimals}g}")
    return int(rounded) if rounded.is_integer() else rounded
