"""A step with many small kernels."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work
from tests.rules.host_work import looping, read_value
from tests.rules.situations.gpu_underutilized import working


def fires() -> TraceBuilder:
    """Forty kernels of 5 us per step, one launched every 25 us."""
    return working(5, 10, kernels=40)


def fires_with_stacks() -> TraceBuilder:
    """The program, recorded with stacks, which slow the host down."""
    trace = fires()
    trace.options = ("with_stack",)
    return trace


def fires_between_values() -> TraceBuilder:
    """A value is read after every tenth kernel, so no graph could hold more than ten."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for kernel in range(40):
            with host.op("aten::mm", 10, 10):
                host.launch(Work("small_kernel", 5), stream)
            if kernel % 10 == 9:
                read_value(host, stream)

    return looping(step)


def quiet() -> TraceBuilder:
    """Kernels take longer than their launches."""
    return working(200, 10, kernels=40)


def trap_cost_of_recording_stacks() -> TraceBuilder:
    """The GPU waits for 8 % of the time for a host that the recording of stacks has slowed down."""
    trace = working(183, 185, kernels=40)
    trace.options = ("with_stack",)
    return trace


def trap_graphs() -> TraceBuilder:
    """The kernels come from a graph, one launch for forty of them."""

    def step(host: Host, stream: Stream, number: int) -> None:
        host.work(100)
        host.graph([Work("small_kernel", 5)] * 40, stream)
        host.wait(stream)

    return looping(step)


def trap_one_long_gap() -> TraceBuilder:
    """Kernels follow each other closely, but once per step the host does something else for 5 ms."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(40):
            with host.op("aten::mm", 5, 5):
                host.launch(Work("ampere_sgemm_128x64_nn", 100), stream)
        host.work(10_000)

    return looping(step)
