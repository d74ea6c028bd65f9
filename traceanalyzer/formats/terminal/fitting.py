"""Fits the first screen to a number of lines: first less of each section, then fewer sections."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from traceanalyzer.report.section import Section

LINES = 61
"""Number of lines of a screen (own choice: what a terminal on a laptop shows at once)."""


@dataclass(frozen=True)
class Level:
    """Level of detail of each section."""

    rows: int | None = None
    """Most rows of a table; None for the requested number."""
    is_brief: bool = False
    """Whether findings show only the saving and the fix."""
    has_facts: bool = True
    has_essential: bool = True
    """Whether essential facts are shown even if others are left out."""
    messages: int = 50
    """Most messages of a section."""
    lines: int | None = None
    """Most lines of a message."""


LEVELS = (
    Level(),
    Level(is_brief=True),
    Level(is_brief=True, has_facts=False, messages=4, lines=3),
    Level(rows=4, is_brief=True, has_facts=False, messages=4, lines=3),
    Level(rows=3, is_brief=True, has_facts=False, messages=3, lines=3),
    Level(rows=2, is_brief=True, has_facts=False, messages=3, lines=3),
    Level(rows=2, is_brief=True, has_facts=False, messages=2, lines=2),
)


def attempts(shown: tuple[Section, ...]) -> Iterator[tuple[Level, tuple[Section, ...], tuple[Section, ...]]]:
    """Attempts in order: the level of detail, the sections to show, and the sections left out."""
    for level in LEVELS:
        yield level, shown, ()
    least = LEVELS[-1]
    optional = [section for section in shown if not section.is_essential]
    for first in range(len(optional) - 1, -1, -1):
        left_out = optional[first:]
        yield least, tuple(section for section in shown if section not in left_out), tuple(left_out)
    yield (
        replace(least, has_essential=False),
        tuple(section for section in shown if section.is_essential),
        tuple(optional),
    )


def cut(section: Section, level: Level) -> Section:
    """Reduce a section to a level; tables with one row per figure are not rankings and are not shortened."""
    tables = tuple(t if t.row_units else replace(t, rows=t.rows[: level.rows]) for t in section.tables)
    facts = tuple(fact for fact in section.facts if level.has_facts or (fact.is_essential and level.has_essential))
    return replace(section, tables=tables, messages=section.messages[: level.messages], facts=facts)


def visible(section: Section, level: Level) -> tuple[object, ...]:
    """What a level decides of a section; where two levels decide the same, the section looks the same."""
    shown = cut(section, level)
    return (
        tuple(len(table.rows) for table in shown.tables),
        len(shown.facts),
        len(shown.messages),
        level.lines if shown.messages else None,
        level.is_brief and bool(shown.findings),
    )
