"""Waiting for batches, exposed and hidden."""

from __future__ import annotations

from collections.abc import Sequence

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work, finish
from tests.builders.values import Time
from tests.rules.judging import table

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
WORKERS = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def training(loader: Time, gpu: Time, *, steps: int = 3, wait_first: bool = True, name: str = LOADER) -> TraceBuilder:
    """Steps that load a batch, compute on it, and wait for the result; or that load while the GPU computes."""
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    for number in range(steps):
        with host.annotation(f"ProfilerStep#{number}"):
            if wait_first:
                host.range(name, loader)
            with host.op("aten::mm", 5, 5):
                host.launch(Work("ampere_sgemm_128x64_nn", gpu), stream)
            if not wait_first:
                host.range(name, loader)
            host.wait(stream)
    return finish(trace)


def fires() -> TraceBuilder:
    """Each step waits 4 ms for its batch and computes for 6 ms."""
    return training(4000, 6000)


def on_the_host(name: str = LOADER, wait: Time = 4000) -> TraceBuilder:
    """The same training without a GPU."""
    trace = TraceBuilder(devices=())
    host = Host(trace, at=10)
    for number in range(3):
        with host.annotation(f"ProfilerStep#{number}"):
            host.range(name, wait)
            with host.op("aten::mm", 5, 6000):
                pass
    return finish(trace)


def with_frames(frame: str, *, cpus: int = 2) -> TraceBuilder:
    """Steps on the CPU that load for 8 ms, in a call of a built-in function, and compute for 12 ms."""
    trace = TraceBuilder(devices=(), options=("with_stack",))
    trace.metadata["traceanalyzer"] = {"version": 1, "host": {"cpus": cpus, "threads": 1}}
    host = Host(trace, at=10)
    for number in range(3):
        with host.annotation(f"ProfilerStep#{number}"):
            with host.annotation(LOADER), host.frame(frame, before=8000):
                pass
            with host.op("aten::mm", 5, 12_000):
                pass
    return finish(trace)


def with_capture(*fetching: dict[str, int | None] | None, loads: Sequence[Time] = (8000,) * 3) -> TraceBuilder:
    """Steps on one of two cores that load without workers, and compute for 12 ms; what loading took by a capture.

    Args:
        fetching: Of each loader, what it took to prepare its batches; None if that is unknown.
        loads: Time of each step to load, in us.
    """
    trace = TraceBuilder(devices=())
    trace.metadata["traceanalyzer"] = {
        "version": 1,
        "host": {"cpus": 2, "threads": 1},
        "loaders": [{"workers": 0, "epochs": 1, "fetching": each} for each in fetching],
        "timing": {"profiled": {"steps": len(loads), "mean_ns": 20_000_000, "median_ns": 20_000_000}},
    }
    host = Host(trace, at=10)
    for number, load in enumerate(loads):
        with host.annotation(f"ProfilerStep#{number}"):
            host.range(LOADER, load)
            with host.op("aten::mm", 5, 12_000):
                pass
    return finish(trace)


def trap_ready_batches() -> TraceBuilder:
    """Workers have each batch ready; to fetch it takes 1.5 ms of a step of 7.5."""
    return training(1500, 6000, name=WORKERS)


def fires_in_a_table() -> str:
    """Most host time is in the loader's row, and the GPU has little to do."""
    return _table(loader="900.000ms", others="100.000ms", device="200.000ms")


def quiet() -> TraceBuilder:
    """Batches are ready when they are asked for."""
    return training(20, 6000)


def quiet_in_a_table() -> str:
    """The loader's row is small."""
    return _table(loader="10.000ms", others="990.000ms", device="950.000ms")


def trap_hidden_wait() -> TraceBuilder:
    """The program waits long for the next batch, but the GPU works all the while."""
    return training(4000, 6000, wait_first=False)


def _table(loader: str, others: str, device: str) -> str:
    rows = [
        {"Name": LOADER, "Self CPU": loader, "CPU total": loader, "Self CUDA": "0.000us", "# of Calls": 10},
        {"Name": "aten::mm", "Self CPU": others, "CPU total": others, "Self CUDA": device, "# of Calls": 10},
    ]
    return table(rows, cpu="1.000s", device=device)
