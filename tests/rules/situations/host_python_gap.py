"""What the host does between launches."""

from __future__ import annotations

from collections.abc import Callable

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream
from tests.rules.host_work import compute, looping, read_value


def pausing(pause: Callable[[int], int], *, frames: bool = True, steps: int = 6, first: bool = False) -> TraceBuilder:
    """Steps of 20 kernels of 100 us, with a pause in their middle (or before all) in a function of the program."""

    def rest(host: Host, number: int) -> None:
        if frames:
            with host.frame("train.py(40): update_statistics"):
                host.work(pause(number))
        else:
            host.work(pause(number))

    def step(host: Host, stream: Stream, number: int) -> None:
        if first:
            rest(host, number)
        for _ in range(10):
            compute(host, stream, 100)
        if not first:
            rest(host, number)
        for _ in range(10):
            compute(host, stream, 100)

    return looping(step, steps=steps)


def fires() -> TraceBuilder:
    """Each step spends 4 ms in a function that launches nothing; the GPU's queue lasts for 1 ms."""
    return pausing(lambda number: 4000)


def fires_without_stacks() -> TraceBuilder:
    """The program without stacks, so that nothing shows what ran."""
    return pausing(lambda number: 4000, frames=False)


def fires_after_a_value_was_read() -> TraceBuilder:
    """Each step reads a value, so that nothing is queued, and then sleeps for 2 ms."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(10):
            compute(host, stream, 100)
        read_value(host, stream)
        with host.frame("train.py(41): sleep"):
            host.work(2000)

    return looping(step)


def quiet() -> TraceBuilder:
    """The function ends before the queue is empty."""
    return pausing(lambda number: 300)


def trap_log_now_and_then() -> TraceBuilder:
    """One step of six writes a log."""
    return pausing(lambda number: 4000 if number == 3 else 1)


def trap_first_step() -> TraceBuilder:
    """The first step prepares something."""
    return pausing(lambda number: 4000 if number == 0 else 1)


def fires_before_the_first_kernel() -> TraceBuilder:
    """The only step begins with 4 ms in a function of the program."""
    return pausing(lambda number: 4000, steps=1, first=True)


def trap_before_the_first_kernel() -> TraceBuilder:
    """A recording of one step begins while no event shows what the program does."""
    return pausing(lambda number: 4000, steps=1, first=True, frames=False)


def trap_preprocessing() -> TraceBuilder:
    """Each step prepares its inputs for 4 ms, which another rule reports."""

    def step(host: Host, stream: Stream, number: int) -> None:
        with host.frame("train.py(40): preprocess_images"):
            host.work(4000)
        for _ in range(20):
            compute(host, stream, 100)

    return looping(step)


def trap_events_are_missing() -> TraceBuilder:
    """Kernels that were launched long before start late, and no recorded event shows what they wait for."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(20):
            stream.free_ns = max(stream.free_ns, host.now) + 1_000_000  # nobody recorded what ran
            compute(host, stream, 100)
        with host.frame("train.py(40): update_statistics"):
            host.work(4000)

    return looping(step)


def trap_no_steps() -> TraceBuilder:
    """Twice ten products with a pause between them, and no steps: nothing comes back."""
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    for _ in range(2):
        for _ in range(10):
            compute(host, stream, 100)
        host.work(20_000)
    return trace
