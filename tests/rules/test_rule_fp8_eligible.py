"""Tests of the rule `fp8-eligible`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import ast

import pytest

from tests.builders.hardware import H100
from tests.rules.gpu_work import Call, kernel, product, training
from tests.rules.judging import findings, report, skipped
from tests.rules.situations.dataloader_bound import fires_in_a_table
from tests.rules.situations.fp8_eligible import (
    HALF,
    HOPPER,
    SIDES,
    fires,
    fires_with_a_bias_in_fp16,
    fires_with_fp4,
    model,
    trap_a_waiting_device,
    trap_an_unknown_device,
    trap_kernels_in_fp8,
    trap_odd_sides,
)
from traceanalyzer.rules.engine.selection import builtin
from traceanalyzer.rules.kernels.products import _INFERENCE

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


def test_edge_busy_share() -> None:
    busy = findings(fires(), RULE)[0].evidence[1].observed
    assert findings(fires(), RULE, {"busy_share": busy}) == []
    assert findings(fires(), RULE, {"busy_share": busy - 1e-9})
