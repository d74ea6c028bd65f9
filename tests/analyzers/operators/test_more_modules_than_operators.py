"""Nodes of modules have rows in the table of frames, which may be far longer than that of operators."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers.operators import key_averages
from traceanalyzer.analyzers.operators.loops import Repeats
from traceanalyzer.pipeline import analyze
from traceanalyzer.structure.context import Context


def modules_around_few_operators() -> TraceBuilder:
    """300 calls of modules around a loop of 30 operators, each with its kernel, and their backward pass."""
    trace = TraceBuilder()
    trace.step(0, 0, 8000)
    for number in range(300):
        trace.module("Linear_0", number, 3990 - 2 * number, module=number % 3)
    for number in range(30):
        start = 100 + 100 * number
        trace.op("aten::select", start - 10, 5, sequence=100 + number)
        trace.op("aten::mul", start, 50, sequence=number)
        trace.launch_kernel("vectorized_elementwise_kernel", start + 10, 20, at=start + 30)
        back = 4000 + 100 * number
        trace.op("autograd::engine::evaluate_function: MulBackward0", back, 60, sequence=29 - number, tid=7)
        trace.launch_kernel("vectorized_elementwise_kernel", back + 10, 20, at=back + 30, tid=7)
    return trace


def test_every_analysis_survives() -> None:
    report = analyze(read_built(modules_around_few_operators()))
    repeats = report.result("repeats", Repeats)
    assert repeats is not None
    assert [row.operators for row in repeats.rows] == [("aten::select", "aten::mul")]


def test_a_printed_table_can_be_made() -> None:
    averages = key_averages.analyze(Context(read_built(modules_around_few_operators())), by_shape=False)
    assert {row.name for row in averages.rows} >= {"aten::mul", "vectorized_elementwise_kernel"}
