"""Builds the sections of a difference, in the order of importance."""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.formats.difference import answer, changes, machine
from traceanalyzer.report.difference import Difference
from traceanalyzer.report.section import Section


def build(difference: Difference, top: int) -> Iterator[Section]:
    """Build all nonempty sections.

    Args:
        difference: The difference.
        top: Number of rows of each table.
    """
    yield from answer.build(difference)
    yield from changes.findings(difference, top)
    yield from machine.build(difference, top)
    yield from changes.rankings(difference, top)
    yield from answer.trust(difference)
