"""Marked steps of which one may take longer."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream
from tests.rules.host_work import compute, looping


def steps(*durations: int) -> TraceBuilder:
    """One step for each duration in us, of one kernel that is waited for."""

    def body(host: Host, stream: Stream, number: int) -> None:
        compute(host, stream, durations[number])
        host.wait(stream)

    return looping(body, steps=len(durations))


def fires() -> TraceBuilder:
    """One of seven steps takes twice as long."""
    return steps(1000, 1000, 1000, 2000, 1000, 1000, 1000)


def quiet() -> TraceBuilder:
    """All steps take about as long."""
    return steps(1000, 1010, 990, 1020, 1000, 980, 1000)


def trap_too_few_to_tell() -> TraceBuilder:
    """Three steps are too few to decide which one is unusual."""
    return steps(1000, 2000, 1000)
