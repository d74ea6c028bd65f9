"""How long does a kernel wait between the end of its launch call and its start?"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.structure.context import Context
from traceanalyzer.structure.sums import count_by, sum_by
from traceanalyzer.trace.distinct import ranked
from traceanalyzer.trace.table import F64, I64


class Delay(msgspec.Struct, frozen=True):
    """Time between the end of launch calls and the start of their kernels; 0 where the kernel started earlier."""

    median_ns: float
    """Median delay in ns."""
    p95_ns: int
    """The least delay in ns that 95 % of the launches do not exceed."""
    max_ns: int
    """Longest delay in ns."""
    total_ns: int
    """Sum of all delays in ns; delays of several kernels overlap."""


class KernelDelay(msgspec.Struct, frozen=True):
    """Launch delays of one kernel, by name."""

    name: str
    """Name of the kernel as recorded, template arguments included."""
    calls: int
    """Number of launches of the kernel by itself, not by a graph."""
    median_ns: float
    """Median delay in ns."""
    p95_ns: int
    """The least delay in ns that 95 % of the launches do not exceed."""
    max_ns: int
    """Longest delay in ns."""
    total_ns: int
    """Sum of its delays in ns."""
    shorter_than_launch: int
    """Number of launches whose call took longer than the kernel."""


def overall(context: Context, rows: I64) -> Delay | None:
    """The delays of some device events that have a launch; None for none."""
    if not len(rows):
        return None
    delay = np.sort(_delays(context, rows))
    first, count = np.array([0]), np.array([len(delay)])
    median, p95 = float(_median(delay, first, count)[0]), int(_p95(delay, first, count)[0])
    return Delay(median, p95, int(delay[-1]), int(delay.sum()))


def by_kernel(context: Context, rows: I64) -> tuple[KernelDelay, ...]:
    """The delays by name, the greatest sum first."""
    if not len(rows):
        return ()
    device, launches = context.trace.device, context.trace.launches
    codes, group = ranked(device.name[rows])
    delay = _delays(context, rows)
    short = device.dur_ns[rows] < launches.dur_ns[context.links.launch[rows]]
    count = count_by(group, len(codes))
    first = np.cumsum(count) - count
    ordered = delay[np.lexsort((delay, group))]
    columns = (
        count,
        _median(ordered, first, count),
        _p95(ordered, first, count),
        ordered[first + count - 1],
        sum_by(group, delay, len(codes)),
        count_by(group[short], len(codes)),
    )
    names = [context.trace.names[code] for code in codes.tolist()]
    found = [
        KernelDelay(name, *values)
        for name, *values in zip(names, *(column.tolist() for column in columns), strict=True)
    ]
    return tuple(sorted(found, key=lambda row: (-row.total_ns, row.name)))


def _delays(context: Context, rows: I64) -> I64:
    launches, launch = context.trace.launches, context.links.launch[rows]
    called = launches.start_ns[launch] + launches.dur_ns[launch]
    delay: I64 = np.maximum(context.trace.device.start_ns[rows] - called, 0)
    return delay


def _median(ordered: I64, first: I64, count: I64) -> F64:
    """The median of each run of ascending values."""
    median: F64 = (ordered[first + (count - 1) // 2] + ordered[first + count // 2]) / 2
    return median


def _p95(ordered: I64, first: I64, count: I64) -> I64:
    """The least value of each run of ascending values that 95 % of the run do not exceed."""
    p95: I64 = ordered[first + (95 * count + 99) // 100 - 1]
    return p95
