"""Sections: the content that a report shows, without its layout."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Finding


class Topic(StrEnum):
    """The group under which people look for a section."""

    SUMMARY = "summary"
    STORY = "story"
    RUNS = "runs"
    RANKS = "ranks"
    PHASES = "phases"
    STEPS = "steps"
    GPU = "gpu"
    ACCELERATORS = "accelerators"
    OPERATORS = "operators"
    KERNELS = "kernels"
    HOST = "host"
    COMMUNICATION = "communication"
    MEMORY = "memory"
    MODULES = "modules"
    MORE = "more"
    QUALITY = "quality"


class ColumnMarks(msgspec.Struct, frozen=True, kw_only=True):
    """What formats need to know of a column."""

    is_name: bool = False
    """Whether the column has names from the trace, which may be long or hostile and are shortened if there is no
    room."""
    has_bar: bool = False
    """Whether its shares are the ones to draw as bars, where a format can."""
    is_extra: bool = False
    """Whether it is left out of a screen of 80 characters."""


class SectionColumn(ColumnMarks, frozen=True):
    """One column of a table in a section."""

    title: Text | Message
    """Title of the column; a message where it names something out of the trace."""
    unit: str
    """Unit as in `units.render`; "" is text."""


class SectionTable(msgspec.Struct, frozen=True):
    """Raw values under columns, most important row first. A value may be a text or a message, for words in a cell."""

    id: str
    columns: tuple[SectionColumn, ...]
    rows: tuple[tuple[Any, ...], ...]
    total_rows: int
    """Number of all rows, including those that are only in the JSON report."""
    row_units: tuple[str, ...] = ()
    """In a table whose rows are quantities of different units: the unit of each row, from its second cell on."""
    is_whole: bool = False
    """Whether it is no ranking, so that it means something only with all its rows."""

    def unit(self, row: int, column: int) -> str:
        """The unit of a cell."""
        return self.row_units[row] if self.row_units and column else self.columns[column].unit


class Fact(msgspec.Struct, frozen=True):
    """A labelled value: a quantity, a text, or several."""

    label: Text | Message
    value: Any
    unit: str
    is_essential: bool = False
    """Whether it is shown where there is room for few."""


class SectionPart(msgspec.Struct, frozen=True):
    """One piece of a whole, for a bar."""

    role: str
    """Key of the kind of the part, which decides its colour."""
    label: Text
    value: float
    unit: str
    share: float


class Term(msgspec.Struct, frozen=True):
    """A term of a section with its definition, for reports that are read without the documentation."""

    name: Text | Message
    meaning: Text


class Section(msgspec.Struct, frozen=True):
    """One question with its answer."""

    id: str
    title: Text | Message
    messages: tuple[Message, ...] = ()
    facts: tuple[Fact, ...] = ()
    parts: tuple[SectionPart, ...] = ()
    tables: tuple[SectionTable, ...] = ()
    findings: tuple[Finding, ...] = ()
    terms: tuple[Term, ...] = ()
    topic: Topic = Topic.MORE
    is_detail: bool = False
    """Whether it is left out of the first screen."""
    is_essential: bool = False
    """Whether the section is kept if there is no room for all sections."""
    is_tree: bool = False
    """Whether its table is a tree, row by row: a format that can open and close branches draws that instead."""
