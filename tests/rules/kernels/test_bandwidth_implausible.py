"""Tests of the rule `bandwidth-implausible`: numbers worked out by hand, and edges of thresholds.

The programs: sums of two tensors of 4 Mi numbers in fp32, which move 50.3 MB. The V100 moves 900 GB/s, so 56 us.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.hardware import Device
from tests.rules.gpu_work import ADDITION, MATRIX_UNITS, Call, kernel, product, training
from tests.rules.judging import findings, skipped
from tests.rules.loader.test_dataloader_bound import fires_in_a_table

RULE = "bandwidth-implausible"
SIDE = 2048
BYTES = 3 * 4 * SIDE * SIDE
UNKNOWN = Device("Unknown", 2**34, 40, 7, 5)
PRODUCT = product(MATRIX_UNITS, 2000)


def add(dur: int, side: int = SIDE, name: str = ADDITION, dtype: str = "float") -> Call:
    """A sum of two matrices."""
    return Call("aten::add", [kernel(name, dur)], [[side, side], [side, side], []], [dtype, dtype, "Scalar"])


def fires() -> TraceBuilder:
    """A sum takes 1 ms, as over PCIe: 50 GB/s."""
    return training([add(1000), add(1000), PRODUCT])


def fires_without_a_data_sheet() -> TraceBuilder:
    """10 ms: 5 GB/s."""
    return training([add(10_000), add(10_000), PRODUCT], device=UNKNOWN)


def fires_beside_others_that_are_faster() -> TraceBuilder:
    """Large sums at 25 GB/s, small ones at 500."""
    return training([add(26, 1024), add(26, 1024), add(2000), add(2000), PRODUCT], device=UNKNOWN)


def quiet() -> TraceBuilder:
    """A sum at 700 GB/s."""
    return training([add(72)] * 10)


def trap_at_low_clocks() -> TraceBuilder:
    """Half of the bandwidth is what a GPU without much power reaches."""
    return training([add(112)] * 10)


def trap_first_launch() -> TraceBuilder:
    """The first launch loads the code of the kernel; one step has no other of it."""
    return training([add(20_000), PRODUCT], steps=1)


def trap_not_contiguous() -> TraceBuilder:
    """Another kernel is launched for strides and broadcasts."""
    strided = ADDITION.replace("vectorized_elementwise_kernel<4", "elementwise_kernel<128, 2")
    return training([add(1000, name=strided)] * 4)


def trap_broadcast() -> TraceBuilder:
    """A row is added to each row of a matrix; its kernel computes places for each element."""
    broadcast = ADDITION.replace("vectorized_elementwise_kernel<4", "elementwise_kernel<128, 2")
    shapes = [[SIDE, SIDE], [SIDE], []]
    return training([Call("aten::add", [kernel(broadcast, 1000)], shapes, ["float", "float", "Scalar"])] * 4)


def trap_tiny() -> TraceBuilder:
    """8 KB in 5 us is 1.6 GB/s: that is the launch."""
    return training([add(5, 26)] * 400)


def trap_fp64() -> TraceBuilder:
    """A card for games computes fp64 so slowly that memory does not matter."""
    return training([add(2000, dtype="double")] * 4)


def trap_beside_other_kernels() -> TraceBuilder:
    """Kernels of two streams share the memory."""
    return training([add(1000), product(MATRIX_UNITS, 1000)] * 4, streams=2)


def test_the_rate_is_compared_with_the_data_sheet() -> None:
    # Two sums a step, without the first of all: five of 1 ms in three steps.
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == pytest.approx(5 / 12)
    assert "50.33 GB/s" in finding.summary.text
    assert "900 GB/s" in finding.summary.text
    assert finding.saving is not None
    gone = 5 / 3 * (1_000_000 - BYTES / 900), 5 / 3 * (1_000_000 - 2 * BYTES / 900)
    assert finding.saving.direct_ns_per_step == pytest.approx((gone[1], gone[0]), rel=0.01)


def test_without_a_data_sheet_and_a_better_kernel_nothing_is_promised() -> None:
    (finding,) = findings(fires_without_a_data_sheet(), RULE)
    assert "5.033 GB/s" in finding.summary.text
    assert finding.saving is None
    assert finding.severity == "medium"


def test_others_of_the_recording_tell_what_the_memory_can() -> None:
    (finding,) = findings(fires_beside_others_that_are_faster(), RULE)
    assert "others 484.0 GB/s" in finding.summary.text  # 12.6 MB in 26 us
    assert finding.saving is not None


def test_a_table_does_not_tell() -> None:
    assert "contiguous" in (skipped(fires_in_a_table(), RULE) or "")


def test_edge_bytes() -> None:
    assert findings(fires(), RULE, {"bytes": BYTES})
    assert findings(fires(), RULE, {"bytes": BYTES + 1}) == []


def test_edge_bandwidth_share() -> None:
    share = BYTES / 1e6 / 900
    assert findings(fires(), RULE, {"bandwidth_share": share}) == []
    assert findings(fires(), RULE, {"bandwidth_share": share + 1e-9})


def test_edge_least_rate() -> None:
    rate = BYTES / 10_000_000
    assert findings(fires_without_a_data_sheet(), RULE, {"least_rate": rate}) == []
    assert findings(fires_without_a_data_sheet(), RULE, {"least_rate": rate + 1e-9})


def test_edge_ratio() -> None:
    ratio = (12 * 1024**2 / 26_000) / (BYTES / 2_000_000)
    assert findings(fires_beside_others_that_are_faster(), RULE, {"ratio": ratio + 1e-9}) == []
    assert findings(fires_beside_others_that_are_faster(), RULE, {"ratio": ratio - 1e-9})
