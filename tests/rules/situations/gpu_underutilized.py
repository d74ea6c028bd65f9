"""GPUs with and without enough to do."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream
from tests.rules.host_work import compute, looping
from tests.rules.judging import table


def working(gpu: int, host_time: int, *, kernels: int = 10, steps: int = 6) -> TraceBuilder:
    """Steps of kernels that take some time on the GPU, and some to launch."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(kernels):
            host.work(host_time)
            compute(host, stream, gpu)
        host.wait(stream)

    return looping(step, steps=steps)


def fires() -> TraceBuilder:
    """A kernel takes 20 us, launching it 95 us."""
    return working(20, 80)


def trap_memory_of_the_first_step() -> TraceBuilder:
    """The GPU waits for memory in the first of three steps, and for nothing in the others."""

    def step(host: Host, stream: Stream, number: int) -> None:
        if number == 0:
            host.call("cudaMalloc", 8000)
        for _ in range(10):
            compute(host, stream, 400)
        host.wait(stream)

    return looping(step, steps=3)


def fires_on_one_of_two_devices() -> TraceBuilder:
    """One device is busy, the other one mostly waits."""
    other = Stream(7, device=1)

    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(10):
            compute(host, stream, 500)
            compute(host, other, 50)
        host.wait(stream, other)

    return looping(step)


def fires_in_a_table() -> str:
    """Device time is a fifth of the host time."""
    return printed("200.000ms")


def quiet() -> TraceBuilder:
    """The host is always ahead."""
    return working(400, 20)


def quiet_in_a_table() -> str:
    """Device time is nearly the host time, which waits for it."""
    return printed("980.000ms")


def trap_table_without_a_device() -> str:
    """The table of a program on the CPU."""
    rows = [{"Name": "aten::mm", "Self CPU": "1.000s", "CPU total": "1.000s", "# of Calls": 10}]
    return table(rows, cpu="1.000s")


def trap_evaluation_between_steps() -> TraceBuilder:
    """The GPU is busy in the steps; between them the program evaluates on the CPU for a long time."""

    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    for number in range(3):
        with host.annotation(f"ProfilerStep#{number}"):
            for _ in range(10):
                compute(host, stream, 400)
            host.wait(stream)
        host.work(50_000)
    return trace


def trap_warm_up() -> TraceBuilder:
    """The recording contains only a step that loads its code."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(30):
            host.call("cuModuleLoadData", 2000)
            compute(host, stream, 100)
        host.wait(stream)

    return looping(step, steps=1)


def trap_single_kernel() -> TraceBuilder:
    """A test of one operator, recorded with what surrounds it."""
    return working(20, 5000, kernels=1, steps=2)


def trap_work_that_was_not_recorded() -> TraceBuilder:
    """The host waits for a GPU that seems to do nothing: its work belongs to something else."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(10):
            compute(host, stream, 20)
        host.wait(stream)
        host.call("cudaStreamSynchronize", 20_000)

    return looping(step, steps=4)


def printed(device: str) -> str:
    """A table of ten steps and one second of host time."""
    half = {"Self CPU": "500.000ms", "CPU total": "500.000ms"}
    rows = [
        {"Name": "ProfilerStep*", **half, "Self CUDA": "0.000us", "# of Calls": 10},
        {"Name": "aten::mm", **half, "Self CUDA": device, "# of Calls": 99},
    ]
    return table(rows, cpu="1.000s", device=device)
