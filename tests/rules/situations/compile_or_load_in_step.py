"""Compiling and loading, at the beginning and later."""

from __future__ import annotations

from collections.abc import Callable

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream
from tests.rules.host_work import compute, looping

COMPILE = "torch/_dynamo/convert_frame.py(800): _compile"


def compiling(when: Callable[[int], bool], *, steps: int = 5) -> TraceBuilder:
    """Steps of 5 ms, some of which compile for 20 ms before that."""

    def step(host: Host, stream: Stream, number: int) -> None:
        if when(number):
            with host.frame(COMPILE):
                host.work(20_000)
        compute(host, stream, 5000)
        host.wait(stream)

    return looping(step, steps=steps)


def fires() -> TraceBuilder:
    """The third and the fifth step compile again."""
    return compiling(lambda number: number in (0, 2, 4))


def fires_on_a_recording_of_set_up() -> TraceBuilder:
    """One step was recorded, and most of it loads code."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(5):
            with host.op("aten::mm"):
                host.call("cuModuleLoadData", 2000)
            compute(host, stream, 500)
        host.wait(stream)

    return looping(step, steps=1)


def quiet() -> TraceBuilder:
    """Everything was compiled before."""
    return compiling(lambda number: False)


def trap_warm_up() -> TraceBuilder:
    """The first recorded step compiles, as it should."""
    return compiling(lambda number: number == 0)


def trap_paused_program() -> TraceBuilder:
    """One launch of many takes 1.2 ms, because the operating system did something else."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for turn in range(20):
            with host.op("aten::mm"):
                host.call("cudaLaunchKernel", 1200 if (number, turn) == (2, 5) else 5)
            compute(host, stream, 2000)
        host.wait(stream)

    return looping(step)
