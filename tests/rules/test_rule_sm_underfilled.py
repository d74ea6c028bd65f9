"""Tests of the rule `sm-underfilled`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings, skipped
from tests.rules.situations.dataloader_bound import fires_in_a_table
from tests.rules.situations.sm_underfilled import fires, model, trap_streams_that_overlap

RULE = "sm-underfilled"


def test_the_lost_time_is_that_of_the_empty_multiprocessors() -> None:
    # 20 blocks on 80 multiprocessors for 4 of 8 ms: three quarters of 4 ms
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == pytest.approx(3 / 8)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == (0, pytest.approx(3e6))
    assert "at least 0" in finding.saving.basis.text
    assert finding.evidence[0].where[0].value == pytest.approx(0.25)


def test_what_runs_beside_it_fills_the_rest() -> None:
    # kernels of equal length on two streams start one launch apart
    assert findings(trap_streams_that_overlap(), RULE, {"lost_share": 0.01}) == []


def test_a_table_has_no_blocks() -> None:
    assert "blocks" in (skipped(fires_in_a_table(), RULE) or "")


def test_edge_lost_share() -> None:
    assert findings(fires(), RULE, {"lost_share": 0.375}) == []
    assert findings(fires(), RULE, {"lost_share": 0.375 - 1e-9})


def test_edge_kernel_ns() -> None:
    assert findings(model(20), RULE, {"kernel_ns": 4_000_000})
    assert findings(model(20), RULE, {"kernel_ns": 4_000_001}) == []
