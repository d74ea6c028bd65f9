"""Tests of the rule `gemm-degenerate`: numbers worked out by hand, and edges of thresholds.

The programs: products with a side of 1.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import corpus_files
from tests.builders import TraceBuilder
from tests.builders.hardware import V100
from tests.rules.gpu_work import addition, product, training
from tests.rules.judging import findings, skipped, table

SGEMM = "volta_sgemm_64x64_nn"
ROWS = 1_000_000


def fires() -> TraceBuilder:
    """`Linear(1, 128)` on a million rows: 516 MB in 3 ms, where the V100 needs 0.57 ms."""
    return training([product(SGEMM, 3000, [[ROWS, 1], [1, 128]]), addition(3000)], device=V100)


def fires_in_a_table() -> str:
    """The program in a printed table; a sum of large tensors shows the memory bandwidth."""
    return printed([("aten::mm", "[[1000000, 1], [1, 128]]", "30.000ms")])


def quiet() -> TraceBuilder:
    """Products with sides of some length."""
    return training([product(SGEMM, 3000), addition(3000)], device=V100)


def trap_decoding() -> TraceBuilder:
    """One token times the weights of a language model: the weights must be read."""
    gemv = "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>"
    return training([product(gemv, 3000, [[1, 4096], [4096, 32000]]), addition(3000)], device=V100)


def trap_as_fast_as_memory() -> TraceBuilder:
    """A product with one column that reaches the bandwidth of the memory."""
    return training([product(SGEMM, 600, [[ROWS, 128], [128, 1]]), addition(600)], device=V100)


def trap_small() -> TraceBuilder:
    """The head of a classifier with one class, on a batch."""
    return training([product(SGEMM, 3000, [[64, 512], [512, 1]]), addition(3000)], device=V100)


def trap_bandwidth_unknown_in_a_table() -> str:
    """Nothing in the table shows the memory bandwidth."""
    return printed([("aten::mm", "[[4096, 1], [1, 128]]", "30.000ms")], copies=False)


def printed(products: list[tuple[str, str, str]], *, copies: bool = True) -> str:
    """A table by shapes of 100 ms on the GPU: products, and ten sums of tensors with 200 MB in 1 ms (600 GB/s)."""
    rows = [(name, shapes, time) for name, shapes, time in products]
    if copies:
        rows.append(("aten::add", "[[50000000], [50000000], []]", "10.000ms"))
    cells = [
        {
            "Name": name,
            "Self CPU": "1.000ms",
            "CPU total": "1.000ms",
            "Self CUDA": time,
            "# of Calls": 10,
            "Input Shapes": shapes,
        }
        for name, shapes, time in rows
    ]
    return table(cells, cpu="5.000ms", device="100.000ms")


RULE = "gemm-degenerate"
BYTES = 4 * (1_000_000 + 128 + 128_000_000)


def test_what_is_above_moving_the_bytes_could_go() -> None:
    # 3 ms; at most at the 900 GB/s of a V100, at least at the 720 GB/s that a sum of the same run reaches
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == pytest.approx(0.5)
    assert finding.saving is not None
    expected = 3e6 - BYTES / 720, 3e6 - BYTES / 900
    assert finding.saving.direct_ns_per_step == pytest.approx(expected, rel=0.001)


def test_in_a_table_the_fastest_operator_tells_the_bandwidth() -> None:
    # 3 ms a call; 50 million elements, read twice and written once in 1 ms, are 600 GB/s; half of that at least
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.saving is not None
    expected = 10 * (3e6 - BYTES / 300), 10 * (3e6 - BYTES / 600)
    assert finding.saving.direct_ns_per_step == pytest.approx(expected, rel=0.001)
    assert finding.evidence[0].where[0].shapes == "[[1000000, 1], [1, 128]]"


def test_without_a_bandwidth_it_is_skipped() -> None:
    assert "the memory bandwidth of the GPU is unknown" in (skipped(trap_bandwidth_unknown_in_a_table(), RULE) or "")


def test_gradients_with_a_long_inner_side_count() -> None:
    made, gradient = "[[1000000, 1], [1, 128]]", "[[128, 1000000], [1000000, 1]]"
    (finding,) = findings(printed([("aten::mm", made, "30.000ms"), ("aten::mm", gradient, "20.000ms")]), RULE)
    assert finding.evidence[0].observed == pytest.approx(0.5)


def test_edge_gpu_share() -> None:
    assert findings(fires(), RULE, {"gpu_share": 0.5}) == []
    assert findings(fires(), RULE, {"gpu_share": 0.5 - 1e-9})


def test_edge_excess() -> None:
    excess = 3e6 / (BYTES / 900)
    assert findings(fires(), RULE, {"excess": excess + 1e-6}) == []
    assert findings(fires(), RULE, {"excess": excess - 1e-6})


def test_edge_side() -> None:
    assert findings(fires(), RULE, {"side": 1_000_000})
    assert findings(fires(), RULE, {"side": 1_000_001}) == []


def test_edge_call_ns() -> None:
    assert findings(fires(), RULE, {"call_ns": 3_000_000})
    assert findings(fires(), RULE, {"call_ns": 3_000_001}) == []


def test_worked_number_of_document_002(corpus: Path) -> None:
    (document,) = (corpus / "documents").glob("002_*")
    (finding,) = [f for f in corpus_files.report_of(document).findings if f.rule == RULE]
    times = [place.value for place in finding.evidence[0].where]
    shares = [time / 28.157e9 for time in times if time is not None]
    assert shares == pytest.approx([0.0735, 0.0240, 0.0223], abs=0.0001)
    assert finding.run == "run-1", "nothing of the kind is left after the change"
