"""Which memory torch counts for an event: all that was allocated and freed while it ran, on any thread."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from traceanalyzer.trace.table import I64
from traceanalyzer.trace.tables import MemoryEvents

_CPU = (0, 2, 5)
"""c10::DeviceType: CPU, MKLDNN, IDEEP."""
_DEVICES = (1, 6, 12, 20)
"""c10::DeviceType: CUDA, HIP, XPU, PrivateUse1."""


def during(memory: MemoryEvents, start: I64, end: I64) -> tuple[I64, I64]:
    """Bytes on the CPU and on devices that the records from start to end add up to, both included."""
    first = np.searchsorted(memory.start_ns, start, side="left")
    after = np.searchsorted(memory.start_ns, end, side="right")
    on_cpu, on_device = (np.concatenate(([0], np.cumsum(sizes))) for sizes in sizes_by_place(memory))
    return on_cpu[after] - on_cpu[first], on_device[after] - on_device[first]


def sizes_by_place(memory: MemoryEvents) -> tuple[I64, I64]:
    """Bytes of every record as they count for the CPU and for devices."""
    on_cpu, on_device = (np.isin(memory.device_type, types) for types in (_CPU, _DEVICES))
    return memory.bytes * on_cpu, memory.bytes * on_device


def uncovered(memory: MemoryEvents, spans: Iterable[tuple[I64, I64]]) -> I64:
    """Rows of the records that lie in none of the spans (start and end, both included)."""
    change = np.zeros(len(memory) + 1, np.int64)
    if len(memory):
        for start, end in spans:
            np.add.at(change, np.searchsorted(memory.start_ns, start, side="left"), 1)
            np.add.at(change, np.searchsorted(memory.start_ns, end, side="right"), -1)
    return np.flatnonzero(np.cumsum(change[:-1]) == 0)
