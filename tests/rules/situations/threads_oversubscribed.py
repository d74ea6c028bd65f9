"""Programs on a CPU with more threads for an operator than cores, or as many."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, finish
from tests.rules.judging import table


def working(dur: int, *, threads: int | None = 16, cpus: int = 2, steps: int = 4) -> TraceBuilder:
    """Steps of ten matrix products of 128 x 128 x 128, each in so many us.

    One core needs 4_194_304 operations / 16 per ns + 3 * 65_536 bytes / 4 per ns + 10 us = 321.3 us for each.
    """
    host = {} if threads is None else {"host": {"cpus": cpus, "threads": threads}}
    trace = TraceBuilder(devices=(), options=("record_shapes",), metadata={"traceanalyzer": {"version": 1, **host}})
    program = Host(trace, at=10)
    for number in range(steps):
        with program.annotation(f"ProfilerStep#{number}", 0, 0):
            for _ in range(10):
                shapes = [[128, 128], [128, 128]]
                program.leaf("aten::mm", dur, shapes=shapes, types=["float", "float"])
                program.work(10)
    return finish(trace)


def fires() -> TraceBuilder:
    """16 threads on two cores: each product takes 2 ms."""
    return working(2000)


def quiet() -> TraceBuilder:
    """The products take what one core needs."""
    return working(300)


def trap_as_many_threads_as_cores() -> TraceBuilder:
    """Other programs have the cores."""
    return working(2000, threads=2)


def trap_unknown_threads() -> TraceBuilder:
    """The capture does not know how many threads there are."""
    return working(2000, threads=None)


def in_a_table() -> str:
    """A printed table of such a program."""
    return table([{"Name": "aten::mm", "Self CPU": "1.000ms", "# of Calls": 3}], cpu="1.000ms")
