"""Tests of the rule `gemm-below-roof`: numbers worked out by hand, and edges of thresholds.

The programs: large products in 16 bits, at the pace of their kernels.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.hardware import A100, Device
from tests.rules.gpu_work import MATRIX_UNITS, addition, product, training
from tests.rules.judging import findings, skipped
from tests.rules.loader.test_dataloader_bound import fires_in_a_table

HALF = "c10::BFloat16"
SIDES = [[4096, 4096], [4096, 4096]]
"""2 * 4096^3 = 137.4 GFLOP, 440.5 us at the 312 TFLOP/s of an A100."""


def model(dur: int, *, other: int = 100, kind: str = HALF) -> TraceBuilder:
    """One large product of a duration in us, and an addition."""
    return training([product(MATRIX_UNITS, dur, SIDES, kind), addition(other)], device=A100)


def fires() -> TraceBuilder:
    """The product takes 1100 us: 40 % of the peak."""
    return model(1100)


def quiet() -> TraceBuilder:
    """The product takes 600 us: 73 % of the peak."""
    return model(600)


def trap_small_products() -> TraceBuilder:
    """A product of small sides cannot fill the device, whatever its kernel does."""
    return training([product(MATRIX_UNITS, 20, [[512, 512], [512, 512]], HALF), addition(10)], device=A100)


def trap_a_product_that_memory_bounds() -> TraceBuilder:
    """A few tokens times a large matrix: its weights must be read."""
    return training([product(MATRIX_UNITS, 200, [[16, 8192], [8192, 8192]], HALF), addition(10)], device=A100)


RULE = "gemm-below-roof"
LEAST_US = 2 * 4096**3 / 312e6
"""Time of the product at the dense peak of an A100."""


def test_the_bound_is_the_pace_of_tuned_libraries() -> None:
    (finding,) = findings(fires(), RULE)
    reached = LEAST_US / 1100
    assert finding.evidence[0].observed == pytest.approx(reached)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == (0, pytest.approx(1_100_000 * (1 - reached / 0.6)))
    assert finding.severity == "medium", "a ceiling: the saving is a loose bound"
    assert finding.code == 'model = torch.compile(model, mode="max-autotune")'


def test_without_limits_of_the_gpu_it_is_skipped() -> None:
    unknown = training([product(MATRIX_UNITS, 1100, SIDES, HALF)], device=Device("My GPU", 2**34, 50, 8, 0))
    assert findings(unknown, RULE) == []
    assert "types" in (skipped(fires_in_a_table(), RULE) or "")


def test_fp32_has_rules_of_its_own() -> None:
    assert findings(model(1100, kind="float"), RULE) == []


def test_edge_gpu_share() -> None:
    # 1100 of 1200 us
    assert findings(fires(), RULE, {"gpu_share": 1100 / 1200}) == []
    assert findings(fires(), RULE, {"gpu_share": 1100 / 1200 - 1e-9})


def test_edge_call_ns() -> None:
    assert findings(fires(), RULE, {"call_ns": 1_100_000})
    assert findings(fires(), RULE, {"call_ns": 1_100_001}) == []
