"""Phases of built traces, as short as tests need them."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers import phases
from traceanalyzer.analyzers.phases import Phase, Phases
from traceanalyzer.structure.context import Context

ENGINE = 4297


def phases_of(trace: TraceBuilder) -> Phases:
    return phases.analyze(Context(read_built(trace)))


def by_name(found: Phases) -> dict[str, Phase]:
    return {row.name: row for row in found.rows}


def us(value: float | None) -> float | None:
    """Nanoseconds as the microseconds that the builder takes."""
    return None if value is None else value / 1000


def tree_of(found: Phases) -> list[tuple[str, int, int]]:
    """Name, depth and calls of each place."""
    return [(place.name, place.depth, place.calls) for place in found.tree]
