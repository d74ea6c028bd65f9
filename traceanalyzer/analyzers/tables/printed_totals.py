"""The totals of a run: as printed below its tables, or from the shares of their rows where a copy lacks them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from traceanalyzer.analyzers.tables.grouping import RunView
from traceanalyzer.trace.document import TableRow

_LEAST_SHARE = 0.005
"""Own choice: torch prints shares to 0.01 %, so a total from a smaller share could be wrong by more than 1 %."""


_ROUNDED = 1.01
"""By what rounding may make one call longer than the sum (own choice)."""


class Totals(NamedTuple):
    """Sums over all events of a profile, in ns; None where they are unknown."""

    cpu_ns: int | None
    device_ns: int | None
    from_shares: bool
    """Whether one of the totals is not printed."""
    cannot_be: bool
    """Whether the printed sum of the host's times is negative, or less than what one call took."""


def of_run(view: RunView) -> Totals:
    """The totals of a run.

    A sum that is negative, or that one call exceeds, is unknown, and so are shares of it: some releases print negative
    self times of ranges that end in other calls than they began.
    """
    rows = [row for table in view.tables for row in table.rows]
    cpu, cpu_printed = _total(
        (table.totals.self_cpu_ns for table in view.tables), ((row.self_cpu_ns, row.self_cpu_share) for row in rows)
    )
    device, device_printed = _total(
        (table.totals.self_device_ns for table in view.tables),
        ((row.self_device_ns, row.self_device_share) for row in rows),
    )
    cannot_be = cpu is not None and (cpu < 0 or any(_one_call(row) > _ROUNDED * cpu for row in rows))
    device = None if device is not None and device < 0 else device
    return Totals(None if cannot_be else cpu, device, not (cpu_printed and device_printed), cannot_be)


def _one_call(row: TableRow) -> float:
    """Mean CPU time of a call in ns, of which at least one was as long; 0 if it is unknown."""
    return 0.0 if row.cpu_total_ns is None else row.cpu_total_ns / (row.calls or 1)


def _total(printed: Iterable[int | None], shares: Iterable[tuple[int | None, float | None]]) -> tuple[int | None, bool]:
    """The first printed total, else that of the largest share; and whether it did not have to be calculated."""
    total = next((value for value in printed if value is not None), None)
    if total is not None:
        return total, True
    known = [(share, time) for time, share in shares if time and share and time > 0 and share >= _LEAST_SHARE]
    if not known:
        return None, True
    share, time = max(known)
    return round(time / share), False
