"""What a report shows, apart from how: sections of facts and tables. Every renderer lays out the same ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Finding


@dataclass(frozen=True)
class SectionColumn:
    """One column of a table."""

    title: Text | Message
    """A message where it names something out of the trace."""
    unit: str
    """As in `units.render`; "" is text."""
    is_name: bool = False
    """A name out of the trace: long, hostile, and shown in full only where there is room."""


@dataclass(frozen=True)
class SectionTable:
    """Raw values under columns, most important row first. A value may be a text or a message, for words in a cell."""

    id: str
    columns: tuple[SectionColumn, ...]
    rows: tuple[tuple[Any, ...], ...]
    total_rows: int
    """How many rows there are in all; those that are not shown are in the JSON report."""
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
    """One question and its answer."""

    id: str
    title: Text | Message
    messages: tuple[Message, ...] = ()
    facts: tuple[Fact, ...] = ()
    parts: tuple[SectionPart, ...] = ()
    tables: tuple[SectionTable, ...] = ()
    findings: tuple[Finding, ...] = ()
    is_detail: bool = False
    """Not on the first screen."""
