"""The memory of traces is told and judged as that of snapshots: kinds, stacks, and what changes save."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.builders.allocator import Allocator
from tests.builders.timeline import Host, Stream, Work, finish
from tests.reading import read_built
from traceanalyzer import pipeline
from traceanalyzer.analyzers.memory import DeviceMemoryUse, MemoryUse
from traceanalyzer.report.model import Report
from traceanalyzer.simulation.memory_replay import MemoryReplay, ReplayedDevice

GIB = 1 << 30
LAYERS = 4


def training(scale: float = 1.0, *, held: int = 4, frees_late: bool = False) -> TraceBuilder:
    """Steps of four layers of 8 GiB of activations each, whose backward pass makes a gradient of 1 GiB."""
    trace = TraceBuilder(options=("profile_memory",))
    thread, engine, stream = Host(trace, at=10), Host(trace, at=10, tid=77), Stream()
    memory = Allocator(0, held=held * GIB)
    gradients: list[int] = []

    def make(host: Host, gib: float) -> int:
        return memory.allocate(host, int(gib * scale * GIB))

    def zero() -> None:
        with thread.annotation("Optimizer.zero_grad#SGD.zero_grad"):
            thread.now += 1000
            while gradients:
                memory.free(thread, gradients.pop())

    for step in range(3):
        with thread.annotation(f"ProfilerStep#{step}"):
            saved = []
            for layer in range(LAYERS):
                number = step * LAYERS + layer
                with thread.module(f"Block_{layer}"), thread.op("aten::linear", 20, 2, sequence=number):
                    saved.append((number, make(thread, 8)))
                    thread.launch(Work("ampere_sgemm_128x64_nn", 500), stream)
            if frees_late:
                zero()
            engine.now = thread.now
            for number, block in reversed(saved):
                name = "autograd::engine::evaluate_function: LinearBackward0"
                with engine.op(name, 20, 2, sequence=number, forward_thread=thread.tid):
                    gradients.append(make(engine, 1))
                    memory.free(engine, block)
            thread.now = engine.now
            with thread.annotation("Optimizer.step#SGD.step"), thread.op("aten::add_", 20, 2):
                memory.free(thread, make(thread, 0.5))
            if not frees_late:
                zero()
            thread.wait(stream)
    return finish(trace)


def report(trace: TraceBuilder) -> Report:
    return pipeline.analyze(read_built(trace))


def used(found: Report) -> DeviceMemoryUse:
    memory = found.result("memory", MemoryUse)
    assert memory is not None
    return memory.devices[0]


def replayed(found: Report) -> ReplayedDevice:
    memory = found.result("memory_replay", MemoryReplay)
    assert memory is not None
    return memory.devices[0]
