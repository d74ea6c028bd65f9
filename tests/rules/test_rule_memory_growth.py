"""Tests of the rule `memory-growth`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.builders.hardware import A100
from tests.rules.judging import findings, skipped
from tests.rules.situations.dataloader_bound import fires_in_a_table
from tests.rules.situations.memory_growth import (
    MEGA,
    fires,
    fires_on_a_cpu,
    nearly_full,
    training,
    trap_small_growth_on_a_cpu,
)

RULE = "memory-growth"


def test_tells_when_the_device_will_be_full() -> None:
    (finding,) = findings(fires(), RULE)
    peak = (1000 + 100 + 8 * 40) * MEGA
    assert finding.summary.params["growth"] == pytest.approx(40 * MEGA, rel=0.01)
    assert finding.summary.params["left"] == pytest.approx((A100.memory - peak) / (40 * MEGA), rel=0.02)
    assert finding.saving is None


def test_without_a_gpu_the_memory_of_the_host_counts() -> None:
    (finding,) = findings(fires_on_a_cpu(), RULE)
    assert finding.summary.params["device"] == "CPU"
    assert finding.summary.params["growth"] == pytest.approx(40 * MEGA, rel=0.01)
    assert "cuda" not in finding.advice.text
    assert findings(trap_small_growth_on_a_cpu(), RULE, {"growth_share": 0.0}) == []


def test_is_more_urgent_on_a_full_device() -> None:
    assert findings(nearly_full(), RULE, {"growth_share": 0.0})[0].severity == "high"


def test_edge_growth_share() -> None:
    share = findings(fires(), RULE)[0].evidence[0].observed
    assert findings(fires(), RULE, {"growth_share": share}) == []
    assert findings(fires(), RULE, {"growth_share": share - 1e-9})


def test_edge_steps() -> None:
    assert findings(training([40 * MEGA] * 6), RULE)
    assert "at least 6" in (skipped(training([40 * MEGA] * 5), RULE) or "")
    assert findings(training([40 * MEGA] * 5), RULE, {"steps": 4})


def test_a_table_has_no_levels() -> None:
    assert "no memory levels" in (skipped(fires_in_a_table(), RULE) or "")
