"""The builder: events of all kinds, a header around them, and a file."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from .dialects import MODERN, Dialect
from .hardware import A100, Device
from .layout import Layout, render
from .transfers import TransferEvents
from .values import Event, Time, ns

OPTIONS = ("record_shapes", "profile_memory", "with_stack", "with_modules", "with_flops")
_GPU_SORT_INDEX = 5_000_000
_SPANS_SORT_INDEX = 0x20000000


class TraceBuilder(TransferEvents):
    """Builds a Kineto trace event by event; times are microseconds, written exactly.

    ```
    trace = TraceBuilder()
    trace.step(1, 0, 100)
    trace.op("aten::mm", 10, 30, shapes=[[8, 8], [8, 8]])
    trace.launch_kernel("ampere_sgemm_128x64_nn", 25, 40, at=15)
    trace.write(folder / "trace.json.gz")
    ```
    """

    def __init__(
        self,
        dialect: Dialect = MODERN,
        *,
        devices: tuple[Device, ...] = (A100,),
        options: Iterable[str] = (),
        pid: int = 4201,
        tid: int = 4201,
        origin: Time = 0,
        base_ns: int | None = 1_700_000_000_000_000_000,
        distributed: Mapping[str, object] | None = None,
        metadata: Mapping[str, object] | None = None,
        trace_name: str | None = None,
        process: str = "python3",
        margins: tuple[Time, Time] = (0, 0),
    ) -> None:
        """Set what the header says; `margins` is how far the window extends beyond the events."""
        super().__init__(dialect, devices, pid=pid, tid=tid, origin=origin)
        self.options = tuple(options)
        self.base_ns = base_ns
        self.distributed = distributed
        self.metadata = dict(metadata or {})
        self.trace_name = trace_name
        self.process = process
        self.thread_names: dict[int, str] = {}
        """Names of threads that are not called like the process."""
        self.margins = margins
        self.window_end: Time | None = None
        """Time of `Record Window End`, if not after the last event."""
        self.framed = True
        """Whether process and thread names, the profiler's span and the window markers are written."""

    def header(self) -> dict[str, object]:
        """Every top-level key in kineto's order; `traceEvents` marks the place of the events."""
        entries = [device.entry(index) for index, device in enumerate(self.devices)]
        header: dict[str, object] = {"schemaVersion": 1}
        if entries or not self.dialect.style_2021:
            header["deviceProperties"] = entries
        if self.distributed is not None:
            header["distributedInfo"] = dict(self.distributed)
        header |= {option: 1 for option in OPTIONS if option in self.options} | self.metadata
        if self.dialect.exact:
            header["displayTimeUnit"] = "ms"
            header |= {} if self.base_ns is None else {"baseTimeNanoseconds": self.base_ns}
        header["traceEvents"] = None
        return header if self.trace_name is None else header | {"traceName": self.trace_name}

    def frame(self) -> list[Event]:
        """The events that kineto writes about the trace itself."""
        start = (self.first_ns or 0) - ns(self.margins[0])
        end = self.last_ns + ns(self.margins[1])
        events = [*self._processes(start), *self._threads(start)]
        span: Event = {
            "ph": "X",
            "cat": "Trace",
            "name": "PyTorch Profiler (0)",
            "pid": self.dialect.span_pid,
        }
        times = {"ts": self.stamp(start), "dur": self.duration(end - start)}
        events.append(span | {"tid": "PyTorch Profiler", **times, "args": {"Op count": 0}})
        if not self.dialect.style_2021:
            sort: Event = {"name": "process_sort_index", "ph": "M", "ts": self.stamp(start), "pid": "Spans"}
            events.append(sort | {"tid": 0, "args": {"sort_index": _SPANS_SORT_INDEX}})
        marker: Event = {"name": "Iteration Start: PyTorch Profiler", "ph": "i", "s": "g", "pid": "Traces"}
        events.append(marker | {"tid": "Trace PyTorch Profiler", "ts": self.stamp(start)})
        final = end if self.window_end is None else ns(self.window_end)
        window: Event = {"name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": ""}
        return [*events, window | {"ts": self.stamp(final)}]

    def _processes(self, start: int) -> list[Event]:
        pids = dict.fromkeys(pid for pid, _ in self.threads)
        rows = [(pid, self.process, "CPU", pid) for pid in pids]
        gpus = dict.fromkeys([*range(len(self.devices)), *(device for device, _ in self.streams)])
        rows += [(gpu, self.process, f"GPU {gpu}", _GPU_SORT_INDEX + gpu) for gpu in gpus]
        events = []
        for pid, name, label, order in rows:
            events.append(self._named("process_name", start, pid, 0, {"name": name}))
            events.append(self._named("process_labels", start, pid, 0, {"labels": label}))
            events.append(self._named("process_sort_index", start, pid, 0, {"sort_index": order}))
        return events

    def _threads(self, start: int) -> list[Event]:
        streams = [(device, stream, f"stream {stream} ") for device, stream in self.streams]
        names = {tid: self.thread_names.get(tid, self.process) for _, tid in self.threads}
        threads = [(pid, tid, f"thread {tid} ({names[tid]})") for pid, tid in self.threads]
        events = []
        for pid, tid, name in (*streams, *threads):
            events.append(self._named("thread_name", start, pid, tid, {"name": name}))
            events.append(self._named("thread_sort_index", start, pid, tid, {"sort_index": tid}))
        return events

    def _named(self, name: str, at: int, pid: int, tid: int, args: Mapping[str, object]) -> Event:
        return {"name": name, "ph": "M", "ts": self.stamp(at), "pid": pid, "tid": tid, "args": args}

    def to_bytes(self, layout: Layout | None = None) -> bytes:
        """The file's content, in kineto's own layout if no other is asked for."""
        usual = Layout("era_2021" if self.dialect.style_2021 else "classic")
        events = [*self.events, *(self.frame() if self.framed else [])]
        return render(self.header(), events, layout or usual)

    def build(self, layout: Layout | None = None, number: Callable[[str], Any] = Decimal) -> dict[str, Any]:
        """The trace as `json` reads it back, with exact numbers unless `number` is `float`."""
        parsed = json.loads(self.to_bytes(layout), parse_float=number)
        return parsed if isinstance(parsed, dict) else {"traceEvents": parsed}

    def write(self, path: Path, layout: Layout | None = None) -> Path:
        """Write the file, compressed where its name ends in `.gz`, the same bytes every time."""
        data = self.to_bytes(layout)
        path.write_bytes(gzip.compress(data, 9, mtime=0) if path.suffix == ".gz" else data)
        return path


def distributed_info(rank: int, world_size: int, backend: str = "nccl") -> dict[str, object]:
    """The `distributedInfo` of one rank with one process group."""
    group = {"pg_name": "0", "pg_desc": "default_pg", "backend_config": f"cuda:{backend}"}
    config = group | {"pg_size": world_size, "ranks": list(range(world_size))}
    info: dict[str, object] = {"backend": backend, "rank": rank, "world_size": world_size}
    return info | {"pg_count": 1, "pg_config": [config], "nccl_version": "2.21.5"}
