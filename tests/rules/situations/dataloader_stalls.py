"""Waits for batches of which some are far longer."""

from __future__ import annotations

from collections.abc import Sequence

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream
from tests.rules.host_work import compute, looping
from tests.rules.situations.dataloader_bound import LOADER


def waiting(waits: Sequence[int], *, hidden: bool = False) -> TraceBuilder:
    """One step of 5 ms of computing for each wait, in us; waits come before the work, or run beside it."""

    def step(host: Host, stream: Stream, number: int) -> None:
        if not hidden:
            host.range(LOADER, waits[number])
        compute(host, stream, 5000)
        if hidden:
            host.range(LOADER, waits[number])
        host.wait(stream)

    return looping(step, steps=len(waits))


def fires() -> TraceBuilder:
    """Every fifth batch takes 4 ms instead of 100 us."""
    return waiting([4000 if number % 5 == 4 else 100 for number in range(20)])


def fires_at_the_start_of_an_epoch() -> TraceBuilder:
    """Starting the workers takes 20 ms."""
    return waiting([20_000] + [100] * 19)


def quiet() -> TraceBuilder:
    """Batches take from 80 to 250 us."""
    return waiting([80 + 17 * (number % 11) for number in range(20)])


def trap_handful_of_steps() -> TraceBuilder:
    """Four waits, one of them long: too few to know the usual length."""
    return waiting([100, 100, 4000, 100])


def trap_cold_cache() -> TraceBuilder:
    """The first batches come from the disk, the others from its cache."""
    return waiting([900, 600, 400, 300, *[200] * 16])


def trap_hidden_stalls() -> TraceBuilder:
    """Some batches are late, but the GPU is busy all the while."""
    return waiting([4000 if number % 5 == 4 else 100 for number in range(20)], hidden=True)
