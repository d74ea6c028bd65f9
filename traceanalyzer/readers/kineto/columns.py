"""Turns lists of events into the columns of the trace's tables, window by window."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from traceanalyzer.readers.kineto import accelerators
from traceanalyzer.readers.kineto.buffers import Buffer
from traceanalyzer.readers.kineto.categories import TableGroup
from traceanalyzer.readers.kineto.codes import ThreadsOfProcesses
from traceanalyzer.readers.kineto.counts import CategoryCounts
from traceanalyzer.readers.kineto.events import SLICE, Event, args_of, is_general, where
from traceanalyzer.readers.kineto.times import INVALID, nanoseconds
from traceanalyzer.readers.kineto.values import (
    collectives,
    durations,
    external_ids,
    floats,
    integers,
    small,
    sources,
    texts,
)
from traceanalyzer.trace.model import NO_COLLECTIVE, NO_SOURCE, Collective, KernelSource
from traceanalyzer.trace.strings import StringPool
from traceanalyzer.trace.table import I32, I64, UNKNOWN, Array
from traceanalyzer.trace.tables import (
    AcceleratorEvents,
    DeviceEvents,
    Flows,
    Frames,
    GpuAnnotations,
    HostEvents,
    Launches,
    MemoryEvents,
    Overheads,
    Syncs,
)

_MEMORY = "[memory]"


class Collector:
    """Sorts events into tables. Strings become codes of the pools; code 0 of the pools of arguments is "none"."""

    def __init__(self) -> None:
        self.names: StringPool[str] = StringPool()
        self.threads: StringPool[tuple[Any, Any]] = StringPool()
        self.threads_of = ThreadsOfProcesses(self.threads)
        self.shapes: StringPool[bytes] = StringPool(b"")
        self.types: StringPool[bytes] = StringPool(b"")
        self.dims: StringPool[bytes] = StringPool(b"")
        self.strides: StringPool[bytes] = StringPool(b"")
        self.concrete: StringPool[bytes] = StringPool(b"")
        self.collectives: StringPool[Collective] = StringPool(NO_COLLECTIVE)
        self.sources: StringPool[KernelSource] = StringPool(NO_SOURCE)
        self.losses: Counter[str] = Counter()
        self.elements = 0
        """Elements of the event array, whatever they are."""
        self.profiler_start: int | None = None
        """Start of the profiler's own span, in the file's clock."""
        self.host = Buffer(HostEvents)
        self.launches = Buffer(Launches)
        self.device = Buffer(DeviceEvents)
        self.accelerator = Buffer(AcceleratorEvents)
        self.gpu_annotations = Buffer(GpuAnnotations)
        self.frames = Buffer(Frames)
        self.syncs = Buffer(Syncs)
        self.overheads = Buffer(Overheads)
        self.flows = Buffer(Flows)
        self.memory = Buffer(MemoryEvents)
        self.tables: dict[str, Buffer[Any]] = {
            "host": self.host,
            "launches": self.launches,
            "device": self.device,
            "accelerator": self.accelerator,
            "gpu_annotations": self.gpu_annotations,
            "frames": self.frames,
            "syncs": self.syncs,
            "overheads": self.overheads,
            "flows": self.flows,
            "memory": self.memory,
        }
        self.categories = CategoryCounts()

    def add(self, events: Sequence[Event]) -> None:
        """Add one window of events."""
        self.elements += len(events)
        if not events:
            return
        categories = self.categories.codes(events)
        groups = np.array(self.categories.groups, np.uint8)[categories]
        if (unclear := np.array(self.categories.by_content)[categories]).any():
            groups = accelerators.told_apart(events, groups, unclear)
        slices = groups <= TableGroup.OVERHEAD
        self._add_slices(where(slices, events), groups[slices], categories[slices])
        if (flows := groups == TableGroup.FLOW).any():
            self._add_flows(where(flows, events))
        if (instants := groups == TableGroup.INSTANT).any():
            self._add_instants(where(instants, events))
        if self.profiler_start is None and (spans := groups == TableGroup.SPAN).any():
            self._find_profiler_start(where(spans, events))

    def _add_slices(self, events: Sequence[Event], groups: Array, categories: I32) -> None:
        if is_general(events) and any(event.ph != SLICE for event in events):
            kept = np.array([event.ph == SLICE for event in events])
            self.losses["read-other-phase"] += int((~kept).sum())
            events, groups, categories = where(kept, events), groups[kept], categories[kept]
        start, dur = self._times(events), durations(events)
        valid = start != INVALID
        self._settle(dur)
        normalized = np.array(self.categories.normalized, np.uint8)[categories]
        counts = np.bincount(groups, minlength=len(TableGroup)).tolist()
        for group, fill in _FILL.items():
            if counts[group] and (rows := (groups == group) & valid).any():
                chosen = where(rows, events)
                common = {
                    "start_ns": start[rows],
                    "dur_ns": dur[rows],
                    "name": self.names.codes([event.name for event in chosen], len(chosen)),
                }
                if group in (TableGroup.HOST, TableGroup.DEVICE):
                    common["category"] = normalized[rows]
                fill(self, chosen, common)

    def _times(self, events: Sequence[Event]) -> I64:
        start = nanoseconds([event.ts for event in events], len(events))
        if lost := int(np.count_nonzero(start == INVALID)):
            self.losses["read-no-time"] += lost
        return start

    def _settle(self, dur: I64) -> None:
        """Set missing, unreadable and negative durations to 0, and count them."""
        if not dur.size or dur.min() >= 0:
            return
        for bad, loss in (
            (dur == INVALID, "read-no-duration"),
            ((dur < 0) & (dur != INVALID), "read-negative-duration"),
        ):
            if count := int(bad.sum()):
                self.losses[loss] += count
        np.maximum(dur, 0, out=dur)

    def _threads(self, events: Sequence[Event]) -> I32:
        return self.threads_of.codes(events)

    def _add_host(self, events: Sequence[Event], common: dict[str, Array]) -> None:
        args = args_of(events)
        shapes = texts([a.shapes for a in args], self.shapes)
        if (missing := shapes == 0).any():
            shapes = np.where(missing, texts([a.old_shapes for a in args], self.shapes), shapes)
        self.host.extend(
            **common,
            thread=self._threads(events),
            external_id=external_ids(args),
            shapes=shapes,
            types=texts([a.types for a in args], self.types),
            strides=texts([a.strides for a in args], self.strides),
            concrete=texts([a.concrete for a in args], self.concrete),
            collective=collectives(args, self.collectives),
            source=sources(args, self.sources),
            sequence=integers([a.sequence for a in args]),
            forward_thread=integers([a.forward_thread for a in args]),
        )

    def _add_launches(self, events: Sequence[Event], common: dict[str, Array]) -> None:
        args = args_of(events)
        self.launches.extend(
            **common,
            thread=self._threads(events),
            correlation=integers([a.correlation for a in args]),
            external_id=external_ids(args),
            kernel=self._kernels([a.kernel for a in args]),
        )

    def _kernels(self, named: list[Any]) -> I32:
        """Codes of the kernels that calls name; most writers name none."""
        codes = np.full(len(named), UNKNOWN, np.int32)
        if named.count("") < len(named):
            rows = [row for row, name in enumerate(named) if name and isinstance(name, str)]
            codes[rows] = self.names.codes((named[row] for row in rows), len(rows))
        return codes

    def _add_device(self, events: Sequence[Event], common: dict[str, Array]) -> None:
        args = args_of(events)
        self.device.extend(
            **common,
            device=small(integers([a.device for a in args])),
            stream=integers([a.stream for a in args]),
            correlation=integers([a.correlation for a in args]),
            external_id=external_ids(args),
            grid=texts([a.grid for a in args], self.dims),
            block=texts([a.block for a in args], self.dims),
            registers=small(integers([a.registers for a in args])),
            shared_memory=integers([a.shared_memory for a in args]),
            blocks_per_sm=floats([a.blocks_per_sm for a in args]),
            occupancy=floats([a.occupancy for a in args]),
            bytes=integers([a.bytes for a in args]),
            collective=collectives(args, self.collectives),
            graph=integers([a.graph for a in args]),
            graph_node=integers([a.graph_node for a in args]),
        )

    def _add_accelerator(self, events: Sequence[Event], common: dict[str, Array]) -> None:
        self.accelerator.extend(
            **common, **accelerators.columns(events, self.names.encode), thread=self._threads(events)
        )

    def _add_gpu_annotations(self, events: Sequence[Event], common: dict[str, Array]) -> None:
        self.gpu_annotations.extend(**common, thread=self._threads(events))

    def _add_overheads(self, events: Sequence[Event], common: dict[str, Array]) -> None:
        self.overheads.extend(**common, thread=self._threads(events))

    def _add_frames(self, events: Sequence[Event], common: dict[str, Array]) -> None:
        args = args_of(events)
        self.frames.extend(
            **common,
            thread=self._threads(events),
            python_id=integers([a.python_id for a in args]),
            parent_id=integers([a.python_parent_id for a in args]),
            module_id=integers([a.module_id for a in args]),
        )

    def _add_syncs(self, events: Sequence[Event], common: dict[str, Array]) -> None:
        args = args_of(events)
        self.syncs.extend(
            **common,
            device=small(integers([a.device for a in args])),
            stream=integers([a.stream for a in args]),
            correlation=integers([a.correlation for a in args]),
        )

    def _add_flows(self, events: Sequence[Event]) -> None:
        start = self._times(events)
        valid = start != INVALID
        events = where(valid, events)
        self.flows.extend(
            start_ns=start[valid],
            thread=self._threads(events),
            flow=np.array([e.id if isinstance(e.id, int) and abs(e.id) < 2**63 else UNKNOWN for e in events]),
            is_start=np.array([e.ph == "s" for e in events]),
        )

    def _find_profiler_start(self, spans: Sequence[Event]) -> None:
        own = [span for span in spans if span.name.startswith("PyTorch Profiler")]
        starts = nanoseconds([span.ts for span in own], len(own))
        if (known := starts[starts != INVALID]).size:
            self.profiler_start = int(known[0])

    def _add_instants(self, events: Sequence[Event]) -> None:
        if unnamed := sum(e.ph == SLICE for e in events):
            self.losses["read-no-category"] += unnamed
        memory: Sequence[Event] = [e for e in events if e.name == _MEMORY and e.ph in ("i", "I")]
        if not memory:
            return
        start = self._times(memory)
        valid = start != INVALID
        memory = where(valid, memory)
        args = args_of(memory)
        self.memory.extend(
            start_ns=start[valid],
            thread=self._threads(memory),
            device_type=small(integers([a.device_type for a in args])),
            device=small(integers([a.device_id for a in args])),
            bytes=integers([a.memory_bytes for a in args], 0),
            address=integers([a.address for a in args], 0),
            allocated=integers([a.allocated for a in args]),
            reserved=integers([a.reserved for a in args]),
        )


_FILL: dict[TableGroup, Callable[[Collector, Sequence[Event], dict[str, Array]], None]] = {
    TableGroup.HOST: Collector._add_host,
    TableGroup.LAUNCH: Collector._add_launches,
    TableGroup.DEVICE: Collector._add_device,
    TableGroup.ACCELERATOR: Collector._add_accelerator,
    TableGroup.GPU_ANNOTATION: Collector._add_gpu_annotations,
    TableGroup.FRAME: Collector._add_frames,
    TableGroup.SYNC: Collector._add_syncs,
    TableGroup.OVERHEAD: Collector._add_overheads,
}
"""How slices are added, in the order in which their names get codes."""
