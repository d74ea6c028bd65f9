"""Which operators compute on the CPU for long: what counts, and the idle time of the device meanwhile."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers.operators.on_cpu import ANALYSES, CpuOperator, CpuOperators, analyze
from traceanalyzer.structure.context import Context


def trace(dur: int = 300, *, optimizer: bool = False) -> TraceBuilder:
    """Two steps of 1 ms: an operator of `dur` us with one inside, 100 us of it beside a kernel; times in us."""
    built = TraceBuilder()
    for number in range(2):
        at = 1000 * number
        built.step(number, at, 990)
        built.op("aten::mm", at + 10, 20)
        built.launch("cudaLaunchKernel", at + 15, 5, correlation=number + 1)
        built.kernel("sgemm", at + 50, 150, correlation=number + 1)
        if optimizer:
            built.annotation("Optimizer.step#Adam.step", at + 95, dur + 10)
        built.op("aten::sort", at + 100, dur)
        built.op("aten::copy_", at + 110, dur - 20)
    return built


def found(built: TraceBuilder) -> CpuOperators:
    return analyze(Context(read_built(built)))


def test_the_outermost_operator_counts_and_the_idle_time_in_it() -> None:
    assert found(trace()) == CpuOperators((CpuOperator("aten::sort", False, 2, 2, 600_000, 400_000, 100_000),))


def test_those_of_optimizers_are_told_apart() -> None:
    (row,) = found(trace(optimizer=True)).rows
    assert row.in_optimizer


def test_operators_of_less_than_200_us_do_not_count() -> None:
    assert found(trace(200)).rows
    reason = ANALYSES[0].missing(Context(read_built(trace(199))))
    assert reason is not None
    assert "no operator computes" in reason.text
