"""Tests of the rule `collectives-many`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings, skipped
from tests.rules.situations.collectives_many import fires, fires_over_gloo, over_gloo, trap_tensor_parallel_inference
from tests.rules.situations.dataloader_bound import fires_in_a_table

RULE = "collectives-many"


def test_nine_tenths_could_go() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.summary.params["calls"] == 200
    assert finding.summary.params["exposed"] == pytest.approx(4_000_000)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == (0, pytest.approx(3_600_000))


def test_says_why_it_cannot_judge() -> None:
    assert "between layers" in (skipped(trap_tensor_parallel_inference(), RULE) or "")
    assert "same time" in (skipped(fires_in_a_table(), RULE) or "")


def test_edge_calls() -> None:
    assert findings(fires(), RULE, {"calls": 200}) == []
    assert findings(fires(), RULE, {"calls": 199.9})


def test_edge_mean_ns() -> None:
    assert findings(fires(), RULE, {"mean_ns": 20_000}) == []
    assert findings(fires(), RULE, {"mean_ns": 20_001})


def test_edge_exposed_share() -> None:
    share = 4000 / 10_100
    assert findings(fires(), RULE, {"exposed_share": share + 0.001}) == []
    assert findings(fires(), RULE, {"exposed_share": share - 0.001})


def test_messages_on_the_cpu_that_fit_into_one_bucket() -> None:
    """Six of 3300 us in all: at most all but the shortest, at least 300 us for each of four that go away."""
    (finding,) = findings(fires_over_gloo(), RULE)
    assert finding.evidence[0].observed == 4, "one bucket, and a first small one, would do"
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((1_200_000, 3_000_000))
    assert "bucket_cap_mb" in (finding.code or "")


def test_edge_surplus() -> None:
    assert findings(fires_over_gloo(), RULE, {"surplus": 4.01}) == []
    assert findings(fires_over_gloo(), RULE, {"surplus": 4})


def test_edge_bytes() -> None:
    trace = over_gloo([500] * 6, elements=1 << 18)
    assert findings(trace, RULE) == []
    assert findings(trace, RULE, {"bytes": (1 << 20) + 1})
