"""The memory of traces is told and judged as that of snapshots: kinds, stacks, and what changes save."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.builders.allocator import Allocator
from tests.builders.hardware import A100
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
            while gradients:
                memory.free(thread, gradients.pop())

    for step in range(3):
        with thread.annotation(f"ProfilerStep#{step}"):
            saved = []
            for layer in range(LAYERS):
                number = step * LAYERS + layer
                with thread.frame("Block", layer), thread.op("aten::linear", 20, 2, sequence=number):
                    saved.append((number, make(thread, 8)))
                    thread.launch(Work("ampere_sgemm_128x64_nn", 500), stream)
            if frees_late:
                zero()
            engine.now = thread.now
            for number, block in reversed(saved):
                name = "autograd::engine::evaluate_function: LinearBackward0"
                with engine.op(name, 20, 2, sequence=number, fwd_thread=1):
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


def test_kinds_at_the_peak() -> None:
    """All activations and the first gradient, beside what was held before the recording."""
    found = used(report(training()))
    assert {row.kind: row.held_bytes // GIB for row in found.kinds} == {"activations": 32, "unknown": 4, "gradients": 1}
    assert found.over_time is not None
    levels = zip(*(row.level_bytes for row in found.over_time.kinds), strict=True)
    assert tuple(map(sum, levels)) == found.allocated.level_bytes
    assert found.stacks is not None
    assert sum(size for size, depth in zip(found.stacks.held_bytes, found.stacks.depth, strict=True) if not depth) == (
        found.peak_allocated_bytes
    )


def test_what_changes_save_and_what_a_trace_cannot_know() -> None:
    """Checkpointed, one layer keeps its 8 GiB; the other three keep the one block that the next one begins with."""
    found = replayed(report(training()))
    assert (found.obstacle, found.recorded_peak_bytes) == ("trace", None)
    saved = {one.idea: one.saved for one in found.changes}
    assert (saved["halved"].requested_least, saved["halved"].requested_most) == (16 * GIB, 16 * GIB)
    assert all(one.reserved_least is None and one.reserved_most is None for one in saved.values())


def test_rules_judge_traces_that_fill_the_device() -> None:
    """Half the micro-batch frees 16 of 37 GiB. A quarter of it leaves room, and nobody needs to be told."""
    assert A100.memory > 37 * GIB
    (found,) = [one for one in report(training()).findings if one.rule == "activations-large"]
    assert found.severity in ("medium", "high")
    assert "by an unknown amount" in found.advice.text
    assert not [one for one in report(training(0.25, held=1)).findings if one.rule == "activations-large"]


def test_gradients_that_are_held_late() -> None:
    """Four of 1 GiB live beside all activations."""
    saved = {one.idea: one.saved for one in replayed(report(training(frees_late=True))).changes}
    assert (saved["gradients-freed"].requested_least, saved["gradients-freed"].requested_most) == (3 * GIB, 3 * GIB)
    assert "gradients-freed" not in {one.idea for one in replayed(report(training())).changes}
