"""What is copied and filled, how fast, and which copies do the host or the device wait for?"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from traceanalyzer.report.message import Text
from traceanalyzer.structure import host_activity, host_waits
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.context import Context, device_events_in_scope
from traceanalyzer.structure.events import EventSet
from traceanalyzer.structure.sums import count_by, members, rows_by, sum_by
from traceanalyzer.trace.distinct import ranked, stable_order
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, Bool
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

_SMALL_BYTES = 65_536
"""The driver stages smaller copies itself, so pinning their memory gains nothing (CUDA's documented 64 KB)."""


class Copy(msgspec.Struct, frozen=True):
    """All copies or fills of one name that start in the chosen steps, or in the whole trace."""

    name: str
    """Name of the copy or fill as recorded."""
    kind: str
    """Direction of the copy (`HtoD`, `DtoH`, `DtoD`, `PtoP`, ...), `Memset` for a fill, or `unknown` where the name
    does not show it."""
    host_memory: str | None
    """Memory on the side of the host: `pageable` or `pinned`; null if the trace does not show it (ROCm), or the copy
    does not involve host memory."""
    calls: int
    """Number of copies or fills."""
    small_calls: int
    """Number of copies of less than 64 KiB, without copies of unknown size."""
    bytes: int | None
    """Bytes of all copies whose size is recorded; null where no size was recorded."""
    time_ns: int
    """Sum of the durations on the device in ns."""
    bandwidth_gb_per_s: float | None
    """Bytes over time of the copies whose size is known, in 10^9 bytes per second; null if there are none or they
    took no time."""
    max_bandwidth_gb_per_s: float | None
    """Bandwidth of the fastest copy of 64 KiB or more, in 10^9 bytes per second; null if there is none."""
    unlinked_calls: int
    """Number of copies whose launch is not in the trace."""
    blocking_calls: int | None
    """Number of copies whose call blocked the host until the copy had ended; null where no launch is in the trace."""
    blocking_ns: int | None
    """Duration of these blocking calls on the host, in ns; null where no launch is in the trace."""
    synchronized_calls: int | None
    """Number of other copies whose call is directly followed by a synchronization on the same thread; null where no
    launch is in the trace."""
    synchronized_ns: int | None
    """Duration of these synchronizations in ns; null where no launch is in the trace."""
    avoidable_ns: int | None
    """By how many ns all steps together could get shorter if the host waited for none of these copies; null where no
    launch is in the trace."""
    exposed_ns: int
    """Time of these copies in which no kernel runs on their device, in ns."""
    overlapped_ns: int
    """Time of these copies in which some kernel runs on their device, in ns; with `exposed_ns` it sums to `time_ns`."""

    @property
    def events(self) -> EventSet:
        """The copies as a set of events."""
        return EventSet.copies(self.name)


class Copies(msgspec.Struct, frozen=True):
    """Copies and fills, those that took most time first."""

    rows: tuple[Copy, ...]
    """Copies and fills by name, the most time first."""
    calls: int
    """Number of all copies and fills."""
    time_ns: int
    """Sum of the durations of all copies and fills, in ns."""
    exposed_ns: int
    """Part of that time in which no kernel runs on the same device, in ns."""
    overlapped_ns: int
    """Part of that time in which some kernel runs on the same device, in ns."""


def analyze(context: Context) -> Copies:
    """Copies and fills that start in the chosen steps, or all."""
    device = context.trace.device
    rows = np.flatnonzero(_is_transfer(context) & device_events_in_scope(context))
    overlapped = _overlapped(context, rows)
    found = _rows(context, rows, overlapped) if len(rows) else ()
    time = int(device.dur_ns[rows].sum())
    return Copies(found, len(rows), time, time - int(overlapped.sum()), int(overlapped.sum()))


def _is_transfer(context: Context) -> Bool:
    category = context.trace.device.category
    is_transfer: Bool = (category == Category.MEMCPY) | (category == Category.MEMSET)
    return is_transfer


def _overlapped(context: Context, rows: I64) -> I64:
    """For each copy, the time in which some kernel runs on its device."""
    device = context.trace.device
    overlapped = np.zeros(len(rows), np.int64)
    every = np.flatnonzero(device.category == Category.KERNEL)
    kernels_of = rows_by(device.device[every])
    for number, of_device in members(device.device[rows]):
        kernels = every[kernels_of(number)]
        running = Intervals.union(device.start_ns[kernels], device.end_ns[kernels])
        copies = rows[of_device]
        overlapped[of_device] = running.within(device.start_ns[copies], device.end_ns[copies])
    return overlapped


def _rows(context: Context, rows: I64, overlapped: I64) -> tuple[Copy, ...]:
    device = context.trace.device
    # A name and whether it is a fill make a row; the last bit of the key says whether it is one.
    key = device.name[rows].astype(np.int64) * 2 + (device.category[rows] == Category.MEMSET)
    keys, groups = ranked(key)
    columns = _columns(context, rows, overlapped, groups, len(keys))
    of_host = _host_columns(context, rows, groups, len(keys))
    sizes = _size_columns(device.bytes[rows], device.dur_ns[rows], groups, len(keys))
    copies = []
    for number, code in enumerate(keys.tolist()):
        figures: dict[str, Any] = {field: int(values[number]) for field, values in (columns | of_host).items()}
        if figures["unlinked_calls"] == figures["calls"]:
            figures |= dict.fromkeys(of_host)
        figures |= {field: values[number] for field, values in sizes.items()}
        copies.append(_copy(context.trace.names[code >> 1], figures, is_fill=bool(code & 1)))
    return tuple(sorted(copies, key=lambda row: (-row.time_ns, row.name, row.kind)))


def _copy(name: str, figures: dict[str, Any], *, is_fill: bool) -> Copy:
    kind = "Memset" if is_fill else host_activity.direction(name) or "unknown"
    host_memory = None if is_fill else host_activity.host_side(name)
    return Copy(name=name, kind=kind, host_memory=host_memory, **figures)


def _columns(context: Context, rows: I64, overlapped: I64, groups: I64, count: int) -> dict[str, I64]:
    """By field: calls of each group and their times on the device."""
    dur = context.trace.device.dur_ns[rows]
    return {
        "calls": count_by(groups, count),
        "time_ns": sum_by(groups, dur, count),
        "unlinked_calls": count_by(groups[context.links.launch[rows] == NO_PARENT], count),
        "exposed_ns": sum_by(groups, dur - overlapped, count),
        "overlapped_ns": sum_by(groups, overlapped, count),
    }


def _host_columns(context: Context, rows: I64, groups: I64, count: int) -> dict[str, I64]:
    """By field: calls that wait for a copy of each group, in the copy itself or in the next call, and their time."""
    launch = context.links.launch[rows]
    blocking = context.cached(host_activity.blocking_copies)[rows]
    synchronization = np.where(blocking, NO_PARENT, _synchronization_after(context, launch))
    call_ns = np.append(context.trace.launches.dur_ns, 0)
    return {
        "blocking_calls": count_by(groups[blocking], count),
        "blocking_ns": sum_by(groups[blocking], call_ns[launch[blocking]], count),
        "synchronized_calls": count_by(groups[synchronization != NO_PARENT], count),
        "synchronized_ns": sum_by(groups, call_ns[synchronization], count),
        "avoidable_ns": sum_by(groups, _avoidable(context, np.where(blocking, launch, synchronization)), count),
    }


def _size_columns(size: I64, dur: I64, groups: I64, count: int) -> dict[str, list[Any]]:
    """By field: the bytes that the copies of each group move, of those whose size is known, and how fast."""
    known = size >= 0
    big = size >= _SMALL_BYTES
    sized = count_by(groups[known], count).tolist()
    moved = sum_by(groups[known], size[known], count).tolist()
    moving_ns = sum_by(groups[known], dur[known], count).tolist()
    return {
        "small_calls": count_by(groups[known & ~big], count).tolist(),
        "bytes": [total if calls else None for total, calls in zip(moved, sized, strict=True)],
        "bandwidth_gb_per_s": [total / time if time else None for total, time in zip(moved, moving_ns, strict=True)],
        "max_bandwidth_gb_per_s": _fastest(groups[big], size[big], dur[big], count),
    }


def _fastest(groups: I64, size: I64, dur: I64, count: int) -> list[float | None]:
    """The greatest bandwidth of each group, in bytes per nanosecond."""
    fastest = np.zeros(count)
    np.maximum.at(fastest, groups, np.where(dur > 0, size / np.maximum(dur, 1), 0))
    return [value or None for value in fastest.tolist()]


def _avoidable(context: Context, wait: I64) -> I64:
    """For each call that waits for a copy, the time in ns saved without the wait; 0 for no call (-1)."""
    costs = context.cached(host_waits.costs)
    avoidable = np.zeros(len(context.trace.launches) + 1, np.int64)
    if costs is not None:
        avoidable[context.cached(host_activity.waits).row] = costs[:, host_waits.AVOIDABLE]
    return avoidable[wait]


def _synchronization_after(context: Context, launch: I64) -> I64:
    """For each launch, the synchronization if that is the next call on its thread; otherwise -1."""
    launches = context.trace.launches
    order = stable_order(launches.thread)  # then by start, because rows are in that order
    following = np.full(len(launches) + 1, NO_PARENT, np.int64)
    same = launches.thread[order[1:]] == launches.thread[order[:-1]]
    following[order[:-1][same]] = order[1:][same]
    waits = np.append(context.trace.names.where(host_activity.is_synchronization)[launches.name], False)
    found = following[launch]
    return np.where(waits[found], found, NO_PARENT)


_COPIES = Need(
    Text("skip-no-copies", "the trace has no copies or fills on a device"),
    lambda context: _is_transfer(context).any(),
)
ANALYSES = (Analysis(180, "copies", Copies, analyze, needs=(_COPIES,), is_of_steps=True),)
