"""Waits of the host between its launches."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work
from tests.rules.host_work import compute, looping, read_value


def waiting(after: int, *, long: int = 2000, small: int = 5, count: int = 40, every: int = 2) -> TraceBuilder:
    """Steps of a long kernel, whose result is read, and of small ones, with a value read after every few of them.

    Args:
        after: Time in us that the host takes to launch one of the small kernels.
        long: Time of the long kernel in us.
        small: Time of the small ones in us.
        count: How many small ones.
        every: After how many a value is read.
    """

    def step(host: Host, stream: Stream, number: int) -> None:
        compute(host, stream, long)
        read_value(host, stream)
        for kernel in range(count):
            with host.op("aten::mul", after // 2, after - after // 2):
                host.launch(Work("small_kernel", small), stream)
            if kernel % every == every - 1:
                read_value(host, stream)

    return looping(step)


def fires() -> TraceBuilder:
    """The host waits for 2 ms; without that, it would have launched the forty small kernels meanwhile."""
    return waiting(20)


def quiet() -> TraceBuilder:
    """Nothing is read: the host is ahead."""

    def step(host: Host, stream: Stream, number: int) -> None:
        compute(host, stream, 2000)
        for _ in range(40):
            compute(host, stream, 5)
        host.wait(stream)

    return looping(step)


def trap_slow_launches() -> TraceBuilder:
    """A value is read after every other kernel, but the GPU had hardly anything to do: the host is too slow anyway."""
    return waiting(25, long=5)


def trap_few_waits() -> TraceBuilder:
    """Five values per step, which sync-item-frequent reports."""
    return waiting(20, every=10)
