"""Gradients that are filled with zeros, or dropped."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.builders.timeline import Work
from tests.builders.training import Training
from tests.builders.values import Time
from tests.rules.judging import table


def training(fills: int, *, each: Time = 20, steps: int = 3, graph: bool = False) -> TraceBuilder:
    """Steps that fill so many gradients, then compute for a millisecond and wait."""
    loop = Training()
    for _ in range(steps):
        with loop.iteration():
            loop.zero_grad(fills, each=each)
            if graph:
                loop.host.graph([Work("ampere_sgemm_128x64_nn", 500)] * 2, loop.stream)
            else:
                loop.backward(loop.forward())
                loop.step()
    return loop.finish()


def fires() -> TraceBuilder:
    """100 fills, 25 us of host time each, and the GPU has nothing else to do."""
    return training(100)


def fires_in_a_table() -> str:
    """zero_grad calls operators that take a tenth of the host time."""
    return printed(inside="100.000ms", fills=1610)


def quiet() -> TraceBuilder:
    """Gradients are dropped, so the range contains no operator."""
    return training(0)


def quiet_in_a_table() -> str:
    """zero_grad takes time, but calls nothing that fills."""
    return printed(inside="0.000us", fills=0)


def trap_fills_elsewhere() -> TraceBuilder:
    """Memory is filled a hundred times, but not by zero_grad."""
    loop = Training()
    with loop.iteration():
        loop.zero_grad(0)
        for _ in range(100):
            with loop.host.op("aten::zero_"):
                loop.host.fill(4, loop.stream)
        loop.backward(loop.forward())
        loop.step()
    return loop.finish()


def trap_gpu_projection() -> TraceBuilder:
    """The range lies on the stream too, which must not make it a range of the host."""
    trace = training(0)
    trace.gpu_annotation("Optimizer.zero_grad#SGD.zero_grad", 100, 900, external_id=9)
    return trace


def trap_graph() -> TraceBuilder:
    """A captured graph needs gradients that stay where they are."""
    return training(100, graph=True)


def printed(*, inside: str, fills: int) -> str:
    """A table of ten steps."""

    def row(name: str, own: str, total: str, calls: int) -> dict[str, object]:
        return {"Name": name, "Self CPU": own, "CPU total": total, "# of Calls": calls}

    whole = {"100.000ms": "110.000ms"}.get(inside, "10.000ms")
    rows = [
        row("Optimizer.zero_grad#SGD.zero_grad", "10.000ms", whole, 10),
        row("aten::mm", "890.000ms", "890.000ms", 100),
    ]
    rows += [row("aten::zero_", inside, inside, fills)] if fills else []
    return table([*rows, row("ProfilerStep*", "0.000us", "1.000s", 10)], cpu="1.000s")


def on_a_cpu(fills: int, *, adds: bool = True) -> TraceBuilder:
    """Steps without a GPU that fill so many gradients, and add to three of them in 30 us each."""
    loop = Training(trace=TraceBuilder(devices=()), gpu=False)
    for _ in range(3):
        with loop.iteration():
            loop.zero_grad(fills, each=20)
            numbers = loop.forward()
            loop.backward(numbers)
            loop.engine.now = loop.host.now
            for _ in range(3 if adds else 0):
                with loop.engine.op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 0, 0):
                    loop.engine.leaf("aten::add_", 30)
            loop.host.now = loop.engine.now
            loop.step()
    return loop.finish()


def fires_on_a_cpu() -> TraceBuilder:
    """A printed table with 100 fills."""
    return on_a_cpu(100)


def quiet_on_a_cpu() -> TraceBuilder:
    """Gradients are dropped."""
    return on_a_cpu(0)
