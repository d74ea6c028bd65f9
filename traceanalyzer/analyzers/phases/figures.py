"""Times of marks as a report has them: in all and per step, and unknown where they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from traceanalyzer.analyzers.phases.costs import costs
from traceanalyzer.analyzers.phases.rows import Sums
from traceanalyzer.analyzers.phases.windows import windows
from traceanalyzer.structure.context import Context
from traceanalyzer.trace.tree import NO_PARENT

TimesByName = dict[str, Any]
"""The fields of `PhaseTimes` by name."""


class PhaseTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Times of some marks. Inclusive times include the marks inside, self times do not."""

    calls: int
    """Number of marks."""
    recursive_calls: int
    """Number of marks inside another of the same name on the same thread; inclusive times count them once."""
    depth: int
    """Least number of marks around one of them."""
    threads: int
    """Number of threads that have such marks."""
    host_ns: int
    """Duration in ns of the outermost of the marks, on all threads."""
    host_ns_per_step: float | None
    """The same divided by the number of steps; null if steps are unknown."""
    host_self_ns: int
    """Host time in ns without the marks inside."""
    host_self_ns_per_step: float | None
    """The same divided by the number of steps; null if steps are unknown."""
    device_ns: int | None
    """Device time in ns of the work launched inside, each in full, whenever it ran; null if no launch is known."""
    device_ns_per_step: float | None
    """The part that was launched within steps, divided by their number; null if steps are unknown."""
    device_self_ns: int | None
    """Device time in ns of the work launched inside, but in no mark inside; null if no launch is known."""
    device_self_ns_per_step: float | None
    """The part that was launched within steps, divided by their number; null if steps are unknown."""
    idle_ns: int | None
    """Time in ns, within steps, in which no device works while the program is in the mark; null where the mark is not
    on the thread that launches, nor on autograd's for it."""
    idle_ns_per_step: float | None
    """The same divided by the number of steps; null if it is unknown, or there are no steps."""
    idle_self_ns: int | None
    """The part of the idle time in ns that falls into no mark inside; null where it is unknown."""


def figures(context: Context, sums: Sums) -> list[TimesByName]:
    """The times of each group of marks."""
    columns = [column.tolist() for column in msgspec.structs.astuple(sums)]
    steps, on_device = context.once(windows).count, context.once(costs).device_ns > 0
    return [
        times(dict(zip(sums.__struct_fields__, row, strict=True)), steps, on_device=on_device)
        for row in zip(*columns, strict=True)
    ]


def times(row: dict[str, Any], steps: int, *, on_device: bool) -> TimesByName:
    """The fields of `PhaseTimes` from the columns of `Sums`.

    Args:
        row: The values of one group.
        steps: Number of steps to divide by; 0 is unknown.
        on_device: Whether any launch is known.
    """
    device, idle = on_device, row["has_idle"]

    def per_step(value: int, *, known: bool = True) -> float | None:
        return value / steps if known and steps else None

    return {
        "calls": row["calls"],
        "recursive_calls": row["recursive_calls"],
        "depth": row["depth"],
        "threads": row["threads"],
        "host_ns": row["host"],
        "host_ns_per_step": per_step(row["host"]),
        "host_self_ns": row["host_self"],
        "host_self_ns_per_step": per_step(row["host_self"]),
        "device_ns": row["device"] if device else None,
        "device_ns_per_step": per_step(row["device_in_steps"], known=device),
        "device_self_ns": row["device_self"] if device else None,
        "device_self_ns_per_step": per_step(row["device_self_in_steps"], known=device),
        "idle_ns": row["idle"] if idle else None,
        "idle_ns_per_step": per_step(row["idle"], known=idle),
        "idle_self_ns": row["idle_self"] if idle else None,
    }


def most_expensive(
    rows: Sequence[TimesByName], names: Sequence[str], most: int, parents: Sequence[int] | None = None
) -> list[int]:
    """Rows of the most host time first, at most so many; with parents none goes without the one around it."""
    time = [row["host_ns"] for row in rows]
    for row, parent in enumerate(parents or ()):
        if parent != NO_PARENT:
            time[row] = min(time[row], time[parent])
    return sorted(range(len(rows)), key=lambda row: (-time[row], rows[row]["depth"], names[row], row))[:most]
