"""Programs that a GPU computes at some clock, with the counters that the monitor of CUPTI writes beside events."""

from __future__ import annotations

from collections.abc import Sequence

from .hardware import H100, Device
from .timeline import Host, Stream, Work, finish
from .trace import TraceBuilder

HIGHEST = 1980
"""The highest clock of an H100 SXM in MHz."""
_EVERY = 200
"""Microseconds between two samples."""


def clocked(
    clocks: Sequence[int],
    *,
    work: int = 3000,
    rest: int = 0,
    power: float | None = None,
    temperature: float | None = None,
    memory_bandwidth: float | None = None,
    device: Device | None = H100,
) -> TraceBuilder:
    """Steps that compute as long as the clock lets them, and the counters meanwhile.

    Args:
        clocks: Clock of each step in MHz.
        work: Duration of its kernel in us at the highest clock.
        rest: What the host does in us before each launch, while the GPU rests.
        power: In W, of all samples; None: not sampled. So for the next two.
        temperature: In degrees Celsius.
        memory_bandwidth: In percent.
        device: None: the header names none.
    """
    trace = TraceBuilder(devices=(device,) if device else ())
    host, stream = Host(trace, at=10), Stream()
    ends = []
    for number, clock in enumerate(clocks):
        with host.annotation(f"ProfilerStep#{number}"):
            with host.op("aten::mm", rest + 2, 0):
                host.launch(Work("sm90_xmma_gemm_bf16bf16", work * HIGHEST // clock), stream, call_dur=2)
            host.wait(stream)
        ends.append(host.now // 1000)
    finish(trace)
    beside = {"Power (W)": power, "Temperature (C)": temperature, "DRAM BW (%)": memory_bandwidth}
    for at in range(0, ends[-1], _EVERY):
        step = next(number for number, end in enumerate(ends) if at < end)
        trace.counter("SM Clock (MHz)", at, clocks[step])
        for name, value in beside.items():
            if value is not None:
                trace.counter(name, at, value)
    return trace
