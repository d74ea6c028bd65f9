"""Trace: everything that was measured, as columns. Plain data that readers fill and analyzers query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from traceanalyzer.trace.capture_facts import CaptureFacts
from traceanalyzer.trace.graph_stacks import GraphStacks
from traceanalyzer.trace.strings import Strings
from traceanalyzer.trace.table import UNKNOWN, Table, import_pandas
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

if TYPE_CHECKING:
    import pandas as pd


KINETO, PYTHON_EXPORTER, CUPTI_MONITOR = WRITERS = ("kineto", "python-exporter", "cupti-monitor")
"""What writes traces in torch: Kineto in C++, the exporter in Python and the monitor of CUPTI, both since 2.13."""


@dataclass(frozen=True)
class Device:
    """One accelerator as the header describes it; None means that the file does not contain it."""

    id: int
    name: str | None = None
    vendor: str | None = None
    memory_bytes: int | None = None
    compute_capability: str | None = None
    sm_count: int | None = None


@dataclass(frozen=True)
class ProfilerOptions:
    """Options of the profiler; None is unknown (older versions did not write them)."""

    record_shapes: bool | None = None
    with_stack: bool | None = None
    profile_memory: bool | None = None
    with_modules: bool | None = None
    with_flops: bool | None = None


class Loss(msgspec.Struct, frozen=True):
    """One way in which the input was damaged or incomplete, how often, and details."""

    id: str
    count: int
    params: Mapping[str, Any] = {}


class Collective(msgspec.Struct, frozen=True):
    """Metadata of a collective operation; empty or None for missing fields."""

    name: str
    """Name of the operation as c10d writes it: allreduce, _allgather_base, ..."""
    dtype: str = ""
    in_elements: int | None = None
    out_elements: int | None = None
    group_size: int | None = None
    group: str = ""
    """Name of the process group."""
    ranks: str = ""
    """Ranks of the group, as recorded (long lists are cut by the writer)."""
    sequence: int | None = None
    """Number of the operation within its group: equal on all ranks."""
    comms_id: str = ""
    """Id of this very operation, which all ranks share and no other operation has."""


NO_COLLECTIVE = Collective("")


class KernelSource(msgspec.Struct, frozen=True):
    """Place of a generated kernel's code, from the operator that launches it; empty for missing fields."""

    backend: str
    """What generated it: triton."""
    file: str = ""
    """Path of the generated file."""
    hash: str = ""
    """Hash of the generated code."""


NO_SOURCE = KernelSource("")


class DeviceDetail(msgspec.Struct, frozen=True):
    """What only some writers say of an event of a device, as they write it; empty or None for missing fields."""

    copy: str = ""
    """Direction of a copy whose name does not show it: HtoD, DtoH, ..."""
    source: str = ""
    """Kind of the memory that is copied: pageable, pinned, device, ..."""
    target: str = ""
    """Kind of the memory that it is copied to."""
    memory: str = ""
    """Number of the kind of memory that is filled."""
    module: str = ""
    """Module that the program named for the kernels of a graph."""
    label: str = ""
    """Name that the program gave to the kernels of a graph."""
    annotation: str = ""
    """What else the program said of them: a text, or all that it said as JSON."""
    phase: str = ""
    """`backward` where autograd ran them for calls that the program labelled."""
    stream: int | None = None
    """Stream on which the event ran, where it was moved to another one to be shown."""


NO_DETAIL = DeviceDetail()

_CUT = frozenset({"read-truncated", "read-gzip-truncated", "read-gzip-damaged"})
"""Losses of a file whose end is missing."""


class Thread(msgspec.Struct, frozen=True):
    """A row of the thread table: ids as strings, because writers use numbers and names alike."""

    pid: str
    tid: str


class TraceInfo(msgspec.Struct, frozen=True):
    """Facts about the file and the run that are not events."""

    name: str
    size_bytes: int | None
    origin_ns: int
    """Time of the first event in the file's own clock."""
    span_ns: int
    """Time from the start of the first to the end of the last event, in ns."""
    base_ns: int | None = None
    """`baseTimeNanoseconds`: what to add to the file's clock for absolute time."""
    profiler_start_ns: int | None = None
    """Start of the profiler, from its own span, in ns since the first event; mostly negative."""
    devices: tuple[Device, ...] = ()
    options: ProfilerOptions = ProfilerOptions()
    rank: int | None = None
    world_size: int | None = None
    backend: str | None = None
    unsupported: Mapping[str, int] = {}
    """Number of events by category that no analysis uses, so that they were set aside."""
    capture: CaptureFacts | None = None
    """Facts that a capture of this project recorded in addition to the events; None for other traces."""
    has_old_categories: bool = False
    """Whether events have the categories that torch wrote until 1.11: `Operator`, `Kernel` and so on."""
    writer: str | None = None
    """What wrote the file: one of `WRITERS`; None if it does not show."""


class Trace(msgspec.Struct, frozen=True, dict=True):
    """Everything that was measured. Tables that the file has nothing for are empty, never None."""

    info: TraceInfo
    names: Strings
    shapes: Strings
    """Input shapes as compact JSON by code; code 0 is the empty text, for "not recorded"."""
    types: Strings
    """Input types as compact JSON by code; code 0 is the empty text."""
    dims: Strings
    """Grid and block dimensions as compact JSON by code; code 0 is the empty text."""
    strides: Strings
    """Input strides as compact JSON by code; code 0 is the empty text."""
    concrete: Strings
    """Values of inputs that are not tensors, as compact JSON by code; code 0 is the empty text."""
    collectives: tuple[Collective, ...]
    """Descriptions of collectives; row 0 is `NO_COLLECTIVE`."""
    sources: tuple[KernelSource, ...]
    """Sources of generated kernels; row 0 is `NO_SOURCE`."""
    threads: tuple[Thread, ...]
    host: HostEvents
    launches: Launches
    device: DeviceEvents
    gpu_annotations: GpuAnnotations
    frames: Frames
    memory: MemoryEvents
    syncs: Syncs
    overheads: Overheads
    flows: Flows
    accelerator: AcceleratorEvents = msgspec.field(default_factory=AcceleratorEvents.empty)
    """Events of devices that write no kernels: of MTIA, Ascend NPUs and Gaudi."""
    graph_nodes: GraphNodes = msgspec.field(default_factory=GraphNodes.empty)
    """Nodes of graphs that are no work of a device."""
    dependencies: Dependencies = msgspec.field(default_factory=Dependencies.empty)
    """What nodes of graphs depend on, where the writer knew it."""
    counters: Counters = msgspec.field(default_factory=Counters.empty)
    """What GPUs measured of themselves; empty in nearly all traces."""
    details: tuple[DeviceDetail, ...] = (NO_DETAIL,)
    """What only some writers say of events of devices; row 0 is `NO_DETAIL`."""
    graph_stacks: GraphStacks | None = None
    """Lines that made the nodes of graphs, from a file of their own; None without one."""
    losses: tuple[Loss, ...] = ()
    ranks: tuple[Trace, ...] = ()
    """The ranks that a script merged into the file, each as a trace of its own, ascending; empty for other files."""

    @property
    def is_cut(self) -> bool:
        """Whether the file ends before all events were written."""
        return any(loss.id in _CUT for loss in self.losses)

    @cached_property
    def events(self) -> Events:
        """All events with a duration as one table, to explore a trace in Python."""
        return Events(self)


class Events:
    """One view over all tables of slices, in the order of time."""

    _TABLES = (
        ("host", None),
        ("launches", Category.RUNTIME),
        ("device", None),
        ("accelerator", Category.ACCELERATOR),
        ("gpu_annotations", Category.GPU_ANNOTATION),
        ("frames", Category.FRAME),
        ("syncs", Category.SYNC),
        ("overheads", Category.OVERHEAD),
    )

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def __len__(self) -> int:
        return sum(len(getattr(self._trace, name)) for name, _ in self._TABLES)

    def to_pandas(self) -> pd.DataFrame:
        """A DataFrame with one row per event in the order of time, texts decoded, unknown values missing.

        Times are integer nanoseconds since the first event.

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        pandas = import_pandas()
        filled = [
            self._frame(pandas, name, category) for name, category in self._TABLES if len(getattr(self._trace, name))
        ]
        if not filled:
            filled = [pandas.DataFrame({"start_ns": [], "dur_ns": []}, dtype="int64")]
        frame: pd.DataFrame = pandas.concat(filled, ignore_index=True)
        return frame.sort_values("start_ns", kind="stable", ignore_index=True)

    def _frame(self, pandas: Any, name: str, category: Category | None) -> pd.DataFrame:
        trace, table = self._trace, getattr(self._trace, name)
        categories = np.full(len(table), category) if category is not None else table.category
        thread_pids, thread_tids = [t.pid for t in trace.threads], [t.tid for t in trace.threads]
        texts = (
            ("name", table.name, trace.names),
            ("category", categories, [c.name.lower() for c in Category]),
            ("shapes", getattr(table, "shapes", None), trace.shapes),
            ("types", getattr(table, "types", None), trace.types),
            ("grid", getattr(table, "grid", None), trace.dims),
            ("pid", getattr(table, "thread", None), thread_pids),
            ("tid", getattr(table, "thread", None), thread_tids),
        )
        data: dict[str, Any] = {"start_ns": table.start_ns, "dur_ns": table.dur_ns}
        data |= {column: np.array(pool, object)[codes] for column, codes, pool in texts if codes is not None}
        for column in ("device", "stream", "correlation", "external_id", "bytes"):
            if hasattr(table, column):
                values = getattr(table, column).astype(np.int64)
                data[column] = pandas.array(values, dtype="Int64")
                data[column][values == UNKNOWN] = pandas.NA
        frame: pd.DataFrame = pandas.DataFrame(data)
        return frame


def all_tables(trace: Trace) -> dict[str, Table]:
    """All tables of a trace by name."""
    fields = {name: getattr(trace, name) for name in trace.__struct_fields__}
    return {name: table for name, table in fields.items() if isinstance(table, Table)}
