"""The totals of a run: as printed below its tables, or from the shares of their rows where a copy lacks them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from traceanalyzer.analyzers.tables.grouping import RunView

_LEAST_SHARE = 0.005
"""Own choice: torch prints shares to 0.01 %, so a total from a smaller share could be wrong by more than 1 %."""


class Totals(NamedTuple):
    """Sums over all events of a profile, in ns; None where they are unknown."""

    cpu_ns: int | None
    device_ns: int | None
    from_shares: bool
    """Whether one of the totals is not printed."""


def of_run(view: RunView) -> Totals:
    """The totals of a run.

    A sum that is negative is unknown, and so are shares of it: some releases print negative self times of ranges that
    end in other calls than they began.
    """
    rows = [row for table in view.tables for row in table.rows]
    cpu, cpu_printed = _total(
        (table.totals.self_cpu_ns for table in view.tables), ((row.self_cpu_ns, row.self_cpu_share) for row in rows)
    )
    device, device_printed = _total(
        (table.totals.self_device_ns for table in view.tables),
        ((row.self_device_ns, row.self_device_share) for row in rows),
    )
    return Totals(cpu, device, not (cpu_printed and device_printed))


def _total(printed: Iterable[int | None], shares: Iterable[tuple[int | None, float | None]]) -> tuple[int | None, bool]:
    """The first printed total, else that of the largest share; and whether it did not have to be calculated."""
    total = next((value for value in printed if value is not None), None)
    if total is not None:
        return (total if total >= 0 else None), True
    known = [(share, time) for time, share in shares if time and share and time > 0 and share >= _LEAST_SHARE]
    if not known:
        return None, True
    share, time = max(known)
    return round(time / share), False
