"""Tests of the rule `matmul-dims-misaligned`: numbers worked out by hand, and edges of thresholds.

The programs: products in half precision with odd sides.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import corpus_files
from tests.builders import TraceBuilder
from tests.builders.hardware import A100, Device
from tests.rules.gpu_work import MATRIX_UNITS, addition, product, training
from tests.rules.judging import findings, skipped
from tests.rules.loader.test_dataloader_bound import fires_in_a_table

ODD = "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_256x128_tn_align1>"
HALF = "c10::BFloat16"


def model(odd_us: int, aligned_us: int = 100, *, kernel: str = ODD, side: int = 2047) -> TraceBuilder:
    """A product with an odd side, and one of about the same size without; 17 GFLOP each."""
    odd = product(kernel, odd_us, [[2048, 2048], [2048, side]], HALF)
    aligned = product(MATRIX_UNITS, aligned_us, [[2048, 2048], [2048, 2048]], HALF)
    return training([odd, aligned, addition(100)], device=A100)


def fires() -> TraceBuilder:
    """The odd product takes 400 us, the aligned one of its size 100 us."""
    return model(400)


def fires_without_a_peer() -> TraceBuilder:
    """Nothing to compare with, but the kernel loads element by element and is far from what the GPU can do."""
    return training([product(ODD, 400, [[2048, 2048], [2048, 2047]], HALF), addition(100)], device=A100)


def quiet() -> TraceBuilder:
    """All sides are multiples of 8."""
    return model(400, side=2048)


def trap_the_library_pads() -> TraceBuilder:
    """The odd product is as fast as the aligned one."""
    return model(110)


def trap_a_slow_kernel_that_loads_whole_vectors() -> TraceBuilder:
    """Its name shows that it is not slow because of alignment."""
    return model(400, kernel="void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_64x64_32x6_tn_align8>")


def trap_an_odd_number_of_rows() -> TraceBuilder:
    """The first side, as a batch of tokens, does not matter: rows are stored one after another."""
    odd = product(MATRIX_UNITS, 400, [[2047, 2048], [2048, 2048]], HALF)
    return training([odd, product(MATRIX_UNITS, 100, None, HALF)], device=A100)


def trap_fp32() -> TraceBuilder:
    """In fp32 nothing has to be a multiple of 8."""
    odd = product("ampere_sgemm_128x64_nn", 400, [[2048, 2048], [2048, 2047]])
    return training([odd, product("ampere_sgemm_128x64_nn", 100)], device=A100)


RULE = "matmul-dims-misaligned"


def test_the_pace_of_an_aligned_product_of_its_size_is_the_bound() -> None:
    # 400 us against 100 us for nearly the same work: three quarters could go
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == pytest.approx(0.25, rel=0.001)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == (0, pytest.approx(300_000, rel=0.001))
    assert "align" in finding.saving.basis.text


def test_without_a_product_of_its_size_less_than_a_third_is_promised() -> None:
    (finding,) = findings(fires_without_a_peer(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == (0, pytest.approx(0.3 * 400_000))
    assert "of what the GPU could do" in finding.summary.text


def test_aligned_products_of_another_size_tell_the_pace_but_promise_no_more() -> None:
    small = product(MATRIX_UNITS, 20, [[1024, 1024], [1024, 1024]], HALF)
    odd = product(ODD, 400, [[2048, 2048], [2048, 2047]], HALF)
    (finding,) = findings(training([odd, small], device=A100), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[1] == pytest.approx(0.3 * 400_000)


def test_without_limits_of_the_gpu_it_is_skipped() -> None:
    odd = product(ODD, 400, [[2048, 2048], [2048, 2047]], HALF)
    assert "unknown" in (skipped(training([odd], device=Device("My GPU", 2**34, 50, 8, 0)), RULE) or "")


def test_a_table_has_no_types() -> None:
    assert "types" in (skipped(fires_in_a_table(), RULE) or "")


def test_edge_gpu_share() -> None:
    # 400 of 600 us
    assert findings(fires(), RULE, {"gpu_share": 2 / 3}) == []
    assert findings(fires(), RULE, {"gpu_share": 2 / 3 - 1e-9})


def test_edge_call_ns() -> None:
    assert findings(model(400), RULE, {"call_ns": 400_000})
    assert findings(model(400), RULE, {"call_ns": 400_001}) == []


def test_odd_sides_of_attention_are_the_business_of_attention(corpus: Path) -> None:
    measured = corpus_files.report_of(corpus / "corpus" / "owlv2_h100_inference.json.gz")
    rules = {f.rule for f in measured.findings}
    assert "attention-unfused" in rules, "[[16,5185,64],[16,64,5185]], which a fused kernel does not compute"
    assert RULE not in rules
