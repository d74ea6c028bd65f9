"""Loaders with more and with fewer workers than cores."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, finish
from tests.rules.situations.dataloader_bound import WORKERS


def training(workers: int = 8, *, cpus: int | None = 2, wait: int = 100) -> TraceBuilder:
    """Steps of 4 ms and a wait, and what a capture tells of workers and cores."""
    trace = TraceBuilder(devices=())
    host_facts = {} if cpus is None else {"cpus": cpus, "threads": 1}
    loader = {"workers": workers, "persistent_workers": True, "epochs": 1}
    trace.metadata["traceanalyzer"] = {"version": 1, "host": host_facts, "loaders": [loader]}
    host = Host(trace, at=10)
    for number in range(4):
        with host.annotation(f"ProfilerStep#{number}"):
            host.range(WORKERS, wait)
            host.leaf("aten::linear", 4_000)
    return finish(trace)


def fires() -> TraceBuilder:
    """Eight workers on two hardware threads; batches are ready."""
    return training()


def quiet() -> TraceBuilder:
    """Two workers on eight."""
    return training(2, cpus=8)


def trap_as_many_as_cores() -> TraceBuilder:
    """Two workers on two."""
    return training(2)


def trap_slow_loader() -> TraceBuilder:
    """The program waits for its eight workers: more may be right, if they wait for a network."""
    return training(wait=4_000)


def trap_unknown_cores() -> TraceBuilder:
    """A capture without the number of cores."""
    return training(cpus=None)
