"""What a program's own host time does not include: waits for the device, start-up, and the profiler's own work."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from traceanalyzer.analyzers.tables.kinds import RowKind, is_sync
from traceanalyzer.structure import host_activity
from traceanalyzer.trace.document import TableRow

_BLOCKING_NS = 100_000
"""Own choice: a call that only starts a copy takes about 10 us; what takes ten times as long waits for it."""
_FIRST_USE_NS = 1_000_000
"""Calls that take this long on average do more than their usual work; the limit is the same as for traces."""

Rows = list[tuple[TableRow, RowKind]]


class HostParts(NamedTuple):
    """Self CPU times in ns; None where no row shows any."""

    waits_ns: int | None
    """Calls that wait for the device, and calls that copy and last."""
    startup_ns: int | None
    """Loading of device code, and allocations and first uses that do not recur."""
    profiler_ns: int | None
    """Work of the profiler itself."""


def divide(rows: Rows, steps: int, *, is_device_known: bool) -> HostParts:
    """Find what a program's host time does not include.

    Args:
        rows: The rows of one run with their kinds.
        steps: Number of steps that they are about.
        is_device_known: Whether the table has device times. Without them, a launch that takes long may as well wait
            because the device has too much to do.
    """
    calls = [row for row, kind in rows if kind is RowKind.RUNTIME]
    overheads = [row for row, kind in rows if kind is RowKind.OVERHEAD]
    loading = _where(overheads, lambda row: host_activity.is_loading_overhead(row.name))
    on_device = (_device_mean(row) for row, kind in rows if kind is not RowKind.ANNOTATION)
    longest = max(on_device, default=0.0) if is_device_known else None
    first = _where(calls, lambda row: _is_first_use(row, steps, longest))
    return HostParts(
        _time(_where(calls, _waits)),
        _time([*loading, *first]),
        _time(_where(overheads, lambda row: not host_activity.is_loading_overhead(row.name))),
    )


def _waits(row: TableRow) -> bool:
    return is_sync(row.name) or ("memcpy" in row.name.lower() and _mean(row) >= _BLOCKING_NS)


def _is_first_use(row: TableRow, steps: int, longest: float | None) -> bool:
    """Whether a call loads, allocates or initializes what is not needed again.

    A call also takes long while the queue of launches is full, but not longer than it takes until a kernel ends.

    Args:
        row: The call.
        steps: Number of steps of the run.
        longest: Greatest mean time of a row on the device in ns; None where device times are unknown.
    """
    if host_activity.is_loading(row.name):
        return True
    if _mean(row) < _FIRST_USE_NS or (steps > 1 and (row.calls or 0) >= steps) or _waits(row):
        return False
    return host_activity.is_allocation(row.name) or (longest is not None and _mean(row) > longest)


def _device_mean(row: TableRow) -> float:
    return (row.self_device_ns or 0) / (row.calls or 1)


def _mean(row: TableRow) -> float:
    return (row.self_cpu_ns or 0) / (row.calls or 1)


def _where(rows: Iterable[TableRow], condition: Callable[[TableRow], bool]) -> list[TableRow]:
    return [row for row in rows if condition(row)]


def _time(rows: Iterable[TableRow]) -> int | None:
    known = [row.self_cpu_ns for row in rows if row.self_cpu_ns is not None]
    return sum(known) if known else None
