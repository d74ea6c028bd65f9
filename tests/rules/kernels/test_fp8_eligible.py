"""Tests of the rule `fp8-eligible`: numbers worked out by hand, and edges of thresholds.

The programs: large products in 16 bits on devices with FP8 and without.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

import pytest

from tests.builders import TraceBuilder
from tests.builders.hardware import A100, B200, H100, Device
from tests.rules.gpu_work import MATRIX_UNITS, Call, addition, kernel, product, training
from tests.rules.judging import findings, report, skipped
from tests.rules.loader.test_dataloader_bound import fires_in_a_table
from traceanalyzer.rules.engine.selection import builtin
from traceanalyzer.rules.kernels.products import _INFERENCE

HALF = "c10::BFloat16"
SIDES = [[8192, 8192], [8192, 8192]]
"""2 * 8192^3 = 1100 GFLOP, 1111 us at the 989.4 TFLOP/s of an H100."""
HOPPER = "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT"


def model(
    *,
    dur: int = 1500,
    other: int = 1000,
    device: Device | None = H100,
    kind: str = HALF,
    sides: Sequence[Sequence[object]] = SIDES,
    name: str = HOPPER,
) -> TraceBuilder:
    """One product and an addition, of durations in us: 60 % of the GPU's time unless they are given."""
    return training([product(name, dur, sides, kind), addition(other)], device=device)


def fires() -> TraceBuilder:
    """The product takes 1500 of 2500 us."""
    return model()


def fires_with_a_bias_in_fp16() -> TraceBuilder:
    """A linear layer with a bias."""
    shapes, types = [[8192], *SIDES], ["c10::Half"] * 3
    return training([Call("aten::addmm", [kernel(HOPPER, 1500)], shapes, types)], device=H100)


def fires_with_fp4() -> TraceBuilder:
    """A B200 computes in FP4, too; nothing is trained."""
    return model(device=B200)


def quiet() -> TraceBuilder:
    """In fp32 there are other steps before."""
    return model(kind="float")


def trap_a_device_without_fp8() -> TraceBuilder:
    """An A100 has no matrix units for it."""
    return model(device=A100, name=MATRIX_UNITS)


def trap_an_unknown_device() -> TraceBuilder:
    """The types of its products are unknown."""
    return model(device=None)


def trap_fp8_is_used() -> TraceBuilder:
    """The largest products are in FP8 already; these were left out."""
    scaled = [*SIDES, [], []], ["c10::Float8_e4m3fn", "c10::Float8_e4m3fn", "float", "float"]
    fp8 = Call("aten::_scaled_mm", [kernel(HOPPER, 700)], *scaled)
    return training([product(HOPPER, 1500, SIDES, HALF), fp8], device=H100)


def trap_kernels_in_fp8() -> TraceBuilder:
    """Only the name of a library's kernel shows FP8."""
    fp8 = Call("_C::gemm", [kernel("void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 7168u>", 300)])
    return training([product(HOPPER, 1500, SIDES, HALF), fp8], device=H100)


def trap_a_small_share() -> TraceBuilder:
    """The product takes 1500 of 5500 us."""
    return model(other=4000)


def trap_weights_are_read() -> TraceBuilder:
    """Sixteen tokens times a large matrix: memory bounds it."""
    return model(sides=[[16, 8192], [8192, 8192]])


def trap_attention_written_out() -> TraceBuilder:
    """Products of activations belong to no linear layer."""
    return model(sides=[[64, 2048, 2048], [64, 2048, 2048]])


def trap_odd_sides() -> TraceBuilder:
    """FP8 kernels need sides that are multiples of 16."""
    return model(sides=[[8192, 8192], [8192, 8200]])


def trap_a_waiting_device() -> TraceBuilder:
    """The GPU works for 1500 of 4000 us."""
    trace = TraceBuilder(devices=(H100,), options=("record_shapes",))
    for number in range(3):
        start = 4000 * number
        trace.annotation(f"ProfilerStep#{number}", start, 3990)
        trace.op("aten::mm", start + 5, 20, shapes=SIDES, types=[HALF, HALF])
        trace.launch_kernel(HOPPER, start + 30, 1500, at=start + 10)
    return trace


RULE = "fp8-eligible"
DEFINED = next(rule for rule in builtin() if rule.id == RULE)


def test_it_is_information_without_a_promise() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == pytest.approx(1500 / 2500)
    assert finding.evidence[0].where[0].shapes == "[[8192,8192],[8192,8192]]"
    assert (finding.severity, finding.saving, DEFINED.stage) == ("info", None, "preview")
    assert "1,979 TFLOP/s in FP8" in finding.summary.text
    assert "989.4 TFLOP/s in 16 bits" in finding.summary.text
    assert "accuracy must be checked" in finding.advice.text
    assert findings(fires_with_a_bias_in_fp16(), RULE)[0].evidence[0].observed == pytest.approx(1)


def test_code_is_that_of_the_kind_of_program() -> None:
    assert ast.parse(_INFERENCE)
    trained = fires()
    trained.op("Optimizer.step#SGD.step", 30, 2)
    assert findings(trained, RULE)[0].code == DEFINED.code
    assert findings(fires(), RULE)[0].code == _INFERENCE, "no sign of gradients"
    served = fires()
    served.annotation("step[EXTEND bs=2 toks=3000]", 20, 2)
    assert findings(served, RULE)[0].code is None


def test_fp4_is_for_inference() -> None:
    served = fires_with_fp4()
    served.annotation("step[EXTEND bs=2 toks=3000]", 20, 2)
    (finding,) = findings(served, RULE)
    assert "9,000 TFLOP/s in FP4, 4,500 TFLOP/s in FP8, and 2,250 TFLOP/s in 16 bits" in finding.summary.text
    assert "one bit of mantissa" in finding.advice.text
    trained = fires_with_fp4()
    trained.op("Optimizer.step#SGD.step", 30, 2)
    (finding,) = findings(trained, RULE)
    assert "FP4" not in finding.summary.text + finding.advice.text


def test_without_limits_of_the_gpu_it_is_skipped() -> None:
    assert "FP8" in (skipped(trap_an_unknown_device(), RULE) or "")
    assert "types" in (skipped(fires_in_a_table(), RULE) or "")


def test_traps_are_products_in_16_bits_but_for_one_thing() -> None:
    """Each situation would fire without the property in its name."""
    assert findings(model(sides=[[8192, 8192], [8192, 8208]]), RULE)
    assert findings(trap_odd_sides(), RULE) == []
    assert findings(trap_a_waiting_device(), RULE, {"busy_share": 0.3})
    assert not skipped(trap_kernels_in_fp8(), RULE)


@pytest.mark.parametrize(
    ("name", "is_fp8"),
    [("triton_poi_fused_3bf8a1", False), ("fused_0abf8", False), ("ck_tile::gemm_bf8_bf8", True), ("Cijk_BF8_x", True)],
)
def test_a_hash_in_a_name_is_no_type(name: str, is_fp8: bool) -> None:
    other = Call("my::op", [kernel(name, 300)])
    found = findings(training([product(HOPPER, 1500, SIDES, HALF), other], device=H100), RULE)
    assert (found == []) is is_fp8


def test_it_comes_after_what_saves_time() -> None:
    assert [finding.rule for finding in report(fires()).findings] == ["shape-roofline-gap", RULE]


def test_edge_gpu_share() -> None:
    assert findings(fires(), RULE, {"gpu_share": 0.6}) == []
    assert findings(fires(), RULE, {"gpu_share": 0.6 - 1e-9})
