"""Averages of built traces, by name."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers.operators.key_averages import EventAverage, KeyAverages, analyze
from traceanalyzer.structure.context import Context


def averaged(trace: TraceBuilder, by_shape: bool = False) -> KeyAverages:
    """The result of the analyzer for a built trace."""
    return analyze(Context(read_built(trace)), by_shape=by_shape)


def by_name(trace: TraceBuilder, by_shape: bool = False) -> dict[str, EventAverage]:
    """Rows by name; those on the device as `device: name`."""
    rows = averaged(trace, by_shape).rows
    named = {("device: " if row.on_device else "") + row.name: row for row in rows}
    assert len(named) == len(rows)
    return named


def cpu(row: EventAverage) -> tuple[int, int, int]:
    """Calls, self and total CPU time in ns."""
    return row.calls, row.self_cpu_ns, row.cpu_total_ns


def device(row: EventAverage) -> tuple[int, int]:
    """Self and total device time in ns."""
    return row.self_device_ns, row.device_total_ns
