"""How much memory was allocated on each device after each record, over time, and by each step?

Every record has the number of bytes that were allocated or freed; most versions also record the totals of the allocator
after it. Totals are used if they can be true. Memory outside of the allocator (shared memory from loader workers) is
recorded with other totals, which are not the allocator's.
"""

from __future__ import annotations

from math import fsum

import msgspec
import numpy as np

from traceanalyzer.knowledge.marks import step_number
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.steps import Steps
from traceanalyzer.structure.sums import members
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.table import I64, UNKNOWN, Bool

CPU = "CPU"
_HOST_TYPES = (0, 2, 5)
"""CPU, MKLDNN and IDEEP of `c10::DeviceType`; every other known type is an accelerator."""
POINTS = 512
"""Most points of a curve: enough for one per pixel column of a chart (own choice)."""


class Ledger(msgspec.Struct, frozen=True):
    """The records of one device in the order of time."""

    device: str
    """`CPU`, or `GPU` and the id of the device."""
    number: int
    """Id of the device; -1 for the CPU."""
    rows: I64
    """Rows of the table of memory events."""
    time_ns: I64
    change_bytes: I64
    """Bytes allocated (positive) or freed (negative)."""
    level_bytes: I64
    """Allocated after each record; from an unknown start where `is_relative`."""
    is_relative: bool
    """No record has a total that can be true, so levels count from the start of the trace."""
    is_foreign: Bool
    """Records of memory that the allocator does not manage; they do not change the level."""
    reserved_bytes: I64
    """Held by the caching allocator after each record; -1 if the trace does not show it."""


def ledgers(context: Context) -> tuple[Ledger, ...]:
    """One ledger per device that has records: accelerators by id, then the CPU."""
    memory = context.trace.memory
    host = np.isin(memory.device_type, _HOST_TYPES)
    accelerator = (memory.device_type != UNKNOWN) & ~host & (memory.device >= 0)
    rows = np.flatnonzero(accelerator)
    found = [_ledger(context, f"GPU{number}", number, rows[own]) for number, own in members(memory.device[rows])]
    if host.any():
        found.append(_ledger(context, CPU, UNKNOWN, np.flatnonzero(host)))
    return tuple(found)


def without_device(context: Context) -> int:
    """How many records name no device."""
    memory = context.trace.memory
    host = np.isin(memory.device_type, _HOST_TYPES)
    return int(((memory.device_type == UNKNOWN) | (~host & (memory.device < 0))).sum())


def _ledger(context: Context, device: str, number: int, rows: I64) -> Ledger:
    memory = context.trace.memory
    change = memory.bytes[rows]
    total = memory.allocated[rows]
    is_true, is_foreign = judge_totals(change, total)
    reserved = memory.reserved[rows]
    if device == CPU:
        reserved = np.full(len(rows), UNKNOWN, np.int64)
    else:
        possible = (reserved > 0) & (reserved >= total)
        reserved = np.where(possible, reserved, UNKNOWN)
    return Ledger(
        device=device,
        number=number,
        rows=rows,
        time_ns=memory.start_ns[rows],
        change_bytes=change,
        level_bytes=_levels(np.where(is_foreign, 0, change), total, is_true),
        is_relative=not is_true.any(),
        is_foreign=is_foreign,
        reserved_bytes=reserved,
    )


def judge_totals(change: I64, total: I64) -> tuple[Bool, Bool]:
    """Which records have a total that can be the allocator's, and which are of memory outside the allocator.

    After an allocation of n bytes the total is at least n; a smaller value is not a total, and the memory is not the
    allocator's. Freeing such memory is recorded with a total of 0, which is accepted only if the next valid total also
    started from 0.

    Args:
        change: Bytes allocated or freed by each record of a device, in the order of time.
        total: Recorded total in bytes after each record; -1 if it is not recorded.
    """
    known = total != UNKNOWN
    impossible = known & (change > 0) & (total < change)
    emptied = known & (change < 0) & (total == 0)
    firm = known & ~impossible & ~emptied
    if not firm.any():
        # Either only releases down to 0, or a version that writes 0 because it has no totals.
        believed = emptied & (not impossible.any())
        return believed, np.zeros(len(change), np.bool_)
    anchors = np.flatnonzero(firm)
    following = np.searchsorted(anchors, np.arange(len(change)), side="right")
    anchor = anchors[np.minimum(following, len(anchors) - 1)]
    contradicted = emptied & (following < len(anchors)) & (total[anchor] != change[anchor])
    foreign: Bool = impossible | contradicted
    return known & ~foreign, foreign


def _levels(change: I64, total: I64, is_true: Bool) -> I64:
    """The totals where they are true; between them, the changes since the last one (until the first one)."""
    summed = np.cumsum(change)
    anchors = np.flatnonzero(is_true)
    if not len(anchors):
        return summed
    last = np.maximum(np.searchsorted(anchors, np.arange(len(change)), side="right") - 1, 0)
    return summed + (total[anchors] - summed[anchors])[last]


class Curve(msgspec.Struct, frozen=True):
    """A step function: each level holds from its time until the next one."""

    time_ns: tuple[int, ...]
    """Times at which the level changes, in ns since the first event, ascending."""
    level_bytes: tuple[int, ...]
    """The level in bytes from each of these times on."""


def curve(time_ns: I64, level_bytes: I64, points: int = POINTS) -> Curve:
    """The curve in at most this many points.

    The time is cut into buckets of equal length; the lowest and the highest level of each stay, where they
    occurred, and the first and the last of all. Levels that repeat their predecessor are not points.

    Args:
        time_ns: Times in ascending order.
        level_bytes: The level from each time on.
        points: At least 4.
    """
    rows = curve_rows(time_ns, level_bytes, points)
    return Curve(tuple(time_ns[rows].tolist()), tuple(level_bytes[rows].tolist()))


def curve_rows(time_ns: I64, level_bytes: I64, points: int = POINTS) -> I64:
    """The positions of the points of a curve, as of `curve`."""
    if not len(time_ns):
        return np.zeros(0, np.int64)
    shown = np.append(True, np.diff(level_bytes) != 0)
    shown[-1] = True
    rows: I64 = np.flatnonzero(shown)
    if len(rows) > points:
        rows = rows[_extremes(time_ns[rows], level_bytes[rows], (points - 2) // 2)]
    return rows


def _extremes(time: I64, level: I64, buckets: int) -> I64:
    """First and last row, and those with the lowest and the highest level of each bucket."""
    span = int(time[-1] - time[0]) + 1
    bucket = np.minimum((time - time[0]) / span * buckets, buckets - 1).astype(np.int64)
    order = np.lexsort((level, bucket))
    ends = np.flatnonzero(np.append(np.diff(bucket[order]), 1))
    starts = np.append(0, ends[:-1] + 1)
    return distinct(np.concatenate(([0, len(time) - 1], order[starts], order[ends])))


class StepMemory(msgspec.Struct, frozen=True):
    """What one step did to the memory of one device."""

    name: str
    """Number of the step as the profiler counted it; counted from 0 where it marked none."""
    allocations: int
    """Number of allocations in the step."""
    allocated_bytes: int
    """Bytes taken in the step, whether given back or not: the churn of the allocator."""
    frees: int
    """Number of releases in the step."""
    freed_bytes: int
    """Bytes given back in the step."""
    peak_bytes: int
    """Highest level in the step in bytes, the level at its start included."""
    end_bytes: int
    """Level at the end of the step in bytes."""


def host_steps(context: Context) -> Steps:
    """The steps as the host saw them: marked ranges, else inferred ones, else the whole trace.

    Memory is taken and given back by the host, which runs ahead of the device; the steps of the breakdown last
    until the device is done and would count what belongs to the next step.
    """
    steps = context.steps
    if steps.found_by != "ProfilerStep":
        return context.inferred_steps or steps
    host, names = context.trace.host, context.trace.names
    marked: dict[str, list[int]] = {}
    for row in np.flatnonzero(context.kind == NodeKind.STEP).tolist():
        marked.setdefault(str(step_number(names[host.name[row]])), []).append(row)
    rows = []
    for name, start in zip(steps.names, steps.start_ns.tolist(), strict=True):
        before = [row for row in marked[name] if host.start_ns[row] <= start]  # steps start at their mark or later
        rows.append((before or marked[name])[-1])
    start_ns = host.start_ns[rows]
    return Steps(steps.names, start_ns, start_ns + host.dur_ns[rows], steps.found_by)


def by_step(ledger: Ledger, steps: Steps) -> tuple[StepMemory, ...]:
    """One row per step."""
    if not len(steps):
        return ()
    low = np.searchsorted(ledger.time_ns, steps.start_ns, side="left")
    high = np.maximum(np.searchsorted(ledger.time_ns, steps.end_ns, side="left"), low)
    change = ledger.change_bytes
    is_taken = change > 0
    # levels[i] is the level before record i, so that a step sees the level at its start
    before = ledger.level_bytes[:1] - np.where(ledger.is_foreign, 0, change)[:1]
    levels = np.concatenate((before, ledger.level_bytes))
    columns = (
        _between(is_taken.astype(np.int64), low, high),
        _between(np.where(is_taken, change, 0), low, high),
        _between((change < 0).astype(np.int64), low, high),
        _between(np.where(is_taken, 0, -change), low, high),
        [int(levels[first : last + 1].max()) for first, last in zip(low, high, strict=True)],
        levels[high],
    )
    figures = np.column_stack(columns).tolist()
    return tuple(StepMemory(name, *of_step) for name, of_step in zip(steps.names, figures, strict=True))


def growth(rows: tuple[StepMemory, ...]) -> float | None:
    """Slope of the least-squares line through the levels at the ends of the steps, in bytes per step."""
    if len(rows) < 2:
        return None
    ends = [row.end_bytes for row in rows]
    middle = (len(rows) - 1) / 2
    mean = sum(ends) / len(rows)
    spread = fsum((i - middle) ** 2 for i in range(len(rows)))
    return fsum((i - middle) * (end - mean) for i, end in enumerate(ends)) / spread


def _between(values: I64, low: I64, high: I64) -> I64:
    summed = np.concatenate(([0], np.cumsum(values)))
    return summed[high] - summed[low]
