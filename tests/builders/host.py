"""Host events: operators, annotations, Python frames, runtime calls, memory records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from .log import AUTO, EventLog
from .values import Event, Time, ns

# Call back ids that CUPTI gives to the runtime and driver functions.
_CBID = {
    "cudaMalloc": 20,
    "cudaFree": 22,
    "cudaMemcpyAsync": 41,
    "cudaMemsetAsync": 51,
    "cudaStreamSynchronize": 131,
    "cudaEventRecord": 135,
    "cudaEventSynchronize": 137,
    "cudaStreamWaitEvent": 147,
    "cudaDeviceSynchronize": 165,
    "cudaLaunchKernel": 211,
    "cuLaunchKernel": 307,
    "cudaGraphLaunch": 311,
    "cudaLaunchKernelExC": 430,
    "cuLaunchKernelEx": 652,
}

Shapes = Sequence[Sequence[object]]


class HostEvents(EventLog):
    """What the host side of a trace consists of."""

    def op(
        self,
        name: str,
        start: Time,
        dur: Time,
        *,
        shapes: Shapes | None = None,
        types: Sequence[str] | None = None,
        strides: Shapes | None = None,
        concrete: Sequence[str] | None = None,
        sequence: int | None = None,
        fwd_thread: int | None = None,
        external_id: int | None = None,
        tid: int | None = None,
        pid: int | None = None,
        args: Mapping[str, object] | None = None,
    ) -> int:
        """An operator; returns its external id."""
        inputs: dict[str, object] = {
            "Sequence number": sequence,
            "Fwd thread id": fwd_thread if fwd_thread is not None else (0 if sequence is not None else None),
            "Concrete Inputs": concrete,
            "Input type": types,
            "Input Strides": strides,
            self.dialect.input_dims: shapes,
        }
        details = {key: value for key, value in inputs.items() if value is not None}
        return self._host(self.dialect.op, name, (start, dur), external_id, (tid, pid), details | dict(args or {}))

    def annotation(
        self,
        name: str,
        start: Time,
        dur: Time,
        *,
        external_id: int | None = None,
        tid: int | None = None,
        pid: int | None = None,
        args: Mapping[str, object] | None = None,
    ) -> int:
        """A user range (`record_function`); returns its external id."""
        return self._host(self.dialect.annotation, name, (start, dur), external_id, (tid, pid), args or {})

    def step(self, number: int, start: Time, dur: Time, *, tid: int | None = None) -> int:
        """The profiler's own range around a step; returns its external id."""
        return self.annotation(f"ProfilerStep#{number}", start, dur, tid=tid)

    def _host(
        self,
        category: str,
        name: str,
        span: tuple[Time, Time],
        external_id: int | None,
        where: tuple[int | None, int | None],
        details: Mapping[str, object],
    ) -> int:
        ident = self.next("external") if external_id is None else external_id
        args: dict[str, object] = {"External id": ident}
        if self.dialect.exact:
            args["Record function id"] = 0
        args |= {**self.dialect.op_args, **details}
        if not self.dialect.op_args:
            args["Ev Idx"] = self.next("event")
        self.add(category, name, span, self.thread(*where), args)
        self.remember(ident, span, *where)
        return ident

    def python_function(
        self,
        name: str,
        start: Time,
        dur: Time,
        *,
        python_id: int | None = None,
        parent: int | None = None,
        module: int | None = None,
        tid: int | None = None,
    ) -> int:
        """A frame such as `train.py(12): step`; returns its Python id."""
        ident = self.next("python") if python_id is None else python_id
        args: dict[str, object] = {"Python parent id": parent, "Python id": ident}
        if module is not None:
            args["Python module id"] = module
        args["Ev Idx"] = self.next("event")
        self.add(self.dialect.python, name, (start, dur), self.thread(tid), args)
        return ident

    def module(
        self,
        name: str,
        start: Time,
        dur: Time,
        *,
        module: int = 0,
        parent: int | None = None,
        tid: int | None = None,
    ) -> int:
        """The frame of an `nn.Module` call, `Linear_0`; returns its Python id."""
        return self.python_function(f"nn.Module: {name}", start, dur, parent=parent, module=module, tid=tid)

    def launch(
        self,
        name: str | None,
        start: Time,
        dur: Time,
        *,
        correlation: int | None = None,
        external_id: int | None = AUTO,
        flow: bool = False,
        tid: int | None = None,
        pid: int | None = None,
        args: Mapping[str, object] | None = None,
    ) -> int:
        """A runtime or driver call; returns its correlation. `flow` writes the start of an arrow.

        Names such as `cuLaunchKernel` or `zeCommandListAppendLaunchKernel` are the driver's.
        """
        call = name or self.dialect.calls.launch
        ident = self.next("correlation") if correlation is None else correlation
        driver = (call.startswith("cu") and not call.startswith("cuda")) or call.startswith("ze")
        category = self.dialect.driver if driver else self.dialect.runtime
        details = self.link(self.around(start, tid, pid) if external_id == AUTO else external_id, ident)
        if self.dialect.device_args == "cuda":
            details["cbid"] = _CBID.get(call, 0)
        elif self.dialect.device_args == "rocm":
            details["cid"] = 100 + sum(map(ord, call)) % 200
        details["correlation"] = ident
        where = self.thread(tid, pid)
        self.add(category, call, (start, dur), where, details | dict(args or {}))
        if flow:
            self.flow_end("s", self.dialect.device_flow, ident, (start, where[0], self.tid if tid is None else tid))
        return ident

    def link(self, external_id: int | None, correlation: int) -> dict[str, object]:
        """The args that name the operator of a runtime or device event."""
        if self.dialect.ids_are_correlations:
            return {self.dialect.external_id: correlation}
        if external_id is None:
            return {self.dialect.external_id: 0} if self.dialect.style_2021 else {}
        return {self.dialect.external_id: external_id}

    def fwdbwd(self, forward: tuple[Time, int], backward: tuple[Time, int]) -> int:
        """The arrow from an operator to its backward; each end is time and thread."""
        ident = self.next("flow")
        if self.dialect.autograd_flow is not None:
            ends = [(time, *self.thread(tid)) for time, tid in (forward, backward)]
            self.flow(self.dialect.autograd_flow, ident, ends[0], ends[1])
        return ident

    def memory(
        self,
        nbytes: int,
        at: Time,
        *,
        addr: int = 0,
        allocated: int | None = None,
        reserved: int = 0,
        device: int | None = None,
        device_type: int | None = None,
        tid: int | None = None,
    ) -> Event:
        """A `[memory]` record; negative bytes are a release, `device` None is the host."""
        kind = 0 if device is None else self.dialect.memory_device_type
        where = {
            "Device Id": -1 if device is None else device,
            "Device Type": kind if device_type is None else device_type,
        }
        event: Event = {"ph": "i"}
        args: dict[str, object] = {
            "Device Type": where["Device Type"],
            "Device Id": where["Device Id"],
            "Bytes": nbytes,
        }
        if self.dialect.memory_totals:
            event["cat"] = "cpu_instant_event"
            args = {"Total Reserved": reserved}
            args |= {} if allocated is None else {"Total Allocated": allocated}
            args |= {"Bytes": nbytes, "Addr": addr, **where, "Ev Idx": self.next("event")}
        self.thread(tid)
        event |= {"s": "t", "name": "[memory]", "pid": self.pid, "tid": self.tid if tid is None else tid}
        return self.raw(event | {"ts": self.stamp(ns(at)), "args": args})

    def instant(self, name: str, at: Time, scope: Literal["g", "p", "t"] = "g") -> Event:
        """An instant without args, such as `Record Window End`."""
        event: Event = {"name": name, "ph": "i", "s": scope, "pid": "Traces", "tid": "Trace PyTorch Profiler"}
        return self.raw(event | {"ts": self.stamp(ns(at))})
