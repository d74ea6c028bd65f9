"""Tests of the rule `sm-underfilled`: numbers worked out by hand, and edges of thresholds.

The programs: kernels with fewer blocks than multiprocessors. The V100 has 80.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.rules.gpu_work import ADDITION, Call, addition, kernel, training
from tests.rules.judging import findings, skipped
from tests.rules.loader.test_dataloader_bound import fires_in_a_table

NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>"
PRODUCT = "volta_sgemm_128x64_nn"


def model(blocks: int, dur: int = 4000, *, streams: int = 1) -> TraceBuilder:
    """Kernels with some blocks, beside as much time in a kernel that fills the device."""
    small = Call("aten::mm", [kernel(PRODUCT, dur, grid=(blocks, 1, 1))])
    return training([small, addition(dur)], streams=streams)


def fires() -> TraceBuilder:
    """20 blocks for half of the time."""
    return model(20)


def quiet() -> TraceBuilder:
    """Two blocks for each multiprocessor."""
    return model(160)


def trap_streams_that_overlap() -> TraceBuilder:
    """A kernel of another stream fills what this one leaves empty."""
    return model(20, streams=2)


def trap_decoding() -> TraceBuilder:
    """One token at a time: many kernels of a few microseconds, bound by latency."""
    return training([Call("aten::native_layer_norm", [kernel(NORM, 6, grid=(2, 1, 1))] * 100)])


def trap_collectives() -> TraceBuilder:
    """Kernels that communicate leave the multiprocessors to others on purpose."""
    reduce = Call("c10d::allreduce_", [kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", 4000, grid=(12, 1, 1))])
    return training([reduce, Call("aten::add", [kernel(ADDITION, 4000)])])


def trap_persistent_kernels() -> TraceBuilder:
    """One block for nearly each multiprocessor, which takes its work from a list."""
    return model(76)


RULE = "sm-underfilled"


def test_the_lost_time_is_that_of_the_empty_multiprocessors() -> None:
    # 20 blocks on 80 multiprocessors for 4 of 8 ms: three quarters of 4 ms
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == pytest.approx(3 / 8)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == (0, pytest.approx(3e6))
    assert "at least 0" in finding.saving.basis.text
    assert finding.evidence[0].where[0].value == pytest.approx(0.25)


def test_kernels_bound_by_memory_gain_throughput_and_no_time() -> None:
    small = Call("aten::native_layer_norm", [kernel(NORM, 4000, grid=(20, 1, 1))])
    (finding,) = findings(training([small, addition(4000)]), RULE)
    assert finding.saving is None
    assert finding.severity == "info"
    assert "samples" in finding.advice.text


def test_a_product_that_reads_more_than_it_computes_is_bound_by_memory() -> None:
    # one row times a matrix of 32 Mi numbers: 2 operations for each 4 bytes
    small = Call("aten::mm", [kernel(PRODUCT, 4000, grid=(20, 1, 1))], [[1, 4096], [4096, 8192]], ["float", "float"])
    (finding,) = findings(training([small, addition(4000)]), RULE)
    assert finding.saving is None


def test_only_what_memory_does_not_bound_is_promised() -> None:
    norm = Call("aten::native_layer_norm", [kernel(NORM, 4000, grid=(20, 1, 1))])
    other = Call("aten::mm", [kernel(PRODUCT, 4000, grid=(40, 1, 1))])
    (finding,) = findings(training([norm, other, addition(4000)]), RULE)
    assert finding.evidence[0].observed == pytest.approx(5 / 12)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == (0, pytest.approx(2e6))
    assert "Kernels with 4.0 ms per step (33 % of the time on the GPU)" in finding.summary.text, (
        "both are of those that gain"
    )


def test_what_runs_beside_it_fills_the_rest() -> None:
    # kernels of equal length on two streams start one launch apart
    assert findings(trap_streams_that_overlap(), RULE, {"lost_share": 0.01}) == []


def test_a_table_has_no_blocks() -> None:
    assert "blocks" in (skipped(fires_in_a_table(), RULE) or "")


def test_edge_lost_share() -> None:
    assert findings(fires(), RULE, {"lost_share": 0.375}) == []
    assert findings(fires(), RULE, {"lost_share": 0.375 - 1e-9})


def test_edge_kernel_ns() -> None:
    assert findings(model(20), RULE, {"kernel_ns": 4_000_000})
    assert findings(model(20), RULE, {"kernel_ns": 4_000_001}) == []
