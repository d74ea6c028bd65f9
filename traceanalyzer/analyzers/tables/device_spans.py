"""Spans of annotations on the device, which torch before 2.5 adds to the printed total as if they were kernels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from traceanalyzer.analyzers.tables.kinds import MARKS, RowKind, is_device_row
from traceanalyzer.trace.document import TableRow

_ROUNDED = 0.01
"""Share of the total that rounding of the printed rows may make."""
_LITTLE = 0.1
"""Share of the total that rows beyond the last printed one may have if the sum of the others is to be all there is
(own choice)."""
_LIKE = 3
"""Own choice: fewer rows do not show that a table is sorted."""


class DeviceSpans(NamedTuple):
    """Device annotations of one run."""

    are_in_total: bool | None
    """Whether the printed total counts them like kernels; None if it is unknown."""
    to_subtract_ns: int
    """Time in ns that the total has too much because of them, as far as that is certain."""


def find(rows: Sequence[tuple[TableRow, RowKind]], total: int | None) -> DeviceSpans:
    """Find out whether a total includes annotations.

    Args:
        rows: The rows of a run with their kinds.
        total: Self device time of the run in ns, as printed.
    """
    annotations = [row for row, kind in rows if kind is RowKind.ANNOTATION and not row.self_cpu_ns]
    kernels = _sum(row for row, kind in rows if kind in (RowKind.KERNEL, RowKind.COPY))
    are_in_total = _are_in_total(total, kernels, _sum(annotations), [row for row, _ in rows])
    if not are_in_total or not kernels:
        return DeviceSpans(are_in_total, 0)
    on_host = {row.name for row, _ in rows if not is_device_row(row)}
    certain = _sum(row for row in annotations if row.name in on_host or row.name.startswith(MARKS))
    return DeviceSpans(are_in_total, certain)


def _are_in_total(total: int | None, kernels: int, spans: int, rows: Sequence[TableRow]) -> bool | None:
    if not total or not spans:
        return False if total and kernels else None
    if kernels + spans > total * (1 + _ROUNDED):
        return False
    if kernels + spans > total * (1 - _ROUNDED):
        return True
    return True if total - kernels - spans <= _LITTLE * total and _would_need_many(total - kernels, rows) else None


def _would_need_many(rest: int, rows: Sequence[TableRow]) -> bool:
    """Whether a rest needs more rows than are printed, because the table is sorted and its last row is small."""
    times = [row.device_total_ns for row in rows]
    known = [time for time in times if time is not None]
    is_sorted = len(known) == len(times) >= _LIKE and known == sorted(known, reverse=True)
    return is_sorted and rest > len(known) * known[-1]


def _sum(rows: Iterable[TableRow]) -> int:
    return sum(row.self_device_ns or 0 for row in rows)
