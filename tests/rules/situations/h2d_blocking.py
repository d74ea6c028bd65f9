"""Copies from pinned memory, waited for and not."""

from __future__ import annotations

from typing import Any

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream
from tests.rules.host_work import compute, looping
from tests.rules.judging import table


def copying(*, pinned: bool = True, wait: bool = True, busy: bool = False, work: int = 400) -> TraceBuilder:
    """Each step copies for 1 ms, prepares its launch for some time, and computes for 3 ms, perhaps on two streams."""
    other = Stream(9)

    def step(host: Host, stream: Stream, number: int) -> None:
        if busy:
            compute(host, other, 9000)
        with host.op("aten::to"), host.op("aten::_to_copy"), host.op("aten::copy_"):
            host.copy("HtoD", 12_000_000, stream, dur=1000, pinned=pinned, wait=wait)
        host.work(work)
        compute(host, stream, 3000)
        host.wait(stream)

    return looping(step)


def fires() -> TraceBuilder:
    """The program waits 1 ms for each copy, and the GPU then 0.4 ms for the program."""
    return copying()


def fires_in_a_table() -> str:
    """As many stream synchronizations as copies, 2 ms each."""
    return printed(copies=20, waits=20)


def quiet() -> TraceBuilder:
    """The program continues while the copy runs."""
    return copying(wait=False)


def quiet_in_a_table() -> str:
    """Two waits for 20 copies."""
    return printed(copies=20, waits=2)


def trap_saturated_gpu() -> TraceBuilder:
    """The program waits for each copy, but the GPU has work on another stream."""
    return copying(busy=True)


def trap_pageable_memory() -> TraceBuilder:
    """non_blocking would do nothing: the memory is not pinned."""
    return copying(pinned=False)


def printed(copies: int, waits: int, loader: str | None = None) -> str:
    """A table of ten steps: GPU 100 ms, other host time 100 ms, waits of 2 ms each."""
    rows = [
        _row("ProfilerStep*", "50.000ms", 10),
        _row("aten::mm", "50.000ms", 10, "60.000ms"),
        _row("cudaStreamSynchronize", f"{2 * waits}.000ms", waits),
        _row("Memcpy HtoD (Pinned -> Device)", "0.000us", copies, "40.000ms"),
    ]
    total = 100 + 2 * waits
    if loader is not None:
        rows.append(_row("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", loader, 10))
        total += int(float(loader.removesuffix("ms")))
    return table(rows, cpu=f"{total}.000ms", device="100.000ms")


def _row(name: str, cpu: str, calls: int, device: str = "0.000us") -> dict[str, Any]:
    return {"Name": name, "Self CPU": cpu, "CPU total": cpu, "Self CUDA": device, "# of Calls": calls}
