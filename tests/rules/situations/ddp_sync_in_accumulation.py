"""Exchanges of gradients, once and several times per update."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.builders.gloo import GlooTraining
from tests.builders.training import Training
from tests.rules.judging import table


def training(reduces: list[int], *, steps: int = 3, reduce_dur: list[int] | None = None) -> TraceBuilder:
    """Steps with one backward pass per entry, each with so many all-reduces."""
    loop = Training()
    for _ in range(steps):
        with loop.iteration():
            loop.zero_grad()
            for number, count in enumerate(reduces):
                dur = reduce_dur[number] if reduce_dur else 100
                loop.backward(loop.forward(), reduces=count, reduce_dur=dur)
            loop.step()
    return loop.finish()


def fires() -> TraceBuilder:
    """Four passes, and each exchanges all gradients."""
    return training([5, 5, 5, 5])


def quiet() -> TraceBuilder:
    """One pass per update."""
    return training([5])


def trap_no_sync() -> TraceBuilder:
    """Only the last pass exchanges."""
    return training([0, 0, 0, 5])


def trap_statistics() -> TraceBuilder:
    """Early passes exchange a loss, the last one all gradients."""
    return training([5, 5, 5, 5], reduce_dur=[2, 2, 2, 100])


def trap_sharded() -> TraceBuilder:
    """Sharded gradients are reduced and scattered after each pass, because whole ones have no room."""
    trace = training([5, 5, 5, 5])
    for event in trace.events:
        name = str(event["name"]).replace("AllReduce", "ReduceScatter").replace("all_reduce", "reduce_scatter")
        event["name"] = name
    return trace


def trap_several_optimizers() -> TraceBuilder:
    """Each pass is followed by its own update."""
    loop = Training()
    for _ in range(3):
        with loop.iteration():
            for _ in range(2):
                loop.zero_grad()
                loop.backward(loop.forward(), reduces=5)
                loop.step()
    return loop.finish()


def trap_gpu_projection() -> TraceBuilder:
    """Ranges of the optimizer on the stream end no update."""
    loop = Training()
    for _ in range(3):
        with loop.iteration():
            loop.backward(loop.forward(), reduces=5)
            loop.trace.gpu_annotation("Optimizer.step#SGD.step", loop.host.now // 1000, 5, external_id=1)
            loop.step()
    return loop.finish()


def in_a_table() -> str:
    """A printed table of such a program."""
    return table([{"Name": "nccl:all_reduce", "Self CPU": "1.000ms", "# of Calls": 3}], cpu="1.000ms")


def over_gloo(reduces: list[list[int]]) -> TraceBuilder:
    """Three steps on the CPU with one backward pass per entry, each of which waits for these all-reduces."""
    loop = GlooTraining()
    for number in range(3):
        with loop.host.annotation(f"ProfilerStep#{number}"):
            for lengths in reduces:
                loop.forward()
                loop.backward(lengths)
            loop.update()
    return loop.finish()


def fires_over_gloo() -> TraceBuilder:
    """Three passes, each with an all-reduce of 600 us."""
    return over_gloo([[600], [600], [600]])


def trap_no_sync_over_gloo() -> TraceBuilder:
    """Only the last pass exchanges."""
    return over_gloo([[], [], [600]])
