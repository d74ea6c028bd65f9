"""Owners of built traces, as short as tests need them."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers import host
from traceanalyzer.analyzers.host import HostOwner, HostOwners
from traceanalyzer.structure.context import Context


def owners_of(trace: TraceBuilder) -> HostOwners:
    return host.analyze(Context(read_built(trace)))


def by_name(found: HostOwners) -> dict[str, HostOwner]:
    rows = {row.name: row for row in found.rows}
    assert len(rows) == len(found.rows), "an owner occurs twice"
    return rows


def self_us(found: HostOwners) -> dict[str, float]:
    """Exclusive host time of each owner in microseconds, those without any left out."""
    return {name: row.host_self_ns / 1000 for name, row in by_name(found).items() if row.host_self_ns}


def assert_adds_up(found: HostOwners) -> None:
    """Exclusive times of all owners add up to the time of the steps, to the nanosecond."""
    rows = (*found.rows, found.hidden, found.unowned)
    assert sum(row.host_self_ns for row in rows) == found.time_ns
    assert sum(row.idle_self_ns or 0 for row in rows) == (found.idle_ns or 0)
    assert sum(row.device_self_ns or 0 for row in rows) == (found.device_ns or 0)
    for row in rows:
        assert 0 <= row.host_self_ns <= row.host_ns
        assert 0 <= (row.idle_self_ns or 0) <= row.host_self_ns
        assert (row.idle_self_ns or 0) <= (row.idle_ns or 0) <= row.host_ns
        assert 0 <= (row.device_self_ns or 0) <= (row.device_ns or 0)
        assert 0 <= row.waiting_self_ns <= row.host_self_ns
