"""Classifies events of devices that write no kernels: work, transfers, waiting.

Sources: Kineto's `ActivityType.h` for MTIA and HPU; Ascend's profiler, whose `trace_view.json` has no categories for
device events but a `Task Type` (the names of its task scheduler); Gaudi's, which names the engine in `HW event name`.
Intel's XPU needs no table: its plug-in writes `kernel`, `gpu_memcpy` and `gpu_memset` as CUDA's does.
"""

from __future__ import annotations

import re
from enum import StrEnum

from traceanalyzer.trace.tables import Vendor

NAMES = {Vendor.MTIA: "MTIA", Vendor.NPU: "NPU", Vendor.HPU: "HPU", Vendor.CUDA: "CUDA"}
"""Device type names by vendor, as torch and process labels write them."""


class TaskKind(StrEnum):
    """What a device does during an event."""

    WORK = "work"
    COMMUNICATION = "communication"
    TRANSFER = "transfer"
    WAITING = "waiting"
    """A queue waits for an event of another queue or of the host; the device does no work for it."""
    CONTROL = "control"
    """Bookkeeping of a queue, or a range around tasks that have separate events."""


BUSY = (TaskKind.WORK, TaskKind.COMMUNICATION, TaskKind.TRANSFER)
"""Kinds that keep a device busy."""

_NOT_WORK = (
    (
        TaskKind.CONTROL,
        re.compile(
            r"(event|notify)_(record|reset)\w*|capture_(record|wait)\w*|write_value\w*|mem_write_value|place_?holder\w*"
            r"|condition_sqe|end_sqe|model_(execute|maintaince|maintenance|end_graph|to_aicpu)\w*|stream_\w+|label_\w+"
            r"|profiler_\w+|profiling_\w+|maintenance|create_\w+|nop",
            re.IGNORECASE,
        ),
    ),
    (TaskKind.COMMUNICATION, re.compile(r"rocce\w*|rdma\w*|hccl|communication|hcom_\w*", re.IGNORECASE)),
    (TaskKind.TRANSFER, re.compile(r"memcpy\w*|memset\w*|(pcie_)?s?dma\w*", re.IGNORECASE)),
)
_ENGINES = (
    (TaskKind.WORK, re.compile(r"TPC|MME")),
    (TaskKind.TRANSFER, re.compile(r"DMA")),
    (TaskKind.COMMUNICATION, re.compile(r"NIC|STM_[0-9]_(RX|TX|QPC)")),
)


def task_kind(vendor: Vendor, name: str, task: str) -> TaskKind:
    """The kind of a device event. Unknown events count as work, because programs name their own kernels.

    Args:
        vendor: Vendor of the device.
        name: Name of the event.
        task: The task type or engine as recorded; empty if not recorded.
    """
    if vendor is Vendor.CUDA:
        return TaskKind.WORK  # names of operators
    if vendor is Vendor.HPU and task:
        return next((kind for kind, engine in _ENGINES if engine.search(task.upper())), TaskKind.WORK)
    known = kind_by_name(task or name)
    return kind_by_name(name) if known is TaskKind.WORK and name.startswith("hcom_") else known


def kind_by_name(name: str) -> TaskKind:
    """The kind of a device event of which only the name or the task type is known."""
    if "WAIT" in name.upper().split("_"):
        return TaskKind.WAITING
    return next((kind for kind, pattern in _NOT_WORK if pattern.fullmatch(name)), TaskKind.WORK)
