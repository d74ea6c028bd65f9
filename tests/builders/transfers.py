"""What moves bytes: copies, fills and collectives."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Literal

from .device import DeviceEvents
from .log import AUTO
from .values import Time, ns

Copy = Literal["HtoD", "DtoH", "DtoD", "PtoP"]
_SIDES = {
    "HtoD": ("Pageable", "Device"),
    "DtoH": ("Device", "Pageable"),
    "DtoD": ("Device", "Device"),
    "PtoP": ("Device", "Device"),
}


class TransferEvents(DeviceEvents):
    """Copies, fills and collectives, each with its launch."""

    def memcpy(
        self,
        kind: Copy,
        nbytes: int,
        start: Time,
        dur: Time,
        *,
        pinned: bool = False,
        at: Time | None = None,
        call: str | None = None,
        call_dur: Time = 5,
        stream: int = 7,
        device: int = 0,
        correlation: int | None = None,
        external_id: int | None = AUTO,
        tid: int | None = None,
        args: Mapping[str, object] | None = None,
    ) -> int:
        """A copy, with its launch and arrow where `at` is given; returns the correlation."""
        call_at = (at, call or self.dialect.calls.copy, call_dur, tid)
        ident, owner = self._launched(call_at, correlation, external_id)
        details = self.link(owner, ident) | self._transfer(ident, nbytes, dur, (device, stream))
        if self.dialect.device_args == "rocm":
            details = self.link(owner, ident) | {"device": device, "stream": stream}
            details |= {"correlation": ident, "kind": kind, "bytes": nbytes}
        name = f"Memcpy {kind} ({self._sides(kind, pinned)})"
        where = (device, stream)
        self.on_device(self.dialect.memcpy, name, (start, dur), where, details | dict(args or {}))
        if at is not None:
            self.flow_end("f", self.dialect.device_flow, ident, (start, *self.stream(device, stream)))
        return ident

    def memset(
        self,
        nbytes: int,
        start: Time,
        dur: Time,
        *,
        at: Time | None = None,
        call: str | None = None,
        call_dur: Time = 4,
        stream: int = 7,
        device: int = 0,
        correlation: int | None = None,
        external_id: int | None = AUTO,
        tid: int | None = None,
    ) -> int:
        """A fill, with its launch and arrow where `at` is given; returns the correlation."""
        call_at = (at, call or self.dialect.calls.fill, call_dur, tid)
        ident, owner = self._launched(call_at, correlation, external_id)
        details = self.link(owner, ident) | self._transfer(ident, nbytes, dur, (device, stream))
        where = (device, stream)
        self.on_device(self.dialect.memset, "Memset (Device)", (start, dur), where, details)
        if at is not None:
            self.flow_end("f", self.dialect.device_flow, ident, (start, *self.stream(device, stream)))
        return ident

    def _launched(
        self,
        call: tuple[Time | None, str, Time, int | None],
        correlation: int | None,
        external_id: int | None,
    ) -> tuple[int, int | None]:
        """Correlation and operator of a device event, after writing its launch where there is one."""
        at, name, dur, tid = call
        owner = None if external_id == AUTO else external_id
        if at is None:
            return self.next("correlation") if correlation is None else correlation, owner
        if external_id == AUTO:
            owner = self.around(at, tid, None)
        launch = self.launch(name, at, dur, correlation=correlation, external_id=owner, flow=True, tid=tid)
        return launch, owner

    def _sides(self, kind: Copy, pinned: bool) -> str:
        host = "Pinned" if pinned else "Pageable"
        if self.dialect.device_args == "rocm":
            host = "Host"
        return " -> ".join(host if side == "Pageable" else side for side in _SIDES[kind])

    def _transfer(self, correlation: int, nbytes: int, dur: Time, where: tuple[int, int]) -> dict[str, object]:
        device, stream = where
        args: dict[str, object] = {
            "device": device,
            "context": 1,
            "stream": stream,
            "correlation": correlation,
        }
        if self.dialect.device_args == "xpu":
            args = self.queue_args(correlation, device, stream)
        args["bytes"] = nbytes
        length = ns(dur)
        if length > 0:
            args["memory bandwidth (GB/s)"] = (Decimal(nbytes) / length).quantize(Decimal("0.0000001"))
        return args

    def collective(
        self,
        name: str,
        start: Time,
        dur: Time,
        *,
        at: Time,
        nelems: int,
        dtype: str = "Float",
        ranks: tuple[int, ...] = (0, 1),
        group: str = "0",
        kernel: str | None = None,
        host_dur: Time = 60,
        stream: int = 24,
        device: int = 0,
        tid: int | None = None,
        annotation: bool = True,
        sequence: int | None = None,
        out_nelems: int | None = None,
    ) -> int:
        """`record_param_comms` at `at` with the `nccl:*` range, its launch, and the NCCL kernel.

        `name` is as in c10d: `all_reduce`, `all_gather_into_tensor`... Returns the correlation.
        """
        begin, length = ns(at), ns(host_dur)
        meta: dict[str, object] = {"Collective name": name.replace("_", ""), "dtype": dtype}
        out = nelems if out_nelems is None else out_nelems
        meta |= {"In msg nelems": nelems, "Out msg nelems": out, "Group size": len(ranks)}
        meta |= {} if sequence is None else {"Seq": sequence}
        meta |= {"In split size": "[]", "Out split size": "[]", "Process Group Name": group}
        meta |= {"Process Group Description": "default_pg", "Process Group Ranks": str(list(ranks))}
        own = {"Global rank start": ranks[0], "Global rank stride": 1, "Rank": ranks[0]}
        owner = self.op("record_param_comms", at, host_dur, tid=tid, args=meta | own)
        inner = Decimal(begin + length // 10).scaleb(-3)
        if annotation:
            self.annotation(f"nccl:{name}", inner, Decimal(length * 8 // 10).scaleb(-3), tid=tid)
        call_at = Decimal(begin + length // 2).scaleb(-3)
        title = "".join(part.capitalize() for part in name.split("_"))
        return self.launch_kernel(
            kernel or f"ncclDevKernel_{title}_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            start,
            dur,
            at=call_at,
            call="cudaLaunchKernelExC" if self.dialect.device_args == "cuda" else None,
            external_id=owner,
            tid=tid,
            device=device,
            stream=stream,
            grid=(8, 1, 1),
            block=(544, 1, 1),
            registers=96,
            shared=83_240,
            occupancy=0,
            args=meta,
        )
