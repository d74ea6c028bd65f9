"""Costs per shape in a trace."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.reading import read_built
from tests.rules.gpu_work import Call, addition, kernel, product, training
from traceanalyzer.analyzers import operators
from traceanalyzer.analyzers.operators import ShapeCost
from traceanalyzer.structure.context import Context


def analyze(trace: TraceBuilder) -> tuple[ShapeCost, ...]:
    return operators.shape_costs(Context(read_built(trace))).rows


def multiplied(dur: int, *shapes: list[int], types: tuple[str, ...] = ("float", "float")) -> Call:
    return Call("aten::mul", [kernel("mul_kernel", dur)], list(shapes), types)


def test_the_same_bytes_in_another_order_are_a_peer() -> None:
    dear, cheap = analyze(training([multiplied(50, [64, 1], [64, 32]), multiplied(20, [64, 32], [64, 1])], steps=2))
    assert (dear.calls, dear.device_ns, dear.device_ns_per_call) == (2, 100_000, 50_000)
    assert (dear.output_elements, dear.elements_moved, dear.bytes_moved) == (2048, 2 * 2048 + 64, 4 * (2 * 2048 + 64))
    assert dear.peer is not None
    assert (dear.peer.input_shapes, dear.peer.saving_ns) == ("[[64,32],[64,1]]", 60_000)
    assert cheap.peer is None


def test_other_types_move_other_bytes() -> None:
    half = ("c10::Half", "c10::Half")
    rows = analyze(training([multiplied(50, [64, 64], [64, 64]), multiplied(20, [64, 64], [64, 64], types=half)]))
    assert [row.peer for row in rows] == [None, None]


def test_products_of_equal_size_with_other_work_are_no_peers() -> None:
    # both move 8 * 8 + 2 * 8 * 4 elements (and 4 * 16 + 4 * (4 + 16)), the sums are of other lengths
    rows = analyze(training([product("gemm", 50, [[8, 9], [9, 8]]), product("gemm", 20, [[16, 7], [7, 4]])]))
    assert [row.output_elements for row in rows] == [64, 64]
    assert [row.peer for row in rows] == [None, None]


def test_operators_without_a_model_have_no_size() -> None:
    (row,) = analyze(training([Call("aten::index", [kernel("index", 10)], [[8, 8], []])]))
    assert (row.output_elements, row.elements_moved, row.bytes_moved, row.peer) == (None, None, None, None)


def test_needs_kernels_and_shapes() -> None:
    without = operators.ANALYSES[2].missing(Context(read_built(training([addition(10)], shapes=False))))
    assert without is not None
    assert "record_shapes" in without.text
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 10, shapes=[[1, 1]])
    reason = operators.ANALYSES[2].missing(Context(read_built(trace)))
    assert reason is not None
    assert "no kernels" in reason.text
