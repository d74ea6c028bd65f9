"""Tests of the rule `gemm-degenerate`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.judging import findings, skipped
from tests.rules.situations.gemm_degenerate import fires, fires_in_a_table, printed, trap_bandwidth_unknown_in_a_table
from traceanalyzer import analyze, load

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
    (finding,) = [f for f in analyze(load(document)).findings if f.rule == RULE]
    times = [place.value for place in finding.evidence[0].where]
    shares = [time / 28.157e9 for time in times if time is not None]
    assert shares == pytest.approx([0.0735, 0.0240, 0.0223], abs=0.0001)
    assert finding.run == "run-1", "nothing of the kind is left after the change"
