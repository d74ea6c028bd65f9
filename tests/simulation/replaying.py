"""Models of traces that tests build, and what edits save of their steps; times in microseconds."""

from __future__ import annotations

from typing import cast

from hypothesis import assume

from tests.builders import TraceBuilder
from tests.random_traces import Plan
from tests.reading import read_built
from traceanalyzer.simulation import model
from traceanalyzer.simulation.edits import Edit
from traceanalyzer.simulation.model import Model
from traceanalyzer.structure.context import Context


def synchronized(call: str = "cudaStreamSynchronize") -> TraceBuilder:
    """The host launches 100 of work, and waits from 20 to 118 for it; then 50 more of its own."""
    trace = TraceBuilder()
    trace.step(1, 0, 168)
    trace.op("aten::item", 5, 115)
    trace.launch_kernel("kernel", 15, 100, at=10, call_dur=5)
    trace.launch(call, 20, 98)
    return trace


def model_of(trace: TraceBuilder) -> Model:
    """The causal model of a trace."""
    return model.require(Context(read_built(trace)))


def modelled(plan: Plan) -> Model:
    """The causal model of a random trace; examples without steps to model do not count."""
    found = model.of(Context(read_built(plan.build())))
    assume(found is not None)
    return cast("Model", found)


def saved(found: Model, *edits: Edit) -> float:
    """What edits save of the step in microseconds, residuals kept."""
    before, after = (found.elapsed_ns(changes, keep_residuals=True) for changes in ((), edits))
    return (before - after) / 1000
