"""Calls that allocate and free."""

from __future__ import annotations

from collections.abc import Callable

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream
from tests.rules.host_work import compute, looping


def allocating(
    when: Callable[[int], bool], *, call: str = "cudaMalloc", dur: int = 300, steps: int = 6
) -> TraceBuilder:
    """Steps of 4 ms, some of which ask the driver for memory before they launch."""

    def step(host: Host, stream: Stream, number: int) -> None:
        with host.op("aten::empty"):
            if when(number):
                host.call(call, dur)
        compute(host, stream, 4000)
        host.wait(stream)

    return looping(step, steps=steps)


def fires() -> TraceBuilder:
    """Every step allocates for 0.3 ms while the GPU has nothing to do."""
    return allocating(lambda number: True)


def quiet() -> TraceBuilder:
    """PyTorch reuses its memory."""
    return allocating(lambda number: False)


def trap_warm_up() -> TraceBuilder:
    """The first step allocates what the others reuse."""
    return allocating(lambda number: number == 0)


def fires_where_the_gpu_works() -> TraceBuilder:
    """The GPU waits for the first step's calls; later steps allocate while it works."""

    def step(host: Host, stream: Stream, number: int) -> None:
        if number == 0:
            host.call("cudaMalloc", 8000)
        compute(host, stream, 4000)
        host.call("cudaMalloc", 300)
        host.wait(stream)

    return looping(step, steps=3)


def trap_new_shape() -> TraceBuilder:
    """One later batch is larger than all before."""
    return allocating(lambda number: number in (0, 3))


def trap_expandable_segments() -> TraceBuilder:
    """Memory is mapped, which is made for use in the loop."""
    return allocating(lambda number: True, call="cuMemMap")
