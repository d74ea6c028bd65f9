"""Collectives of no library: communication everywhere but in the step breakdown, which follows METRICS."""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers import communication
from traceanalyzer.analyzers.ranks import rank_facts
from traceanalyzer.knowledge.collectives import operation
from traceanalyzer.pipeline import analyze
from traceanalyzer.structure import resources, step_breakdown
from traceanalyzer.structure.context import Context

REDUCE = "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*, vllm::RankSignals)"
COMPUTE = "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn"
_US = 1000


def built(reduces: str) -> TraceBuilder:
    """Four steps of 1 ms: 300 us of a product, then 600 us of a kernel of which a product hides 100 us."""
    trace = TraceBuilder()
    for number in range(4):
        at = 2000 * number
        trace.step(number, at, 1000)
        trace.op("aten::mm", at + 5, 60)
        trace.launch_kernel(COMPUTE, at + 50, 300, at=at + 10)
        trace.launch_kernel(reduces, at + 350, 600, at=at + 20)
        trace.launch_kernel(COMPUTE, at + 850, 100, at=at + 30, stream=8)
    return trace


def test_they_are_communication_of_a_step() -> None:
    found = resources.analyze(Context(read_built(built(REDUCE))))
    assert found.gpu_ns == 900 * _US
    assert found.communication_ns == 600 * _US
    assert found.exposed_communication_ns == 500 * _US


def test_the_breakdown_of_a_step_knows_libraries_alone() -> None:
    average = step_breakdown.analyze(Context(read_built(built(REDUCE)))).average
    assert average is not None
    assert (average.kernel_ns, average.communication_ns) == (900 * _US, 0)


def test_the_table_of_collectives_has_them() -> None:
    found = communication.on_devices(Context(read_built(built(REDUCE))))
    assert [(row.operation, row.calls, row.total_ns) for row in found.rows] == [("all_reduce", 4, 2400 * _US)]
    assert found.devices[0].whole.exposed_ns == 2000 * _US


def test_the_headline_tells_them_as_it_tells_those_of_a_library() -> None:
    own, library = (analyze(read_built(built(name))).headlines[0] for name in (REDUCE, "ncclDevKernel_AllReduce_Sum"))
    assert own.bound == library.bound == "communication"
    assert own.share == library.share == pytest.approx(0.5)
    assert own.message.text == library.message.text
    assert analyze(read_built(built("my_kernel"))).headlines[0].bound != "communication"


@pytest.mark.parametrize(
    ("kernel", "wanted"),
    [
        (REDUCE, "all_reduce"),
        ("void quickreduce::allreduce_prototype_twoshot<int>(int)", "all_reduce"),
        ("void (anonymous namespace)::multimem_all_reduce_kernel<float, 16>(float*)", "all_reduce"),
        ("void deep_ep::internode_ll::combine<3, 10, 7168, 9>(void*)", "all_to_all"),
        ("void deep_ep::intranode::notify_dispatch<8>(int const*)", "barrier"),
        ("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevComm*)", "reduce_scatter"),
    ],
)
def test_what_they_do(kernel: str, wanted: str) -> None:
    assert operation(kernel) == wanted


def test_ranks_are_compared_by_their_own_kernels_too_which_need_not_end_at_once() -> None:
    facts = [rank_facts.analyze(Context(read_built(built(name)))) for name in (REDUCE, "ncclDevKernel_AllReduce_Sum")]
    assert [len(found.collectives.start_ns) for found in facts] == [4, 4]
    assert [[(kind.is_own, kind.is_even) for kind in found.kinds] for found in facts] == [
        [(True, False)],
        [(False, True)],
    ]
