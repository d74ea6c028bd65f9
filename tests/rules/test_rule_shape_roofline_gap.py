"""Tests of the rule `shape-roofline-gap`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.judging import findings, skipped
from tests.rules.situations.dataloader_bound import fires_in_a_table as without_shapes
from tests.rules.situations.shape_roofline_gap import (
    NARROW,
    WIDE,
    fires,
    fires_against_the_memory,
    fires_in_a_table,
)
from traceanalyzer import analyze, load

RULE = "shape-roofline-gap"


def test_the_cheaper_order_of_operands_is_the_price() -> None:
    # 20 ms and 2 ms for the same bytes: 18 ms per step
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((18e6, 18e6))
    assert finding.confidence == "A"
    assert finding.evidence[0].observed == pytest.approx(10)
    shapes = [place.shapes for place in finding.evidence[0].where]
    assert [str(s).replace(" ", "") for s in shapes] == [
        str([NARROW, WIDE]).replace(" ", ""),
        str([WIDE, NARROW]).replace(" ", ""),
    ]


def test_the_bandwidth_of_the_memory_is_the_other_bound() -> None:
    # 2^28 floats, in and out, are 2.147 GB: 1.381 ms at 1555 GB/s; at half of that 2.762 ms
    (finding,) = findings(fires_against_the_memory(), RULE)
    assert finding.saving is not None
    floor = 2**31 / 1555
    assert finding.saving.direct_ns_per_step == pytest.approx((7e6 - 2 * floor, 7e6 - floor), rel=1e-4)
    assert finding.evidence[0].observed == pytest.approx(7e6 / floor, rel=1e-4)
    assert finding.confidence == "B"


def test_a_table_has_peers_too_if_it_has_shapes() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((54e6, 54e6))
    assert "group_by_input_shape" in (skipped(without_shapes(), RULE) or "")


def test_worked_number_of_document_002(corpus: Path) -> None:
    (document,) = (corpus / "documents").glob("002_*")
    found = [f for f in analyze(load(document)).findings if f.rule == RULE and f.run == "run-1"]
    (finding,) = found
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[1] == pytest.approx(295.8e6, abs=0.05e6)
    assert finding.saving.wall_share[1] == pytest.approx(0.506, abs=0.0005)
    assert finding.severity == "critical"


def test_edge_ratio() -> None:
    assert findings(fires(), RULE, {"ratio": 10}) == []
    assert findings(fires(), RULE, {"ratio": 10 - 1e-9})


def test_edge_gpu_share() -> None:
    assert findings(fires(), RULE, {"gpu_share": 20 / 22}) == []
    assert findings(fires(), RULE, {"gpu_share": 20 / 22 - 1e-9})


def test_edge_call_ns() -> None:
    assert findings(fires(), RULE, {"call_ns": 20_000_000})
    assert findings(fires(), RULE, {"call_ns": 20_000_001}) == []


def test_edge_floor_ns() -> None:
    floor = 2**31 / 1555
    assert findings(fires_against_the_memory(), RULE, {"floor_ns": floor - 1})
    assert findings(fires_against_the_memory(), RULE, {"floor_ns": floor + 1}) == []
