"""The fields of the trace format that are read: which events have them, and which columns they fill.

`libkineto/include/ActivityType.h` names the categories of events; all years and back ends have other names, which are
normalized here. A column that one argument of events fills is declared with it in `trace/tables.py`; all else is listed
here. The types of events (`events`), how they become columns (`columns`), and what the compiled scan reads (`scanning`)
follow from these tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum
from functools import cache, cached_property
from typing import Any

import msgspec

from traceanalyzer.trace.model import (
    NO_COLLECTIVE,
    NO_DETAIL,
    NO_SOURCE,
    Collective,
    DeviceDetail,
    KernelSource,
)
from traceanalyzer.trace.table import UNKNOWN, Table, TraceColumn
from traceanalyzer.trace.tables import (
    AcceleratorEvents,
    Category,
    Counters,
    Dependencies,
    DeviceEvents,
    Flows,
    Frames,
    GpuAnnotations,
    GraphNodes,
    HostEvents,
    Launches,
    MemoryEvents,
    Overheads,
    Syncs,
)


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
    GRAPH_NODE = 8
    FLOW = 9
    INSTANT = 10
    """No category, or the one of instants: `[memory]` among other things, distinguished by phase and name."""
    IGNORED = 11
    """Understood but not used: flow arrows whose ends share a correlation id, counters, spans."""
    UNKNOWN = 12
    SPAN = 13
    """The profiler's own span, of which only the start is used."""
    ARROW = 14
    """Arrows from launches to the device, which are not used, and those between nodes of graphs."""
    COUNTER = 15
    """Samples of a GPU: events of the phase `C` without a category."""


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
    "graph_event_node": (TableGroup.GRAPH_NODE, None),  # records of events inside graphs, of the monitor of CUPTI
    "graph_host_node": (TableGroup.GRAPH_NODE, None),  # callbacks inside graphs, during which their stream waits
    "fwdbwd": (TableGroup.FLOW, None),
    "forward_backward": (TableGroup.FLOW, None),  # 2021-11 to 2022-10
    "": (TableGroup.INSTANT, None),
    "cpu_instant_event": (TableGroup.INSTANT, None),
    "memory": (TableGroup.INSTANT, None),
    "ac2g": (TableGroup.ARROW, None),
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

BY_CONTENT = frozenset({"", "hpu_op"})
"""Categories of which some events are those of devices that write no kernels, which only their content tells."""

OLD = frozenset({"Operator", "Runtime", "Kernel", "Memcpy", "Memset"})
"""Names that no writer uses since 2022-04 (torch 1.12), in this very case."""

_UNKNOWN = (TableGroup.UNKNOWN, None)


def classify(category: str) -> tuple[TableGroup, Category | None]:
    """The table and the normalized category of a category name, whatever its case."""
    return CATEGORIES.get(category) or CATEGORIES.get(category.lower(), _UNKNOWN)


class Kind(IntEnum):
    """What a field is made into; the numbers are those of `_scan.c`, which explains them."""

    INTEGER = 0
    SMALL = 1
    NUMBER = 2
    TIME = 3
    DURATION = 4
    TEXT = 5
    STRING = 6
    NAMED = 7
    PAIR = 8
    SECOND = 9
    WHOLE = 10
    CATEGORY = 11
    REQUIRED = 12
    BEYOND = 13
    SPREAD = 14


class Field(msgspec.Struct, frozen=True):
    """A value of an event, and the column that it fills."""

    column: str
    """Name of the column; empty for what is only looked at."""
    key: str
    """Its name in the file; empty for what is not written as one value."""
    kind: Kind
    is_argument: bool = False
    """It is one of the event's arguments."""
    pool: str = ""
    """The pool of a `Collector` that turns its values into codes; empty for numbers."""
    missing: int = UNKNOWN
    """The value of events that do not have it, if it is an integer; the least value, if events without are not read."""
    older: str = ""
    """The name that earlier writers gave it; an event has one of the two."""
    allowed: tuple[str, ...] = ()
    """The values that events of the table may have, if it is required."""

    @property
    def none(self) -> int:
        """What stands in the column for a missing integer or text."""
        return 0 if self.kind is Kind.TEXT else self.missing


class EventTable(msgspec.Struct, frozen=True, dict=True):
    """The table that events of a group become rows of."""

    name: str
    """The field of `Trace` that holds it."""
    table: type[Table]
    required: tuple[Field, ...] = ()
    """What tells its events from others of their categories."""

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """What is read of its events, in the order of the columns."""
        return (*self.required, *(field for column in self.table.columns() for field in _fields(column)))

    @cached_property
    def arguments(self) -> tuple[Field, ...]:
        """Those of its fields that are arguments of events."""
        return tuple(field for field in self.fields if field.is_argument)


class Description(msgspec.Struct, frozen=True):
    """Arguments that describe one thing together; most events describe none."""

    described: type[Any]
    """The type that is made of their values, in the order of `defaults`."""
    none: Any
    """What events describe that have none of the arguments."""
    defaults: dict[str, str | None]
    """By argument the value where it is missing: "" for texts, None for counts."""
    told_by: tuple[str, ...]
    """The arguments of which one is enough to describe it."""
    told_with: tuple[str, ...] = ()
    """Two arguments; of events where one of them is not 0, arguments that no writer has (`OWN`) tell, too."""

    def is_told(self, args: Any) -> bool:
        """Whether the arguments of an event describe it."""
        return any(getattr(args, attribute(key)) != self.defaults[key] for key in self.told_by)


WHOLES = (Kind.WHOLE, Kind.SPREAD)
"""What is made of several arguments together."""

DESCRIPTIONS = {
    "collectives": Description(
        Collective,
        NO_COLLECTIVE,
        {
            "Collective name": "",
            "dtype": "",
            "In msg nelems": None,
            "Out msg nelems": None,
            "Group size": None,
            "Process Group Name": "",
            "Process Group Ranks": "",
            "Seq": None,
            "Comms Id": "",
        },
        ("Collective name",),
    ),
    "sources": Description(
        KernelSource,
        NO_SOURCE,
        {"kernel_backend": "", "kernel_file": "", "kernel_hash": ""},
        ("kernel_backend",),
    ),
    "details": Description(
        DeviceDetail,
        NO_DETAIL,
        {
            "copy kind": "",
            "src kind": "",
            "dst kind": "",
            "memory kind": "",
            "module_fqn": "",
            "name": "",
            "annotation": "",
            "autograd_phase": "",
            "original_stream": None,
        },
        ("copy kind", "memory kind", "module_fqn", "name", "annotation", "original_stream"),
        told_with=("graph node id", "graph id"),
    ),
}
"""By pool of a `Collector`: what its codes stand for."""

DEVICE_TOLD = ("Task Type", "HW event name")
"""Arguments that only `accelerators` looks at; empty where missing."""

_OLDER = {"External id": "external id", "Input Dims": "Input dims"}

FIRST_ARROW = 1 << 40
"""Least id of arrows between nodes of graphs; those of launches are ids of calls, which have 32 bits."""

_EVENT = {
    "start_ns": (Field("start_ns", "ts", Kind.TIME),),
    "dur_ns": (Field("dur_ns", "dur", Kind.DURATION),),
    "name": (Field("name", "name", Kind.STRING, pool="names"),),
    "category": (Field("category", "", Kind.CATEGORY),),
    "thread": (Field("thread", "pid", Kind.PAIR, pool="threads"), Field("", "tid", Kind.SECOND)),
    "flow": (Field("flow", "id", Kind.INTEGER),),
    "is_start": (Field("is_start", "ph", Kind.STRING, pool="phases"),),
    "arrow": (Field("arrow", "id", Kind.BEYOND, missing=FIRST_ARROW),),
    "value": (Field("value", "", Kind.NUMBER, is_argument=True),),  # the only argument of a counter has no name
}
"""By column without a key: what is read of the event."""

_SLICE = (Field("", "ph", Kind.REQUIRED, allowed=("X",)),)
_ALLOCATION = (
    Field("", "ph", Kind.REQUIRED, allowed=("i", "I", "X")),  # X is of torch 2.13's exporter in Python
    Field("", "name", Kind.REQUIRED, allowed=("[memory]",)),
)
COUNTED = "C"
"""Phase of counters."""

TABLES = {
    TableGroup.HOST: EventTable("host", HostEvents, _SLICE),
    TableGroup.LAUNCH: EventTable("launches", Launches, _SLICE),
    TableGroup.DEVICE: EventTable("device", DeviceEvents, _SLICE),
    TableGroup.ACCELERATOR: EventTable("accelerator", AcceleratorEvents, _SLICE),
    TableGroup.GPU_ANNOTATION: EventTable("gpu_annotations", GpuAnnotations, _SLICE),
    TableGroup.FRAME: EventTable("frames", Frames, _SLICE),
    TableGroup.SYNC: EventTable("syncs", Syncs, _SLICE),
    TableGroup.OVERHEAD: EventTable("overheads", Overheads, _SLICE),
    TableGroup.GRAPH_NODE: EventTable("graph_nodes", GraphNodes, _SLICE),
    TableGroup.FLOW: EventTable("flows", Flows),
    TableGroup.ARROW: EventTable("dependencies", Dependencies),
    TableGroup.INSTANT: EventTable("memory", MemoryEvents, _ALLOCATION),
    TableGroup.COUNTER: EventTable("counters", Counters, (Field("", "ph", Kind.REQUIRED, allowed=(COUNTED,)),)),
}
"""The table of each group of events that has one; `Trace` gives codes in this order."""

POOL_OF = {t.name: {c.name: c.pool for c in t.table.columns() if c.pool} for t in TABLES.values()}
"""By table and column of codes: the pool of the codes."""

POOLS = tuple(dict.fromkeys(pool for pools in POOL_OF.values() for pool in pools.values()))
_WITHOUT_NONE = ("names", "threads")


def none_of(pool: str) -> tuple[Any, ...]:
    """What code 0 of a pool stands for, where it is "not recorded"; nothing for pools of what every event has."""
    if pool in DESCRIPTIONS:
        return (DESCRIPTIONS[pool].none,)
    return () if pool in _WITHOUT_NONE else (b"",)


@cache
def attribute(key: str) -> str:
    """The name that an argument of events has in `events.Args`, from its name in the file."""
    return re.sub(r"\W", "_", key) or "unnamed"


def _fields(column: TraceColumn) -> Iterator[Field]:
    """What a column is made of; nothing if it is worked out from several arguments (`accelerators`)."""
    if column.key:
        older = _OLDER.get(column.key, "")
        yield Field(column.name, column.key, _kind(column), True, column.pool, column.missing, older)
    else:
        yield from _EVENT.get(column.name, ())


def _kind(column: TraceColumn) -> Kind:
    if column.pool in DESCRIPTIONS:
        return Kind.SPREAD if DESCRIPTIONS[column.pool].told_with else Kind.WHOLE
    if column.pool:
        return Kind.NAMED if column.pool == "names" else Kind.TEXT
    return {"i8": Kind.INTEGER, "i4": Kind.SMALL, "f8": Kind.NUMBER}[column.dtype.str[1:]]


_UNREAD = (
    *("context", "fromDevice", "inDevice", "toDevice", "fromContext", "inContext", "toContext"),
    *("queued", "warps per SM", "memory bandwidth (GB/s)", "kind", "occupancy", "limitingFactors"),
    *("blockLimitWarps", "blockLimitSharedMem", "blockLimitRegs", "blockLimitBlocks", "blockLimitBarriers"),
    *("allocatedSharedMemPerBlock", "allocatedRegistersPerBlock", "activeBlocksPerMultiprocessor"),
    *("priority", "channel", "channel_type", "channel type", "flags", "value", "cbid", "annotated_stream"),
    *("cuda_sync_kind", "event_id", "wait_on_stream", "wait_on_cuda_event_id", "wait_on_cuda_event_record_corr_id"),
    *("cid", "src", "dst", "ptr", "hsa_queue", "kernel"),
)
_OF_CALLS = (
    *("Input Dims", "Input dims", "Input Strides", "Input type", "Concrete Inputs", "Sequence number", "Fwd thread id"),
    *("Record function id", "Ev Idx", "Op id", "Op Id", "Addr", "Bytes", "Total Allocated", "Total Reserved"),
    *("Device Type", "Device Id", "Python id", "Python parent id", "Python module id", "Python thread"),
    *("Backend", "CallFrom", "Call stack", "Module Hierarchy"),
)
_OF_COLLECTIVES = (
    *("Process Group Description", "In split size", "Out split size", "Is asynchronized op", "Rank", "Src Rank"),
    *("Dst Rank", "Global rank start", "Global rank stride", "Input Tensors start", "Output Tensors start"),
)
_OF_XPU = (
    *("appended", "appended_rel_to_start", "submitted", "submitted_rel_to_start", "sycl_task_begin", "l0 call"),
    *("sycl_task_begin_rel_to_start", "sycl_enqk_begin", "sycl_enqk_begin_rel_to_start", "sycl queue", "l0 queue"),
    *("source_file_name", "source_line_number", "kernel_id", "sycl_node_id", "sycl_invocation_id"),
    *("memory opration id", "memory operation id"),
)
"""With the misspelling of Kineto."""
_UNREAD_KEYS = (*_UNREAD, *_OF_CALLS, *_OF_COLLECTIVES, *_OF_XPU)
"""Arguments of events that torch's writers have and nothing here reads of devices: all fields of Kineto's catalogue
(`MetadataFieldCatalog.h`, 2.15), what it copies from calls of collectives to kernels (`output_json.cpp`), what its
plugin for Intel's GPUs and its readers of ROCm add, with the modes for occupancy; those of the monitor of CUPTI."""

OWN = (
    frozenset(_UNREAD_KEYS)
    | {key for f in TABLES[TableGroup.DEVICE].arguments if f.kind not in WHOLES for key in (f.key, f.older)}
    | {*DESCRIPTIONS["details"].defaults, *DESCRIPTIONS["collectives"].defaults}
) - {"dtype"}
"""Arguments of events of devices that writers have; all others are what a program said of its kernels. `dtype` is
what collectives have, and said of other kernels, too."""
