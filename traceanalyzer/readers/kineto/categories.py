"""Normalizes category names of all years and back ends (`libkineto/include/ActivityType.h`)."""

from __future__ import annotations

from enum import IntEnum

from traceanalyzer.trace.tables import Category


class TableGroup(IntEnum):
    """Tables that events belong to, and events that belong to none."""

    HOST = 0
    LAUNCH = 1
    DEVICE = 2
    ACCELERATOR = 3
    """Events of devices that write no kernels (`accelerators.py`); some are recognized only by their content."""
    GPU_ANNOTATION = 4
    FRAME = 5
    SYNC = 6
    OVERHEAD = 7
    FLOW = 8
    INSTANT = 9
    """No category, or the one of instants: `[memory]` among other things, distinguished by phase and name."""
    IGNORED = 10
    """Understood but not used: flow arrows whose ends share a correlation id, counters, spans."""
    UNKNOWN = 11
    SPAN = 12
    """The profiler's own span, of which only the start is used."""


_OPERATOR, _ANNOTATION = (TableGroup.HOST, Category.OPERATOR), (TableGroup.HOST, Category.ANNOTATION)
_RUNTIME = (TableGroup.LAUNCH, Category.RUNTIME)
_MEMCPY, _MEMSET = (TableGroup.DEVICE, Category.MEMCPY), (TableGroup.DEVICE, Category.MEMSET)
_IGNORED = (TableGroup.IGNORED, None)
_ACCELERATOR = (TableGroup.ACCELERATOR, Category.ACCELERATOR)

CATEGORIES: dict[str, tuple[TableGroup, Category | None]] = {
    "cpu_op": _OPERATOR,
    "operator": _OPERATOR,  # until 2022-04, user ranges included
    "hpu_op": _OPERATOR,  # of the device, too: `accelerators.vendor`
    "user_annotation": _ANNOTATION,
    "python": (TableGroup.HOST, Category.PYTHON),
    "runtime": _RUNTIME,
    "cuda_runtime": _RUNTIME,  # ROCm's hip* calls, too
    "cuda_driver": _RUNTIME,
    "hip_runtime": _RUNTIME,
    "hip_driver": _RUNTIME,
    "glow_runtime": _RUNTIME,
    "mtia_runtime": _RUNTIME,
    "xpu_runtime": _RUNTIME,
    "xpu_driver": _RUNTIME,
    "privateuse1_runtime": _RUNTIME,
    "privateuse1_driver": _RUNTIME,
    "kernel": (TableGroup.DEVICE, Category.KERNEL),
    "memcpy": _MEMCPY,
    "gpu_memcpy": _MEMCPY,
    "memset": _MEMSET,
    "gpu_memset": _MEMSET,
    "mtia_ccp_events": _ACCELERATOR,
    "gpu_user_annotation": (TableGroup.GPU_ANNOTATION, Category.GPU_ANNOTATION),
    "python_function": (TableGroup.FRAME, Category.FRAME),
    "cuda_sync": (TableGroup.SYNC, Category.SYNC),
    "xpu_sync": (TableGroup.SYNC, Category.SYNC),
    "overhead": (TableGroup.OVERHEAD, Category.OVERHEAD),
    "fwdbwd": (TableGroup.FLOW, None),
    "forward_backward": (TableGroup.FLOW, None),  # 2021-11 to 2022-10
    "": (TableGroup.INSTANT, None),
    "cpu_instant_event": (TableGroup.INSTANT, None),
    "memory": (TableGroup.INSTANT, None),
    "ac2g": _IGNORED,
    "async": _IGNORED,
    "async_gpu": _IGNORED,
    "async_cpu_to_gpu": _IGNORED,
    "cpu_to_cuda": _IGNORED,
    "async_npu": _IGNORED,
    "async_task_queue": _IGNORED,
    "hosttodevice": _IGNORED,
    "mtia_counters": _IGNORED,
    "xpu_scope_profiler": _IGNORED,  # counters of kernels, drawn as a track
    "external_correlation": _IGNORED,
    "trace": (TableGroup.SPAN, None),
}

OLD = frozenset({"Operator", "Runtime", "Kernel", "Memcpy", "Memset"})
"""Names that no writer uses since 2022-04 (torch 1.12), in this very case."""

_UNKNOWN = (TableGroup.UNKNOWN, None)


def classify(category: str) -> tuple[TableGroup, Category | None]:
    """The table and the normalized category of a category name, whatever its case."""
    return CATEGORIES.get(category) or CATEGORIES.get(category.lower(), _UNKNOWN)
