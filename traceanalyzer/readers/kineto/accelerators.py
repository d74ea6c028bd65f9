"""Events of devices that write no kernels: which they are, and where they ran.

MTIA's have a separate category. Gaudi writes calls of the host and events of the device as `hpu_op`; those of the
device name the engine, or are in process 0, which is the device. Ascend's have no category but a type of task.

Lists of the legacy profiler (`torch.autograd.profiler`, `EventList.export_chrome_trace`) have no categories at all, but
processes of fixed names: operators on the CPU, and from when to when each ran on the GPU, those inside it included.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import compress
from operator import attrgetter
from typing import Any

import numpy as np

from traceanalyzer.readers.kineto.events import Event
from traceanalyzer.readers.kineto.fields import TableGroup
from traceanalyzer.readers.kineto.values import integers
from traceanalyzer.trace.table import I64, U8, UNKNOWN, Array
from traceanalyzer.trace.tables import Vendor

_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)
LEGACY = _LEGACY_CPU, _LEGACY_GPU = "CPU functions", "CUDA functions"
"""Processes in lists of the legacy profiler."""

_DEVICES = 1024
"""Greater numbers of processes are not devices."""

_PACKED = 31
"""Ascend's writer packs the device into the lowest five bits of the process; small numbers are those of layers."""


def vendor(category: object, pid: object, task_type: object, engine: object) -> Vendor | None:
    """Whose device an event belongs to; None for everything else.

    Args:
        category: Category of the event, as written.
        pid: Its process.
        task_type: Its argument `Task Type`; empty where absent.
        engine: Its argument `HW event name`; empty where absent.
    """
    if not category:
        if pid == _LEGACY_GPU:
            return Vendor.CUDA
        return Vendor.NPU if task_type and isinstance(task_type, str) else None
    match category.lower() if isinstance(category, str) else None:
        case "mtia_ccp_events":
            return Vendor.MTIA
        case "hpu_op" if engine or str(pid) == "0":
            return Vendor.HPU
        case _:
            return None


def group_of(category: object, pid: object, task_type: object, engine: object) -> TableGroup | None:
    """The group of a slice that only its content tells, with the arguments of `vendor`; None for all others."""
    if vendor(category, pid, task_type, engine) is not None:
        return TableGroup.ACCELERATOR
    return TableGroup.HOST if not category and pid == _LEGACY_CPU else None


def told_apart(events: Sequence[Event], groups: Array, unclear: Array) -> Array:
    """The groups of events, where those that only their content tells have theirs: of devices, and in legacy lists."""
    if "X" not in map(attrgetter("ph"), compress(events, unclear.tobytes())):  # most files: instants of the allocator
        return groups
    slices = [row for row in np.flatnonzero(unclear).tolist() if events[row].ph == "X"]
    groups = groups.copy()
    for row in slices:
        if (found := group_of(*_told_by(events[row]))) is not None:
            groups[row] = found
    return groups


def columns(events: Sequence[Event], encode: Callable[[str], int]) -> dict[str, Array]:
    """The columns with kind and place of events of devices.

    Args:
        events: The events.
        encode: Gives texts their codes among the names.
    """
    args = [event.args for event in events]
    vendors: U8 = np.array([vendor(*_told_by(event)) for event in events], np.uint8)
    tasks = [arg.Task_Type or arg.HW_event_name for arg in args]
    pids, tids = (_numbers([getattr(event, key) for event in events]) for key in ("pid", "tid"))
    device, stream = integers([a.device for a in args]), integers([a.stream for a in args])
    is_legacy = vendors == Vendor.CUDA  # these have the device in place of the thread, and no stream
    pids, tids = np.where(is_legacy, tids, pids), np.where(is_legacy, UNKNOWN, tids)
    return {
        "vendor": vendors,
        "task": np.array([encode(str(task or "")) for task in tasks], np.int32),
        "device": np.where(_is_device(device), device, _device(vendors, pids)).astype(np.int32),
        "stream": np.where(stream == UNKNOWN, tids, stream),
        "correlation": integers([a.correlation for a in args]),
    }


def _told_by(event: Event) -> tuple[object, object, object, object]:
    return event.cat, event.pid, event.args.Task_Type, event.args.HW_event_name


def _device(vendors: U8, pids: I64) -> I64:
    """The device that a process stands for."""
    packed = vendors == Vendor.NPU
    is_known = np.where(packed, pids >= _DEVICES, _is_device(pids))
    return np.where(is_known, np.where(packed, pids & _PACKED, pids), UNKNOWN)


def _is_device(numbers: I64) -> Array:
    return (numbers >= 0) & (numbers < _DEVICES)


def _numbers(values: list[Any]) -> I64:
    """Numbers, or what a text says that is one, as in `stream 7`."""
    return np.array([_number(value) for value in values], np.int64)


def _number(value: object) -> int:
    text = str(value).removeprefix("stream ")
    return int(text) if _NUMBER.fullmatch(text) else UNKNOWN
