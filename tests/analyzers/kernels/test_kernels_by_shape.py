"""Kernels by operator and inputs."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.reading import read_built
from tests.rules.gpu_work import addition, product, training
from traceanalyzer.analyzers import kernels
from traceanalyzer.structure.context import Context


def test_one_row_for_each_kernel_and_inputs() -> None:
    small, large = [[8, 8], [8, 8]], [[16, 16], [16, 16]]
    calls = [product("ampere_sgemm_32x32", 30, small), product("ampere_sgemm_32x32", 50, large)]
    found = kernels.by_shape(Context(read_built(training(calls, steps=2))))
    assert [(row.kernel, row.operator, row.input_shapes, row.calls, row.total_ns) for row in found.rows] == [
        ("ampere_sgemm_32x32", "aten::mm", "[[16,16],[16,16]]", 2, 100_000),
        ("ampere_sgemm_32x32", "aten::mm", "[[8,8],[8,8]]", 2, 60_000),
    ]
    assert [row.tensor_cores for row in found.rows] == [False, False]
    assert found.rows[0].input_types == '["float","float"]'
    assert found.rest_ns == 0


def test_kernels_without_an_operator_are_the_rest() -> None:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 10, shapes=[[8, 8], [8, 8]])
    trace.launch_kernel("gemm", 20, 5, at=3)
    trace.kernel("orphan", 40, 7)
    found = kernels.by_shape(Context(read_built(trace)))
    assert [row.kernel for row in found.rows] == ["gemm"]
    assert found.rest_ns == 7000


def test_needs_shapes() -> None:
    reason = kernels.ANALYSES[2].missing(Context(read_built(training([addition(10)], shapes=False))))
    assert reason is not None
    assert "record_shapes" in reason.text
