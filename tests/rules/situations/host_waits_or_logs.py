"""Programs on a CPU that print, sleep or wait in each step, and some that only seem to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, finish
from tests.rules.host_work import compute, looping
from tests.rules.judging import table

Body = Callable[[Host, int], None]


def on_cpu(body: Body, *, steps: int = 6, **header: Any) -> TraceBuilder:
    """Marked steps of a program without a device; each has 2 ms of operators before its body."""
    trace = TraceBuilder(devices=(), **header)
    host = Host(trace, at=10)
    for number in range(steps):
        with host.annotation(f"ProfilerStep#{number}", 0, 0):
            for _ in range(20):
                host.leaf("aten::addmm", 100)
            body(host, number)
    return finish(trace)


def printing(host: Host, values: int = 40) -> None:
    """Prints a tensor as torch/_tensor_str.py does: 30 us, and 5 us for each value."""
    for name in ("aten::isfinite", "aten::ne", "aten::__and__", "aten::masked_select", "aten::abs", "aten::min"):
        host.leaf(name, 5)
    for _ in range(values):
        host.leaf("aten::select", 3)
        with host.op("aten::item", 1, 0):
            host.leaf("aten::_local_scalar_dense", 1)


def pausing(dur: int, *, every: int = 1, steps: int = 6, **header: Any) -> TraceBuilder:
    """Steps of 2 ms, some of which do nothing for so many us at their end."""
    return on_cpu(lambda host, number: host.work(dur) if number % every == 0 else None, steps=steps, **header)


def fires() -> TraceBuilder:
    """Each step prints a tensor and sleeps for 2 ms."""

    def body(host: Host, number: int) -> None:
        printing(host)
        host.work(2000)

    return on_cpu(body)


def fires_where_it_only_prints() -> TraceBuilder:
    """Each step prints a tensor."""
    return on_cpu(lambda host, number: printing(host))


def fires_in_a_function() -> TraceBuilder:
    """A function of the program sleeps, and stacks were recorded."""

    def body(host: Host, number: int) -> None:
        with host.frame("train.py(40): write_log", before=0, after=0), host.frame("<built-in function sleep>"):
            host.work(2000)

    return on_cpu(body, options=("with_stack",))


def quiet() -> TraceBuilder:
    """One operator after the other, with a little Python between them."""
    return pausing(50)


def trap_now_and_then() -> TraceBuilder:
    """One step of six writes a checkpoint."""
    return pausing(5000, every=6)


def trap_ranks() -> TraceBuilder:
    """A rank of two waits for the other."""
    return pausing(2000, distributed={"rank": 0, "world_size": 2, "backend": "gloo"})


def trap_device() -> TraceBuilder:
    """The host sleeps while the GPU works."""

    def body(host: Host, stream: Any, number: int) -> None:
        compute(host, stream, 3000)
        host.work(2000)
        host.wait(stream)

    return looping(body)


def trap_unread_device() -> TraceBuilder:
    """A GPU was not recorded, for which the program may be waiting."""

    def body(host: Host, number: int) -> None:
        host.leaf("aten::cudnn_convolution", 20)
        host.work(2000)

    return on_cpu(body)


def trap_loader() -> TraceBuilder:
    """The pause is a wait for the loader, which other rules are about."""

    def body(host: Host, number: int) -> None:
        host.range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 2000)

    return on_cpu(body)


def trap_few_values() -> TraceBuilder:
    """The loss and the accuracy are read."""

    def body(host: Host, number: int) -> None:
        for _ in range(2):
            host.leaf("aten::item", 2)

    return on_cpu(body)


def in_a_table() -> str:
    """A printed table of such a program."""
    return table([{"Name": "aten::item", "Self CPU": "1.000ms", "# of Calls": 300}], cpu="1.000ms")
