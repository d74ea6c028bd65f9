"""Tables of kernels."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.builders import ROCM, TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers import kernels
from traceanalyzer.analyzers.kernels import Kernel, KernelByOperator
from traceanalyzer.structure.context import Context


def by_name(trace: TraceBuilder) -> tuple[Kernel, ...]:
    return kernels.by_name(Context(read_built(trace))).rows


def by_operator(trace: TraceBuilder) -> tuple[KernelByOperator, ...]:
    return kernels.by_operator(Context(read_built(trace))).rows


def test_figures_of_a_kernel() -> None:
    trace = TraceBuilder()
    for start, dur in ((0, "1.5"), (10, "2.5"), (20, 5)):
        trace.kernel("my_kernel", start, dur)
    assert by_name(trace) == (
        Kernel("my_kernel", 3, 9_000, 3_000.0, 1_500, 5_000, pytest.approx(1 / 108, abs=1e-6), 0.5, None, "other"),  # type: ignore[arg-type]
    )


def test_every_kernel_counts_whoever_launched_it() -> None:
    trace = TraceBuilder()
    trace.step(1, 100, 50)
    trace.kernel("k", 0, 10)
    trace.launch_kernel("k", 110, 10, at=105)
    trace.kernel("k", 500, 10)
    trace.memcpy("HtoD", 4096, 120, 30)
    (row,) = by_name(trace)
    assert (row.calls, row.total_ns) == (3, 30_000)


def test_means_are_weighted_by_duration_over_what_is_known() -> None:
    trace = TraceBuilder()
    trace.kernel("k", 0, 30, blocks_per_sm=Decimal(2), occupancy=100)
    trace.kernel("k", 30, 10, blocks_per_sm=Decimal(6), occupancy=20)
    trace.kernel("k", 40, 100, occupancy=None)
    args = trace.events[-1]["args"]
    assert isinstance(args, dict)
    del args["blocks per SM"]
    (row,) = by_name(trace)
    assert row.mean_blocks_per_sm == pytest.approx((30 * 2 + 10 * 6) / 40)
    assert row.mean_est_achieved_occupancy == pytest.approx((30 * 1.0 + 10 * 0.2) / 40)


def test_what_is_not_recorded_is_unknown() -> None:
    trace = TraceBuilder(ROCM)
    trace.kernel("k", 0, 10)
    row = by_name(trace)[0]
    assert (row.mean_blocks_per_sm, row.mean_est_achieved_occupancy) == (None, None)


def test_kernels_without_duration_have_no_weighted_mean() -> None:
    trace = TraceBuilder()
    trace.kernel("k", 0, 0)
    row = by_name(trace)[0]
    assert (row.calls, row.total_ns, row.min_ns, row.max_ns, row.mean_blocks_per_sm) == (1, 0, 0, 0, None)


def test_the_longest_first_and_ties_by_name() -> None:
    trace = TraceBuilder()
    for start, (name, dur) in enumerate([("b", 10), ("c", 5), ("a", 10), ("d", 20)]):
        trace.kernel(name, 100 * start, dur)
    assert [row.name for row in by_name(trace)] == ["d", "a", "b", "c"]


@pytest.mark.parametrize(
    ("name", "used"),
    [("volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_tn", True), ("volta_sgemm_128x64_nn", False), ("mine", None)],
)
def test_tensor_cores_by_name(name: str, used: bool | None) -> None:
    trace = TraceBuilder()
    trace.kernel(name, 0, 10)
    assert by_name(trace)[0].tensor_cores is used


def launching() -> TraceBuilder:
    """Two operators that launch one kernel, in two configurations; an annotation; a stray launch."""
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 50)
    trace.op("aten::relu", 100, 50)
    trace.annotation("my range", 200, 50)
    trace.launch_kernel("k", 20, 10, at=10, grid=(54, 1, 1))
    trace.launch_kernel("k", 40, 10, at=30, grid=(54, 1, 1))
    trace.launch_kernel("k", 60, 7, at=40, grid=(108, 1, 1))
    trace.launch_kernel("k", 120, 10, at=110, grid=(54, 1, 1))
    trace.launch_kernel("k", 220, 5, at=210, grid=(54, 1, 1))
    trace.kernel("k", 300, 3, grid=(54, 1, 1))
    return trace


def test_kernels_by_operator_and_configuration() -> None:
    found = [
        (row.operator, row.grid, row.calls, row.total_ns, row.min_ns, row.max_ns) for row in by_operator(launching())
    ]
    assert found == [
        ("aten::mm", "[54,1,1]", 2, 20_000, 10_000, 10_000),
        ("aten::relu", "[54,1,1]", 1, 10_000, 10_000, 10_000),
        (None, "[54,1,1]", 2, 8_000, 3_000, 5_000),
        ("aten::mm", "[108,1,1]", 1, 7_000, 7_000, 7_000),
    ]


def test_time_that_belongs_to_no_operator() -> None:
    assert kernels.by_operator(Context(read_built(launching()))).unattributed_ns == 8_000


def test_configurations_are_compared_in_full() -> None:
    trace = TraceBuilder()
    configurations = [
        {"block": (64, 1, 1)},
        {"block": (128, 1, 1)},
        {"registers": 40},
        {"shared": 1024},
        {"registers": 40},
    ]
    for start, configuration in enumerate(configurations):
        trace.kernel("k", 100 * start, 10, **configuration)  # type: ignore[arg-type]
    rows = by_operator(trace)
    assert [row.calls for row in rows] == [2, 1, 1, 1]
    assert (rows[0].registers_per_thread, rows[0].shared_memory_bytes) == (40, 0)
    assert sorted(row.block for row in rows) == ["[128,1,1]"] * 3 + ["[64,1,1]"]


def test_both_tables_hold_the_same_time() -> None:
    trace = launching()
    assert sum(row.total_ns for row in by_name(trace)) == sum(row.total_ns for row in by_operator(trace))
    assert sum(row.calls for row in by_name(trace)) == sum(row.calls for row in by_operator(trace))


def test_generated_kernels_tell_their_operators_and_their_file() -> None:
    trace = TraceBuilder()
    told = {"kernel_backend": "triton", "kernel_file": "/tmp/ab/cab.py", "kernel_hash": "cab"}
    trace.op("triton_poi_fused_add_mul_3", 0, 20, args=told)
    trace.launch_kernel("triton_poi_fused_add_mul_3", 30, 10, at=5)
    trace.op("aten::mm", 50, 20)
    trace.launch_kernel("ampere_sgemm_128x64_nn", 80, 5, at=55)
    made, product = by_name(trace)
    assert (made.kernel_class, made.generated_kind) == ("elementwise", "pointwise")
    assert made.fused_operators == ("add", "mul")
    assert (made.backend, made.source_file, made.source_hash) == ("triton", "/tmp/ab/cab.py", "cab")
    assert (product.kernel_class, product.generated_kind, product.fused_operators) == ("gemm", None, ())
    assert (product.backend, product.source_file, product.source_hash) == (None, None, None)


def test_nodes_of_graphs_are_counted_where_the_trace_has_their_ids() -> None:
    trace = TraceBuilder()
    for replay in range(3):
        at = 100 * replay
        names = ("in_two_nodes", "in_two_nodes", "once")
        trace.graph_launch(at, 5, [(name, at + 10 * place, 5, {}) for place, name in enumerate(names, 1)])
    trace.kernel("alone", 400, 5)
    assert {row.name: (row.calls, row.graph_nodes) for row in by_name(trace)} == {
        "in_two_nodes": (6, 2),
        "once": (3, 1),
        "alone": (1, None),
    }
