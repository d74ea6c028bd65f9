"""Tests of the rule `occupancy-low`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings, skipped
from tests.rules.situations.dataloader_bound import fires_in_a_table
from tests.rules.situations.occupancy_low import fires, model, trap_no_figure

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
