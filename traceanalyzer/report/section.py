"""Sections: what a report shows, apart from how it is laid out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Finding


@dataclass(frozen=True)
class SectionColumn:
    """One column of a table in a section."""

    title: Text | Message
    """Title of the column; a message where it names something out of the trace."""
    unit: str
    """Unit as in `units.render`; "" is text."""
    is_name: bool = False
    """Whether it holds names out of the trace: long, possibly hostile, in full only where there is room."""


@dataclass(frozen=True)
class SectionTable:
    """Raw values under columns, most important row first. A value may be a text or a message, for words in a cell."""

    id: str
    columns: tuple[SectionColumn, ...]
    rows: tuple[tuple[Any, ...], ...]
    total_rows: int
    """Number of all rows; those that are not shown are in the JSON report."""
    row_units: tuple[str, ...] = ()
    """In a table whose rows are quantities of different units: the unit of each row, from its second cell on."""

    def unit(self, row: int, column: int) -> str:
        """The unit of a cell."""
        return self.row_units[row] if self.row_units and column else self.columns[column].unit


@dataclass(frozen=True)
class Fact:
    """A labelled value: a quantity, a text, or several."""

    label: Text
    value: Any
    unit: str


@dataclass(frozen=True)
class SectionPart:
    """One piece of a whole, for a bar."""

    label: Text
    value: float
    unit: str
    share: float


@dataclass(frozen=True)
class Section:
    """One question with its answer."""

    id: str
    title: Text | Message
    messages: tuple[Message, ...] = ()
    facts: tuple[Fact, ...] = ()
    parts: tuple[SectionPart, ...] = ()
    tables: tuple[SectionTable, ...] = ()
    findings: tuple[Finding, ...] = ()
    is_detail: bool = False
    """Whether it is left out of the first screen."""
