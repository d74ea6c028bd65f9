"""Tests of the rule `ddp-sync-in-accumulation`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings, skipped, varied
from tests.rules.situations.ddp_sync_in_accumulation import fires, fires_over_gloo, in_a_table, training

RULE = "ddp-sync-in-accumulation"


def test_all_but_the_last_exchange_go_away() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == 9, "three of four passes, in three steps"
    assert finding.saving is not None
    assert finding.saving.resource == "communication"
    early = 3 * 5 * 100_000
    assert finding.saving.direct_ns_per_step == pytest.approx((early, early))
    assert finding.saving.wall_ns_per_step == pytest.approx(varied(early / 2, early)), "nothing else runs meanwhile"


def test_two_passes() -> None:
    (finding,) = findings(training([3, 3]), RULE)
    assert finding.evidence[0].observed == 3
    assert finding.summary.params["passes"] == 6


def test_a_table_cannot_tell() -> None:
    assert "which pass" in (skipped(in_a_table(), RULE) or "")


def test_edge_early_exchanges() -> None:
    assert findings(training([3, 3], steps=1), RULE) == []
    assert findings(training([3, 3], steps=2), RULE)


def test_on_the_cpu_threads_that_communicate_are_timed() -> None:
    """Two of three all-reduces of 600 us, which nothing hides: at least half of them; at most 1.35 times
    them and starting them."""
    (finding,) = findings(fires_over_gloo(), RULE)
    assert finding.evidence[0].observed == 6
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((600_000, 1.35 * (1_200_000 + 2 / 3 * 15_000)))
    assert finding.saving.resource == "host"
