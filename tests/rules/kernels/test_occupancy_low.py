"""Tests of the rule `occupancy-low`: numbers worked out by hand, and edges of thresholds.

The programs: kernels with few threads in flight.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.rules.gpu_work import ADDITION, Call, addition, kernel, training
from tests.rules.judging import findings, skipped
from tests.rules.loader.test_dataloader_bound import fires_in_a_table

REDUCTION = "void at::native::reduce_kernel<128, 4, at::native::ReduceOp<float, at::native::MeanOps<float, float> > >"


def model(
    occupancy: int, dur: int = 3000, *, name: str = REDUCTION, grid: tuple[int, int, int] = (4096, 1, 1)
) -> TraceBuilder:
    """A kernel with an occupancy in percent, beside 5 ms of other work."""
    odd = Call("aten::mean", [kernel(name, dur, occupancy=occupancy, grid=grid)], [[4096, 4096]], ["float"])
    return training([odd, addition(5000)])


def fires() -> TraceBuilder:
    """A reduction with 12 % takes 3 of 8 ms."""
    return model(12)


def quiet() -> TraceBuilder:
    """A kernel with an occupancy of 60 %."""
    return model(60)


def trap_products() -> TraceBuilder:
    """Products and fused attention run well with few threads."""
    flash = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4> >"
    names = ["ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_32x3_tn", flash]
    works = [Call("aten::mm", [kernel(name, 3000, occupancy=12)]) for name in names]
    return training([*works, addition(1000)])


def trap_no_figure() -> TraceBuilder:
    """An occupancy of 0 means that the profiler has none."""
    return training([Call("aten::mean", [kernel(REDUCTION, 3000, occupancy=0)]), addition(5000)])


def trap_few_blocks() -> TraceBuilder:
    """With fewer blocks than multiprocessors, it is the grid that is too small."""
    return model(3, grid=(10, 1, 1))


def trap_short_kernels() -> TraceBuilder:
    """Kernels of a few microseconds are bound by their launch."""
    short = Call("aten::mean", [kernel(REDUCTION, 6, occupancy=10)] * 50)
    return training([short, Call("aten::add", [kernel(ADDITION, 500)])])


RULE = "occupancy-low"


def test_says_where_to_look_and_promises_nothing() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is None
    assert finding.severity == "info"
    assert finding.evidence[0].observed == pytest.approx(0.12)
    assert finding.summary.params["share"] == pytest.approx(3 / 8)


def test_without_any_figure_it_is_skipped() -> None:
    build = model(0)
    assert "recorded occupancy" not in (skipped(trap_no_figure(), RULE) or "")  # the other kernel has one
    assert skipped(build, RULE) is None
    assert "no occupancy" in (skipped(fires_in_a_table(), RULE) or "")


def test_edge_occupancy() -> None:
    assert findings(fires(), RULE, {"occupancy": 0.12}) == []
    assert findings(fires(), RULE, {"occupancy": 0.12 + 1e-9})


def test_edge_gpu_share() -> None:
    assert findings(fires(), RULE, {"gpu_share": 3 / 8})
    assert findings(fires(), RULE, {"gpu_share": 3 / 8 + 1e-9}) == []


def test_edge_kernel_ns() -> None:
    assert findings(fires(), RULE, {"kernel_ns": 3_000_000})
    assert findings(fires(), RULE, {"kernel_ns": 3_000_001}) == []
