"""How much memory was allocated on each device after each record?

Every record has the number of bytes that were allocated or freed; most versions also record the totals of the allocator
after it. Totals are used if they can be true. Memory outside of the allocator (shared memory from loader workers) is
recorded with other totals, which are not the allocator's.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.structure.context import Context
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.table import I64, UNKNOWN, Bool

CPU = "CPU"
_HOST_TYPES = (0, 2, 5)
"""CPU, MKLDNN and IDEEP of `c10::DeviceType`; every other known type is an accelerator."""


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
    found = [
        _ledger(context, f"GPU{number}", number, np.flatnonzero(accelerator & (memory.device == number)))
        for number in distinct(memory.device[accelerator]).tolist()
    ]
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
    change, total = memory.bytes[rows], memory.allocated[rows]
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
    levels: I64 = summed + (total[anchors] - summed[anchors])[last]
    return levels
