"""Tests of the rule `kernel-dominates`: numbers worked out by hand, and edges of thresholds.

The programs: a kernel of one name with most of the GPU's time, and others.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work, finish
from tests.rules.judging import findings

ADDITION = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::detail::Array>"


def program(name: str, *, dur: int = 900, calls: int = 2, other: int = 200, pause: int = 0) -> TraceBuilder:
    """Steps that launch a kernel, another one, and do nothing for some time."""
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    for number in range(3):
        with host.annotation(f"ProfilerStep#{number}"):
            with host.op("aten::add", 1, 0):
                host.launch(Work(ADDITION, other), stream)
            for _ in range(calls):
                host.launch(Work(name, dur, grid=(128, 1, 1), block=(256, 1, 1)), stream)
            host.wait(stream)
            host.work(pause)
    return finish(trace)


def fires() -> TraceBuilder:
    """A product that somebody wrote: 1.8 ms of 2 ms."""
    return program("my_matmul_kernel")


def fires_of_unknown_kind() -> TraceBuilder:
    """Nothing shows what it computes."""
    return program("step_the_world")


def quiet() -> TraceBuilder:
    """It takes a third of the time."""
    return program("my_matmul_kernel", calls=1, dur=100)


@pytest.mark.parametrize(
    "name",
    ["ampere_sgemm_128x64_nn", "Cijk_Ailk_Bljk_HHS", "void cutlass::Kernel<x>", "triton_poi_fused_add_0", ADDITION],
)
def test_kernels_of_libraries_have_rules_of_their_own(name: str) -> None:
    assert not findings(program(name), RULE)


def trap_idle_gpu() -> TraceBuilder:
    """The GPU does nothing for most of the step."""
    return program("my_matmul_kernel", pause=10_000)


def trap_collective() -> TraceBuilder:
    """Another rank is waited for."""
    return program("ncclDevKernel_AllReduce_Sum_f32_RING_LL")


def trap_short() -> TraceBuilder:
    """Launching it takes longer than running it."""
    return program("my_matmul_kernel", dur=8, calls=40, other=10)


RULE = "kernel-dominates"


def test_it_tells_launches_and_the_call_of_a_library() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == pytest.approx(0.9)
    assert "in 2 launches of 900 us, most of that time with [128,1,1] blocks of [256,1,1] threads" in str(
        finding.summary
    )
    assert "torch.matmul" in finding.advice.text
    (unknown,) = findings(fires_of_unknown_kind(), RULE)
    assert "Compare" not in unknown.advice.text


def test_edge_kernel_ns() -> None:
    assert findings(fires(), RULE, {"kernel_ns": 900_000})
    assert findings(fires(), RULE, {"kernel_ns": 900_001}) == []


@pytest.mark.parametrize(("sorting", "found"), [(900, 1), (100, 0)])
def test_sorting_is_told_what_takes_only_the_largest(sorting: int, found: int) -> None:
    """torch.sort calls itself; its kernels are of a library."""
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    for number in range(3):
        with host.annotation(f"ProfilerStep#{number}"):
            with host.op("aten::sort", 3, 1), host.op("aten::sort", 2, 1):
                host.launch(Work("void cub::DeviceRadixSortOnesweepKernel<float>", sorting), stream)
            with host.op("aten::add", 1, 0):
                host.launch(Work(ADDITION, 200), stream)
            host.wait(stream)
    told = [each for each in findings(finish(trace), RULE) if "torch.topk" in each.advice.text]
    assert len(told) == found
    assert all("takes 900 us per step (82 %" in each.summary.text for each in told)
