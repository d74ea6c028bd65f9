"""Device events: kernels, graph launches, annotations, synchronization."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import TypedDict, Unpack

from .host import HostEvents
from .log import AUTO
from .values import Event, Time, ns


class KernelDetails(TypedDict, total=False):
    """Arguments of a kernel event besides its name and times."""

    stream: int
    device: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    registers: int
    shared: int
    blocks_per_sm: Decimal | None
    """None: computed from the grid and the device in the header."""
    occupancy: int | None
    """None: the key is left out."""
    args: Mapping[str, object]


class DeviceEvents(HostEvents):
    """What runs on a device, except transfers."""

    def kernel(
        self,
        name: str,
        start: Time,
        dur: Time,
        *,
        correlation: int | None = None,
        external_id: int | None = None,
        flow: bool = False,
        **details: Unpack[KernelDetails],
    ) -> int:
        """A kernel; returns its correlation. `flow` writes the finish of the arrow from its launch."""
        ident = self.next("correlation") if correlation is None else correlation
        device, stream = details.get("device", 0), details.get("stream", 7)
        args = self.link(external_id, ident) | self._kernel_args(ident, details) | dict(details.get("args", {}))
        self.on_device(self.dialect.kernel, name, (start, dur), (device, stream), args)
        if flow:
            self.flow_end("f", self.dialect.device_flow, ident, (start, *self.stream(device, stream)))
        return ident

    def launch_kernel(
        self,
        name: str,
        start: Time,
        dur: Time,
        *,
        at: Time,
        call: str | None = None,
        call_dur: Time = 5,
        tid: int | None = None,
        external_id: int | None = AUTO,
        **details: Unpack[KernelDetails],
    ) -> int:
        """A launch at `at`, the arrow, and the kernel; returns the correlation."""
        owner = self.around(at, tid, None) if external_id == AUTO else external_id
        ident = self.launch(call, at, call_dur, external_id=owner, flow=True, tid=tid)
        return self.kernel(name, start, dur, correlation=ident, external_id=owner, flow=True, **details)

    def _kernel_args(self, correlation: int, details: KernelDetails) -> dict[str, object]:
        device, stream = details.get("device", 0), details.get("stream", 7)
        grid, block = details.get("grid", (1, 1, 1)), details.get("block", (128, 1, 1))
        place = {"device": device, "stream": stream}
        if self.dialect.device_args == "rocm":
            ends = {"correlation": correlation, "kind": "Dispatch Kernel", "grid": grid, "block": block}
            return {**place, **ends}
        if self.dialect.device_args == "xpu":
            return self.queue_args(correlation, device, stream) | {
                "kernel_id": correlation,
                "sycl_node_id": 0,
            }
        args: dict[str, object] = {"queued": 0, "device": device, "context": 1, "stream": stream}
        args |= {"correlation": correlation}
        args |= {
            "registers per thread": details.get("registers", 32),
            "shared memory": details.get("shared", 0),
        }
        blocks = details.get("blocks_per_sm") or self._blocks_per_sm(device, grid)
        if blocks is not None:
            warps = blocks * math.prod(block) / 32
            args |= {"blocks per SM": blocks, "warps per SM": warps.quantize(Decimal("0.000001"))}
        args |= {"grid": grid, "block": block}
        occupancy = details.get("occupancy", 50)
        return args if occupancy is None else args | {"est. achieved occupancy %": occupancy}

    def _blocks_per_sm(self, device: int, grid: tuple[int, int, int]) -> Decimal | None:
        sms = self.devices[device].sms if device < len(self.devices) else 0
        return (Decimal(math.prod(grid)) / sms).quantize(Decimal("0.000001")) if sms else None

    def queue_args(self, correlation: int, device: int, stream: int) -> dict[str, object]:
        """The args with which XPU traces name a queue."""
        handles = {"context": "0x0000000000000c01", "sycl queue": stream, "l0 queue": "0x0000000000000a10"}
        return {"correlation": correlation, "device": device, **handles}

    def gpu_annotation(
        self, name: str, start: Time, dur: Time, *, external_id: int, stream: int = 7, device: int = 0
    ) -> Event:
        """The projection of a user range on a stream."""
        args = {"External id": external_id}
        return self.on_device("gpu_user_annotation", name, (start, dur), (device, stream), args)

    def sync(
        self,
        name: str,
        start: Time,
        dur: Time,
        *,
        stream: int = -1,
        device: int = 0,
        correlation: int | None = None,
        args: Mapping[str, object] | None = None,
    ) -> Event:
        """A `cuda_sync` event: `Stream Sync`, `Event Sync`, `Stream Wait Event`, `Context Sync`."""
        ident = self.next("correlation") if correlation is None else correlation
        details = {"cuda_sync_kind": name, **(args or {})}
        details |= {"stream": stream, "correlation": ident, "device": device, "context": 1}
        return self.on_device("cuda_sync", name, (start, dur), (device, stream), details)

    def graph_launch(
        self,
        at: Time,
        call_dur: Time,
        kernels: Iterable[tuple[str, Time, Time, KernelDetails]],
        *,
        call: str | None = None,
        external_id: int | None = None,
        graph: int = 1,
        tid: int | None = None,
    ) -> int:
        """One launch and its many kernels (name, start, dur, details); returns the correlation of all."""
        name = call or self.dialect.calls.graph
        ident = self.launch(name, at, call_dur, external_id=external_id, flow=True, tid=tid)
        for node, (kernel, start, dur, details) in enumerate(kernels):
            nodes = {"graph id": graph, "graph node id": (graph << 32) + node}
            args = {**details.get("args", {}), **(nodes if self.dialect.device_args == "cuda" else {})}
            own: KernelDetails = {**details, "args": args}
            self.kernel(kernel, start, dur, correlation=ident, external_id=external_id, flow=node == 0, **own)
        return ident

    def on_device(
        self,
        category: str,
        name: str,
        span: tuple[Time, Time],
        where: tuple[int, int],
        args: Mapping[str, object],
    ) -> Event:
        """Append an event on a stream; `where` is device and stream."""
        return self.add(category, name, span, self.stream(*where), args)

    def counter(self, name: str, at: Time, value: float, *, device: int = 0) -> Event:
        """A sample of a GPU as the monitor of CUPTI writes it; it does not extend the trace."""
        event: Event = {"ph": "C", "name": name, "pid": f"GPU {device} Counters", "ts": self.stamp(ns(at))}
        return self.raw(event | {"args": {"": value}})

    def graph_node(self, name: str, start: Time, dur: Time, correlation: int, *, stream: int = 7) -> Event:
        """A node of a graph that is no work, as the monitor of CUPTI writes it: `EventRecord`, or `HostNode: f`."""
        category = "graph_host_node" if name.startswith("HostNode") else "graph_event_node"
        args = {"device": 0, "context": 1, "stream": stream, "correlation": correlation}
        return self.on_device(category, name, (start, dur), (0, stream), args)

    def dependency(self, first: Event, second: Event) -> None:
        """An arrow from a node of a graph to one that depends on it."""
        ident = (1 << 40) + self.next("flow")
        ends = (("s", first, first["ts"] + first["dur"]), ("f", second, second["ts"]))  # type: ignore[operator]
        for phase, event, at in ends:
            arrow = {"ph": phase, "id": ident, "pid": event["pid"], "tid": event["tid"], "ts": at}
            self.raw(arrow | {"cat": "ac2g", "name": "ac2g"})
